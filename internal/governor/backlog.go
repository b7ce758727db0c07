package governor

import "time"

// Limits on a backlog of due times, of catch-up or of the queue: after a long outage it must
// neither run for days nor flood the target with thousands of runs.
const (
	catchUpLimit = 100
	catchUpReach = 24 * time.Hour
)

// series is a series of due times, of which those up to an instant may run.
type series struct {
	// next returns the first due time strictly after an instant.
	next  func(after time.Time) time.Time
	until time.Time
}

// oldest returns the first due time after an instant that is among the last catchUpLimit up to
// s.until. If there is none up to s.until, it is the next one.
func (s series) oldest(after time.Time) time.Time {
	if s.count(after, s.until, catchUpLimit+1) > catchUpLimit {
		after = s.limitedStart(after)
	}
	return s.next(after)
}

// limitedStart returns an instant after which exactly catchUpLimit due times follow up to s.until;
// more must follow after. It is a binary search that counts only the unknown half. Therefore it
// calls a minute cron about 500 times and a second cron about 1,000 times, whatever the length of
// the backlog.
func (s series) limitedStart(after time.Time) time.Time {
	few, n := s.until, 0 // n due times lie in (few, until]; n is at most the limit
	for n < catchUpLimit && few.Sub(after) > 1 {
		middle := after.Add(few.Sub(after) / 2)
		more := s.count(middle, few, catchUpLimit-n+1)
		if n+more > catchUpLimit {
			after = middle
			continue
		}
		few, n = middle, n+more
	}
	return few
}

// count returns the number of due times in (after, until], at most limit.
func (s series) count(after, until time.Time, limit int) int {
	for n := range limit {
		at := s.next(after)
		if at.After(until) {
			return n
		}
		after = at
	}
	return limit
}
