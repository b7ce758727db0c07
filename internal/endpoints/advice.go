package endpoints

import (
	"fmt"
	"time"

	"rubato/internal/errs"
	"rubato/internal/governor"
)

// Advice is a change that the planner requests for an endpoint. It is limited to the two hints and
// a pause of at most [MaxPlannerPause].
type Advice struct {
	// Clear drops both hints before the others are set.
	Clear bool
	// Interval is nil for no interval hint.
	Interval *HintRequest
	// OneShot is nil for no one-shot hint.
	OneShot *HintRequest
	// Pause is 0 for no pause.
	Pause       time.Duration
	PauseReason string
}

// ApplyAdvice applies an advice in the name of an author, and replans. It is all or nothing. The
// error is an [errs.Conflict] if the endpoint is archived or paused, because the planner must not
// override a pause, and an [errs.Invalid] if a part is not valid.
func (e *Endpoint) ApplyAdvice(now time.Time, by Actor, author string, a Advice) (*Recorded, error) {
	if e.Archived() {
		return nil, errs.New(errs.Conflict, "endpoint_archived", "the endpoint is archived and cannot be changed")
	}
	if e.PausedAt(now) {
		return nil, errs.New(errs.Conflict, "endpoint_paused", "the endpoint is paused; resume it first")
	}
	before := *e
	if err := e.take(now, author, a); err != nil {
		return nil, err
	}
	planned, err := e.replanAfter(now, &before, CauseHint, by)
	if planned != nil {
		planned.Author = author
	}
	return planned, err
}

func (e *Endpoint) take(now time.Time, author string, a Advice) error {
	s := &e.State
	if a.Clear {
		s.IntervalHint, s.OneShotHint = nil, nil
	}
	if a.Interval != nil {
		h, err := a.Interval.interval(now)
		if err != nil {
			return err
		}
		h.Author = author
		s.IntervalHint = &h
	}
	if a.OneShot != nil {
		h, err := a.OneShot.oneShot(now)
		if err != nil {
			return err
		}
		h.Author = author
		s.OneShotHint = &h
	}
	if a.Pause == 0 {
		return nil
	}
	if err := CheckPlannerPause(a.Pause, a.PauseReason); err != nil {
		return err
	}
	s.PausedUntil, s.PauseReason = now.Add(a.Pause), author+": "+a.PauseReason
	return nil
}

// CheckPlannerPause returns the faults of a pause that the planner requests, as an [errs.Invalid].
func CheckPlannerPause(span time.Duration, reason string) error {
	var bad []errs.Field
	if span < time.Second || span > MaxPlannerPause {
		bad = append(bad, errs.Field{
			Field:   "forMs",
			Code:    "out_of_range",
			Message: "must be 1000 (a second) to 3600000 (an hour); only a person pauses for longer",
		})
	}
	return errs.InvalidFields(append(bad, checkReason(reason)...))
}

// Tempo returns the time between due times at an instant, within the clamps. It is the interval of
// the hint, the baseline interval with backoff, or the distance of the next two occurrences of the
// cron. It is 0 for a cron that does not fire twice more.
func (e *Endpoint) Tempo(now time.Time) (time.Duration, error) {
	in, err := e.input(now, governor.CauseReplan)
	if err != nil {
		return 0, err
	}
	return governor.Tempo(in), nil
}

// baseline returns the time between due times of the baseline alone, without the clamps.
func (e *Endpoint) baseline(now time.Time) (time.Duration, error) {
	if e.Spec.BaselineCron == "" {
		return e.Spec.BaselineInterval, nil
	}
	plain := *e
	plain.Spec.MinInterval, plain.Spec.MaxInterval = 0, 0
	return plain.Usual(now)
}

// Usual returns the time between due times without hint and backoff: the configured tempo, within
// the clamps.
func (e *Endpoint) Usual(now time.Time) (time.Duration, error) {
	plain := *e
	plain.State.IntervalHint, plain.State.Tempo, plain.State.FailureCount = nil, nil, 0
	every, err := plain.Tempo(now)
	if err != nil {
		return 0, fmt.Errorf("finding how often endpoint %s is to run: %w", e.ID, err)
	}
	return every, nil
}
