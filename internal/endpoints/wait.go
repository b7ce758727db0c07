package endpoints

import (
	"time"

	"rubato/internal/governor"
)

// LongWait is from when on a wait that the target asks for is worth a notice.
const LongWait = time.Hour

// boundedWait returns the instant that the target asked to wait for, cut to what [governor.LongestWait] allows after the end of the run.
func (e *Endpoint) boundedWait(run Finished) (time.Time, error) {
	if !run.AsksForLong() {
		return run.RetryAfter, nil
	}
	calm := *e
	calm.Spec.MinInterval, calm.Spec.MaxInterval = 0, 0
	baseline, err := calm.Usual(run.FinishedAt)
	if err != nil {
		return time.Time{}, err
	}
	latest := wholeMilliseconds(run.FinishedAt.Add(governor.LongestWait(baseline, e.Spec.MaxInterval)))
	if run.RetryAfter.After(latest) {
		return latest, nil
	}
	return run.RetryAfter, nil
}

// waitSlack is how much longer an hour may look: Retry-After counts from the answer, and the end of a run may be put earlier, to the
// database's clock.
const waitSlack = time.Second

// AsksForLong reports whether the target asked to wait for longer than [LongWait].
func (f Finished) AsksForLong() bool { return f.RetryAfter.Sub(f.FinishedAt) > LongWait+waitSlack }

// cut returns the instant that the target asked for where the wait that came of it is shorter; zero where it is not.
func (f Finished) cut(wait time.Time) time.Time {
	if f.Unanswered || !f.RetryAfter.After(wait) {
		return time.Time{}
	}
	return f.RetryAfter
}
