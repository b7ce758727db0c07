package endpoints

import (
	"context"
	"time"

	"rubato/internal/errs"
)

// maxReason is the maximum length of a reason in characters.
const maxReason = 500

// MaxPlannerPause is the maximum pause by the planner. Only a person may pause for longer.
const MaxPlannerPause = time.Hour

// PauseRequest is the request for a pause. At most one of Until and For gives its end. Without
// both, the pause lasts until a person resumes the endpoint.
type PauseRequest struct {
	// Until is zero if it is not given.
	Until time.Time
	// For is the length from now; nil: not given.
	For    *time.Duration
	Reason string
}

// Pause pauses an endpoint. No run starts after it returns; a live run continues. It withdraws the
// queued one-off runs and records each as skipped.
func (s *Service) Pause(ctx context.Context, by Actor, id ID, r PauseRequest) (*Endpoint, error) {
	return s.change(ctx, by, id, CausePause, func(e *Endpoint, now time.Time) error {
		until, err := r.end(now)
		if err != nil {
			return err
		}
		e.State.PausedUntil, e.State.PauseReason = until, r.Reason
		e.State.OneOffs.withdraw()
		return nil
	})
}

// Check returns the error that Pause would return at now. It stores nothing.
func (r PauseRequest) Check(now time.Time) error {
	_, err := r.end(now)
	return err
}

// end returns the end of a pause that begins now.
func (r PauseRequest) end(now time.Time) (time.Time, error) {
	until, bad := r.instant(now)
	return until, errs.InvalidFields(append(bad, checkReason(r.Reason)...))
}

func (r PauseRequest) instant(now time.Time) (time.Time, []errs.Field) {
	until := r.Until.UTC().Truncate(time.Millisecond)
	switch {
	case r.For != nil && !r.Until.IsZero():
		return until, []errs.Field{{
			Field:   "forMs",
			Code:    "ambiguous",
			Message: "say when the pause ends once: at most one of until and forMs",
		}}
	case r.For != nil:
		if *r.For < time.Millisecond || *r.For > maxSpan {
			return until, []errs.Field{{
				Field:   "forMs",
				Code:    "out_of_range",
				Message: "must be 1 to 31622400000 (366 days); leave it out to pause until a resume",
			}}
		}
		return wholeMilliseconds(now.Add(*r.For)), nil
	case r.Until.IsZero():
		return indefinitely, nil
	case !until.After(now) || until.After(indefinitely):
		return until, []errs.Field{{
			Field:   "until",
			Code:    "out_of_range",
			Message: "must lie in the future and before the year 2199; leave it out to pause until a resume",
		}}
	default:
		return until, nil
	}
}

// Resume ends a pause at once. For an endpoint that is not paused it only adds a decision to the
// ledger. If the planner set the pause, the planner must not pause again for [HoldLife].
func (s *Service) Resume(ctx context.Context, by Actor, id ID) (*Endpoint, error) {
	return s.change(ctx, by, id, CauseResume, func(e *Endpoint, now time.Time) error {
		if e.pausedByPlanner(now) {
			e.Hold(HoldPause, now, by)
		}
		e.State.PausedUntil, e.State.PauseReason = time.Time{}, ""
		return nil
	})
}

// ResetFailures sets the failure count to zero, which ends the backoff.
func (s *Service) ResetFailures(ctx context.Context, by Actor, id ID) (*Endpoint, error) {
	return s.change(ctx, by, id, CauseResetFailures, func(e *Endpoint, _ time.Time) error {
		e.State.FailureCount = 0
		e.State.RetryAfter = time.Time{}
		return nil
	})
}

// CheckReason returns the faults of the reason of an operation, as an [errs.Invalid] about the
// field reason.
func CheckReason(reason string) error { return errs.InvalidFields(checkReason(reason)) }

func checkReason(reason string) []errs.Field {
	switch {
	case len([]rune(reason)) > maxReason:
		return []errs.Field{{
			Field:   "reason",
			Code:    "too_long",
			Message: "must be at most 500 characters long",
		}}
	case !isProse(reason):
		return []errs.Field{{
			Field:   "reason",
			Code:    "invalid_characters",
			Message: "must hold readable text without control characters",
		}}
	default:
		return nil
	}
}
