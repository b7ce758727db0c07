package schedule

import (
	"fmt"
	"time"

	"rubato/internal/errs"
)

// Range of searches in Unix seconds: the years 1 to 9999, because only these can be formatted.
const (
	earliest = -62135596800
	latest   = 253402300799
)

// horizon is the range of a search. It exceeds the 40 years that the calendar can require.
const horizon = 41 * 366 * daySeconds

// Cron is a parsed schedule. It is immutable and safe for concurrent use.
type Cron struct {
	expression string
	zone       *time.Location
	pattern    pattern
	skipGaps   bool // do not run local times in a gap
	bothPasses bool // run in both passes of an overlap
}

// String returns the expression and the zone.
func (c *Cron) String() string { return fmt.Sprintf("%s (%s)", c.expression, c.zone) }

// Next returns the first occurrence strictly after an instant, in UTC and whole seconds. It returns
// the zero time if there is none within 41 years, or if the instant is outside the years 1 to 9999.
func (c *Cron) Next(after time.Time) time.Time {
	now := after.Unix()
	if now < earliest || now > latest {
		return time.Time{}
	}
	limit := min(now+horizon, latest)
	from := now + 1
	for s := zonePeriodAt(c.zone, from); from < limit; s = s.next(c.zone) {
		if at, ok := c.nextWithin(s, from, min(s.end, limit)); ok {
			return time.Unix(at, 0).UTC()
		}
		from = s.end
	}
	return time.Time{}
}

// nextWithin returns the first occurrence in [from, to), both within the zone period.
func (c *Cron) nextWithin(s zonePeriod, from, to int64) (at int64, ok bool) {
	if from == s.start && c.makesUp(s) {
		return from, true
	}
	if !c.bothPasses {
		from = max(from, s.secondPassEnd())
	}
	reading, ok := c.pattern.next(from+s.offset, to+s.offset)
	return reading - s.offset, ok
}

// missing returns the first local time of the schedule in the gap before the zone period. A
// schedule that follows real time misses none if a regular time comes soon enough.
func (c *Cron) missing(s zonePeriod) (reading int64, ok bool) {
	start, end := s.gap()
	if reading, ok = c.pattern.next(start, end); !ok || !c.pattern.even {
		return reading, ok
	}
	_, regular := c.pattern.next(end, end+(end-start))
	return reading, !regular
}

// makesUp reports whether the schedule runs at the start of the zone period for a time in the gap
// before it.
func (c *Cron) makesUp(s zonePeriod) bool {
	if c.skipGaps {
		return false
	}
	_, missing := c.missing(s)
	return missing
}

// checkFires refuses a schedule with all its times in skipped gaps, such as the second Sunday of
// March at 02:30 in New York. It searches from an instant at which every zone follows its permanent
// rules.
func (c *Cron) checkFires() error {
	permanent := time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC)
	if !c.skipGaps || !c.Next(permanent).IsZero() {
		return nil
	}
	return errs.InvalidFields([]errs.Field{badCron(codeNeverFires,
		"%q never fires: in %s all of its times are skipped by the clock change; use the policy %q for dst.gap, or another time",
		c.expression, c.zone, GapRun)})
}
