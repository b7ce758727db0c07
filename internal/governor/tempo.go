package governor

import "time"

// Hinted reports whether the interval hint is in force at in.Now: it has not expired, and its
// outage, if any, continues.
func (in Input) Hinted() bool {
	hint := in.IntervalHint
	return hint != nil && hint.Interval > 0 && bound(hint.ExpiresAt).After(bound(in.Now)) &&
		(hint.OutageSince.IsZero() || in.Failures > 0)
}

// paced reports whether the change rate sets the interval, unless a hint does. While a target
// fails, a longer backoff wins, so that a failure never shortens the interval.
func (in Input) paced() bool {
	if in.ChangeRate == nil || in.ChangeRate.Wait <= 0 {
		return false
	}
	return in.Failures <= 0 || in.Baseline.Cron != nil || in.ChangeRate.Wait > in.backedOff()
}

// FollowsChanges reports whether the change rate sets the interval: it is known, and neither a hint
// nor a longer backoff precedes it.
func (in Input) FollowsChanges() bool {
	in = in.bounded()
	return !in.Hinted() && in.paced() && !in.Anchor.IsZero()
}

// backedOff returns the interval of the baseline, doubled for every consecutive failure.
func (in Input) backedOff() time.Duration {
	return backoff(in.Baseline.Interval, min(max(in.Failures, 0), maxDoublings))
}

// Tempo returns the current interval between due times within the clamps. That is the interval hint
// if in force, else the wait for the rate of change, else the interval with backoff, or the
// distance of the next two cron occurrences. It is 0 for a cron with fewer than two occurrences
// left.
func Tempo(in Input) time.Duration {
	in = in.bounded()
	every := in.backedOff()
	switch {
	case in.Hinted():
		every = in.IntervalHint.at(in.Anchor)
	case in.paced() && !in.Anchor.IsZero():
		every = in.ChangeRate.Wait
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

// Clamp limits an interval to a minimum and a maximum; not positive: no limit. The maximum wins.
func Clamp(every, least, most time.Duration) time.Duration {
	every = max(every, least)
	if most > 0 {
		every = min(every, most)
	}
	return every
}

// plannerSlowest is the largest factor of the usual interval for a planner without a maximum.
const plannerSlowest = 8

// PlannerBounds returns the shortest and the longest interval that a planner may set: the user's
// clamps. Without a minimum it is the usual interval, because only the user may allow more
// requests. It is never less than a second. Without a maximum it is eight usual intervals; 0 if the
// usual interval is unknown.
func PlannerBounds(usual, least, most time.Duration) (fastest, slowest time.Duration) {
	if fastest = least; least <= 0 {
		fastest = usual
	}
	if slowest = most; most <= 0 {
		slowest = max(0, min(usual, (1<<63-1)/plannerSlowest)) * plannerSlowest
	}
	return max(fastest, time.Second), slowest
}
