package governor

import "time"

// Hinted reports whether an interval hint counts at in.Now: it is fresh, and the outage that it is for, if any, goes on.
func (in Input) Hinted() bool {
	hint := in.IntervalHint
	return hint != nil && hint.Interval > 0 && bound(hint.ExpiresAt).After(bound(in.Now)) &&
		(hint.OutageSince.IsZero() || in.Failures > 0)
}

// Tempo returns how far apart the due times of an endpoint are by its input, whatever passed: the interval hint where it is fresh at
// in.Now, else the interval with its backoff, within the clamps. It returns 0 where a cron names the due times.
func Tempo(in Input) time.Duration {
	in = in.bounded()
	every := backoff(in.Baseline.Interval, min(max(in.Failures, 0), maxDoublings))
	switch {
	case in.Hinted():
		every = in.IntervalHint.at(in.Anchor)
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
