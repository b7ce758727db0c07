package endpoints

import (
	"time"

	"rubato/internal/governor"
)

// boundedWait returns the Retry-After instant of a run, cut to the longest wait of the endpoint.
func (e *Endpoint) boundedWait(run Finished) (time.Time, error) {
	if !run.AsksForLong() {
		return run.RetryAfter, nil
	}
	usual, err := e.baseline(run.FinishedAt)
	return governor.CapRetryAfter(run.RetryAfter, run.FinishedAt, usual, e.Spec.MaxInterval), err
}

// AsksForLong reports whether the target's Retry-After is long enough for a notice.
func (f Finished) AsksForLong() bool {
	return governor.ExceedsRetryAfterCap(f.RetryAfter, f.FinishedAt)
}

// wait returns the instant before which the last answer of the target asked for no further request.
func (s State) wait() time.Time {
	return laterOf(s.RetryAfter, laterOf(s.TargetNext, s.FreshUntil))
}

// cut returns the Retry-After instant if boundedWait shortened it, else zero.
func (f Finished) cut(wait time.Time) time.Time {
	if f.Unanswered || !f.RetryAfter.After(wait) {
		return time.Time{}
	}
	return f.RetryAfter
}
