package endpoints

import (
	"time"

	"rubato/internal/governor"
)

// boundedWait returns the instant that the target asked to wait for, cut to the longest wait of the endpoint.
func (e *Endpoint) boundedWait(run Finished) (time.Time, error) {
	if !run.AsksForLong() {
		return run.RetryAfter, nil
	}
	calm := *e
	calm.Spec.MinInterval, calm.Spec.MaxInterval = 0, 0
	usual, err := calm.Usual(run.FinishedAt)
	return governor.CapRetryAfter(run.RetryAfter, run.FinishedAt, usual, e.Spec.MaxInterval), err
}

// AsksForLong reports whether the target asked to wait for so long that it is worth a notice.
func (f Finished) AsksForLong() bool {
	return governor.ExceedsRetryAfterCap(f.RetryAfter, f.FinishedAt)
}

// cut returns the instant that the target asked for where the wait that came of it is shorter; zero where it is not.
func (f Finished) cut(wait time.Time) time.Time {
	if f.Unanswered || !f.RetryAfter.After(wait) {
		return time.Time{}
	}
	return f.RetryAfter
}
