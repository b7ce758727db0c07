package endpoints

import (
	"fmt"
	"time"

	"rubato/internal/errs"
	"rubato/internal/governor"
)

// Advice is what the planner wants changed at an endpoint. Whoever gives it can change nothing else: the two hints, and a pause that ends
// within [MaxPlannerPause].
type Advice struct {
	Clear       bool          // forgets both hints, before the others are set
	Interval    *HintRequest  // nil: no other interval
	OneShot     *HintRequest  // nil: no single run
	Pause       time.Duration // 0: no pause
	PauseReason string
}

// ApplyAdvice does what an advice says, in the name of an author, and replans; see [Service] for who else changes endpoints. It refuses all of it
// with an [errs.Conflict] where the endpoint is archived, or paused by whomever: what a person holds back the planner does not touch. Bad
// parts are an [errs.Invalid], and change nothing.
func (e *Endpoint) ApplyAdvice(now time.Time, by Actor, author string, a Advice) (*Recorded, error) {
	if e.Archived() {
		return nil, errs.New(errs.Conflict, "endpoint_archived", "the endpoint is archived and cannot be changed")
	}
	if e.PausedAt(now) {
		return nil, errs.New(errs.Conflict, "endpoint_paused", "the endpoint is paused; whoever paused it resumes it")
	}
	before := *e
	if err := e.take(now, author, a); err != nil {
		return nil, err
	}
	planned, err := e.follow(now, &before, CauseHint, by)
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

// CheckPlannerPause returns what is wrong with a pause that the planner asks for.
func CheckPlannerPause(span time.Duration, reason string) error {
	var bad []errs.Field
	if span < time.Second || span > MaxPlannerPause {
		bad = append(bad, errs.Field{Field: "forMs", Code: "out_of_range", Message: "must be 1000 (a second) to 3600000 (an hour); only a person pauses for longer"})
	}
	return errs.InvalidFields(append(bad, checkReason(reason)...))
}

// Tempo returns how far apart the due times of an endpoint are as things stand at an instant: that of its hint, its interval with the
// backoff, or the distance of the next two occurrences of its cron, each within the clamps. A cron that does not fire twice more has none: 0.
func (e *Endpoint) Tempo(now time.Time) (time.Duration, error) {
	in, err := e.input(now, governor.CauseReplan)
	if err != nil {
		return 0, err
	}
	return governor.Tempo(in), nil
}

// Usual returns how far apart the due times of an endpoint are with neither hint nor backoff: what its user asked for, within the clamps.
func (e *Endpoint) Usual(now time.Time) (time.Duration, error) {
	calm := *e
	calm.State.IntervalHint, calm.State.FailureCount = nil, 0
	every, err := calm.Tempo(now)
	if err != nil {
		return 0, fmt.Errorf("finding how often endpoint %s is to run: %w", e.ID, err)
	}
	return every, nil
}
