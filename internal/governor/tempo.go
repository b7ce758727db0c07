package governor

import "time"

// Tempo returns how far apart the due times of an endpoint are by its input, whatever passed: the interval hint where it is fresh at
// in.Now, else the interval with its backoff, within the clamps. It returns 0 where a cron names the due times.
func Tempo(in Input) time.Duration {
	in = in.bounded()
	every := backoff(in.Baseline.Interval, min(max(in.Failures, 0), maxDoublings))
	switch {
	case in.IntervalHint != nil && in.IntervalHint.Interval > 0 && bound(in.IntervalHint.ExpiresAt).After(in.Now):
		every = in.IntervalHint.Interval
	case in.Baseline.Cron != nil:
		return 0
	}
	if in.Min > 0 {
		every = max(every, in.Min)
	}
	if in.Max > 0 {
		every = min(every, in.Max)
	}
	return every
}
