package httpapi

import (
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
	"rubato/internal/httpapi/api"
)

// question is a what-if on its way to the governor.
type question struct {
	id        endpoints.ID
	in        governor.Input
	spec      endpoints.Spec
	bad       []errs.Field // break rules
	malformed []errs.Field // cannot be read
}

// newQuestion gathers the facts, and complains about those that no rule for endpoints covers.
func newQuestion(spec endpoints.Spec, facts api.ExplainInput, now time.Time) *question {
	q := &question{spec: spec}
	q.identify(facts.EndpointID)
	if facts.Now != nil {
		now = *facts.Now
	}
	q.checkInstant("now", facts.Now)
	q.in = governor.Input{
		EndpointID:  q.id,
		Now:         now,
		Cause:       governor.CauseFinish,
		StartAt:     q.spec.StartAt,
		EndAt:       q.spec.EndAt,
		Baseline:    governor.Baseline{Interval: q.spec.BaselineInterval},
		CatchUp:     q.spec.CatchUp,
		Min:         q.spec.MinInterval,
		Max:         q.spec.MaxInterval,
		Jitter:      q.spec.Jitter,
		Anchor:      q.instant("anchor", facts.Anchor),
		RetryAfter:  q.instant("retryAfter", facts.RetryAfter),
		TargetNext:  q.instant("targetNext", facts.TargetNext),
		FreshUntil:  q.instant("freshUntil", facts.FreshUntil),
		PausedUntil: q.instant("pausedUntil", facts.PausedUntil),
	}
	q.in.LastSlot = q.in.Anchor
	q.cause(facts.Cause)
	if q.spec.Overlap == governor.OverlapQueue && q.in.Cause == governor.CauseFinish { // Due times since the anchor passed during the run.
		q.in.QueuedUntil = now
	}
	q.failures(facts.FailureCount)
	if facts.Hints != nil {
		q.intervalHint(facts.Hints.Interval, now)
		q.oneShotHint(facts.Hints.OneShot, now)
	}
	return q
}

func (q *question) identify(given *string) {
	if given == nil {
		return
	}
	id, err := endpoints.ParseID(*given)
	if err != nil {
		q.malformed = append(q.malformed, errs.Field{
			Field:   "endpointId",
			Code:    "invalid_id",
			Message: noEndpointID,
		})
	}
	q.id = id
}

func (q *question) cause(given *api.Cause) {
	if given == nil {
		return
	}
	q.in.Cause = governor.Cause(*given)
	if !given.Valid() {
		q.complain("cause", "invalid_value", "must be one of finish, replan")
	}
}

// maxFailures is far beyond any count: the backoff stops growing at five.
const maxFailures = 1_000_000

func (q *question) failures(given *int64) {
	if given == nil {
		return
	}
	if *given < 0 || *given > maxFailures {
		q.complain("failureCount", "out_of_range", "must be 0 to 1000000")
		return
	}
	q.in.Failures = int(*given)
}

func (q *question) intervalHint(hint *api.IntervalHintInput, now time.Time) {
	if hint == nil {
		return
	}
	q.hint("hints.interval.", endpoints.Milliseconds(hint.IntervalMs), hint.Reason, now)
	q.checkInstant("hints.interval.expiresAt", &hint.ExpiresAt)
	h := &governor.IntervalHint{
		Interval:    endpoints.Milliseconds(hint.IntervalMs),
		ExpiresAt:   hint.ExpiresAt,
		OutageSince: q.instant("hints.interval.outageSince", hint.OutageSince),
	}
	set(&h.Reason, hint.Reason)
	q.in.IntervalHint = h
}

func (q *question) oneShotHint(hint *api.OneShotHintInput, now time.Time) {
	if hint == nil {
		return
	}
	q.hint("hints.oneShot.", time.Minute, hint.Reason, now)
	q.checkInstant("hints.oneShot.at", &hint.At)
	q.checkInstant("hints.oneShot.expiresAt", &hint.ExpiresAt)
	h := &governor.OneShotHint{At: hint.At, ExpiresAt: hint.ExpiresAt}
	set(&h.Reason, hint.Reason)
	q.in.OneShot = h
}

// hint judges interval and reason as those of a hint on an endpoint. Its instants may lie in the
// past here: that a hint has expired or was used is a candidate for an explanation.
func (q *question) hint(path string, interval time.Duration, reason *string, now time.Time) {
	request := endpoints.HintRequest{Interval: interval, TTL: new(time.Minute)}
	set(&request.Reason, reason)
	for _, f := range errs.FieldsOf(request.CheckInterval(now)) {
		q.complain(path+f.Field, f.Code, f.Message)
	}
}

func (q *question) instant(path string, t *time.Time) time.Time {
	q.checkInstant(path, t)
	return given(t)
}

func (q *question) checkInstant(path string, t *time.Time) {
	if t != nil && !sane(*t) {
		q.complain(path, "out_of_range", saneYears)
	}
}

func (q *question) complain(path, code, message string) {
	q.bad = append(q.bad, errs.Field{
		Field:   path,
		Code:    code,
		Message: message,
	})
}
