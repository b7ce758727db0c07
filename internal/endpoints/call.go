package endpoints

import (
	"slices"
	"time"

	"rubato/internal/errs"
	"rubato/internal/governor"
)

// Call marks a one-time call, which has a configuration and a single due time, but no schedule.
type Call struct {
	// Callback is the URL that receives the result; empty: none.
	Callback string
	// Owner is the endpoint of a detached run; zero: it is a call of its own.
	Owner ID
	// Author created the call.
	Author string
	// SentKey is the Idempotency-Key of its requests; empty: the ID of its first attempt.
	SentKey string
	// DueFor is the due time that the templates of its request use; zero: its own.
	DueFor time.Time
}

// Detached reports whether it is a detached run of an endpoint.
func (c *Call) Detached() bool { return c != nil && c.Owner != ID{} }

// CheckCall is [Validator.Check] for the spec of a call, which has no schedule.
func (v *Validator) CheckCall(s Spec) []errs.Field {
	bad := v.single(s)
	if s.StartsChain() {
		return append(bad, errs.Field{
			Field:   "url",
			Code:    "invalid_value",
			Message: "must be an http or https URL; start a chain by POST /v1/chains/{name}/run",
		})
	}
	for _, f := range slices.Concat(v.request(s), v.session(s), timing(ID{}, s), answers(s)) {
		if f.Code == "schedule_required" || slices.ContainsFunc(bad, func(b errs.Field) bool { return b.Field == f.Field }) {
			continue
		}
		bad = append(bad, f)
	}
	return bad
}

// afterCall applies a finished run to a call or a detached run: it plans another attempt if
// infrastructure lost the run or the retry policy allows one. Otherwise the call has ended.
func (e *Endpoint) afterCall(now time.Time, run Finished) (Recorded, error) {
	s := &e.State
	s.Running = nil
	s.LastSlot, s.Anchor = run.Slot, run.Slot
	s.LastRun = run.lastRun()
	if !run.Unanswered {
		var err error
		if s.RetryAfter, err = e.boundedWait(run); err != nil {
			return Recorded{}, err
		}
	}
	decided := Recorded{
		At:      now,
		Cause:   CauseFinish,
		Version: e.Version,
	}
	due, again := e.lossRetry(now, run)
	step := infraStep(due, run.Reason)
	if !again {
		due, again = e.attempt(now, run)
		step = e.retryStep(due)
	}
	switch {
	case again:
	case e.Call.Detached():
		e.Ended, e.GivenUp, e.ChainStarts = true, e.Spec.GivesUp(run), e.Spec.chainStarts(run)
		return decided, nil
	default:
		e.Ended, e.GivenUp = true, run.givenUp()
		return decided, nil
	}
	decided.Decision.Steps = []governor.Step{}
	e.planRetry(&decided, due, step)
	return decided, nil
}
