package governor

import "time"

// Hinted reports whether an interval hint counts at in.Now: it is fresh, and the outage that it is for, if any, goes on.
func (in Input) Hinted() bool {
	hint := in.IntervalHint
	return hint != nil && hint.Interval > 0 && bound(hint.ExpiresAt).After(bound(in.Now)) &&
		(hint.OutageSince.IsZero() || in.Failures > 0)
}

// Tempo returns how far apart the due times of an endpoint are by its input, whatever passed: the interval hint where it is fresh at
// in.Now, else the interval with its backoff, or the distance of the next two occurrences of a cron after in.Now, within the clamps. It
// returns 0 for a cron that does not fire twice more.
func Tempo(in Input) time.Duration {
	in = in.bounded()
	every := backoff(in.Baseline.Interval, min(max(in.Failures, 0), maxDoublings))
	switch {
	case in.Hinted():
		every = in.IntervalHint.at(in.Anchor)
	case in.Baseline.Cron != nil:
		p := plan{in: in}
		next := p.next(in.Now)
		after := p.next(next)
		if !after.Before(Indefinite) {
			return 0
		}
		every = after.Sub(next)
	}
	return Clamp(every, in.Min, in.Max)
}

// Clamp returns an interval within a minimum and a maximum; not positive: none. The maximum wins.
func Clamp(every, least, most time.Duration) time.Duration {
	every = max(every, least)
	if most > 0 {
		every = min(every, most)
	}
	return every
}

// plannerSlowest is how many times slower than its usual interval a planner may run an endpoint without maximum.
const plannerSlowest = 8

// PlannerBounds returns the shortest and the longest interval that a planner may ask for: the clamps, where the user set them. Without a
// minimum it is the usual interval, because no target is called faster than its user asked unless the user said how fast it may be, and
// never less than a second. Without a maximum it is eight usual intervals; 0 where the usual interval is not known.
func PlannerBounds(usual, least, most time.Duration) (fastest, slowest time.Duration) {
	if fastest = least; least <= 0 {
		fastest = usual
	}
	if slowest = most; most <= 0 {
		slowest = max(0, min(usual, (1<<63-1)/plannerSlowest)) * plannerSlowest
	}
	return max(fastest, time.Second), slowest
}
