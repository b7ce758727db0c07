package endpoints

import (
	"context"
	"time"

	"rubato/internal/errs"
)

// maxReason is the length of a reason, in characters, that the ledger keeps.
const maxReason = 500

// MaxPlannerPause is the longest that the planner may pause an endpoint: to hold it back longer takes a person.
const MaxPlannerPause = time.Hour

// Pause stops an endpoint until an instant; the zero instant means until somebody resumes. When it returns, no run starts any
// more; one that is live goes on. It takes back a request for a run now.
func (s *Service) Pause(ctx context.Context, by Actor, id ID, until time.Time, reason string) (*Endpoint, error) {
	return s.change(ctx, by, id, CausePause, func(e *Endpoint, now time.Time) error {
		if err := CheckPause(until, reason, now); err != nil {
			return err
		}
		e.State.PausedUntil, e.State.PauseReason = pauseEnd(until), reason
		e.State.ManualAt = time.Time{}
		return nil
	})
}

// CheckPause returns what Pause would refuse at an instant, and writes nothing.
func CheckPause(until time.Time, reason string, now time.Time) error {
	var bad []errs.Field
	if end := pauseEnd(until); !end.After(now) || end.After(indefinitely) {
		bad = append(bad, errs.Field{Field: "until", Code: "out_of_range", Message: "must lie in the future and before the year 2199; leave it out to pause until somebody resumes"})
	}
	return errs.InvalidFields(append(bad, checkReason(reason)...))
}

// pauseEnd returns the instant that a pause until another one is kept as.
func pauseEnd(until time.Time) time.Time {
	if until.IsZero() {
		return indefinitely
	}
	return until.UTC().Truncate(time.Millisecond)
}

// Resume ends a pause at once. Resuming an endpoint that is not paused changes nothing but the ledger.
func (s *Service) Resume(ctx context.Context, by Actor, id ID) (*Endpoint, error) {
	return s.change(ctx, by, id, CauseResume, func(e *Endpoint, _ time.Time) error {
		e.State.PausedUntil, e.State.PauseReason = time.Time{}, ""
		return nil
	})
}

// RunNow plans a run at once, whatever governor and pause say, and once the live run has ended where there is one. It returns the
// due time of that run. Asking again before it ran changes nothing.
func (s *Service) RunNow(ctx context.Context, by Actor, id ID) (slot time.Time, err error) {
	_, err = s.change(ctx, by, id, CauseRunNow, func(e *Endpoint, now time.Time) error {
		if e.State.ManualAt.IsZero() || e.State.runningManual() { // The run under way answers the earlier request, not this one.
			e.State.ManualAt = now
		}
		slot = e.State.ManualAt
		return nil
	})
	return slot, err
}

// ResetFailures sets the failure count to zero, which ends the backoff.
func (s *Service) ResetFailures(ctx context.Context, by Actor, id ID) (*Endpoint, error) {
	return s.change(ctx, by, id, CauseResetFailures, func(e *Endpoint, _ time.Time) error {
		e.State.FailureCount = 0
		e.State.RetryAfter = time.Time{}
		return nil
	})
}

// CheckReason returns what is wrong with the reason that somebody gives for an operation, as an [errs.Invalid] about the field reason.
func CheckReason(reason string) error { return errs.InvalidFields(checkReason(reason)) }

func checkReason(reason string) []errs.Field {
	switch {
	case len([]rune(reason)) > maxReason:
		return []errs.Field{{Field: "reason", Code: "too_long", Message: "must be at most 500 characters long"}}
	case !isProse(reason):
		return []errs.Field{{Field: "reason", Code: "invalid_characters", Message: "must hold readable text without control characters"}}
	default:
		return nil
	}
}
