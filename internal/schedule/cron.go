package schedule

import (
	"fmt"
	"time"

	"rubato/internal/errs"
)

// The instants between which schedules are searched, in Unix seconds: the years 1 to 9999, which is what can be written down.
const (
	earliest = -62135596800
	latest   = 253402300799
)

// horizon is how far ahead a search looks: more than the 40 years that the calendar can make one wait.
const horizon = 41 * 366 * daySeconds

// Cron is a parsed schedule. It never changes, and may be used by many goroutines at once.
type Cron struct {
	expression string
	zone       *time.Location
	pattern    pattern
	skipGaps   bool // do not make up for missing times
	bothPasses bool // run in both passes of an overlap
}

// String returns the expression and the zone.
func (c *Cron) String() string { return fmt.Sprintf("%s (%s)", c.expression, c.zone) }

// Next returns the first instant strictly after after at which the schedule fires, in UTC and on a whole second. It returns the
// zero time when there is none within 41 years, or when after lies outside the years 1 to 9999.
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

// nextWithin returns the first firing in [from, to), both within the stretch.
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

// missing returns the first reading of the schedule that the gap before the stretch swallows, unless real time makes up for it.
func (c *Cron) missing(s zonePeriod) (reading int64, ok bool) {
	start, end := s.gap()
	if reading, ok = c.pattern.next(start, end); !ok || !c.pattern.even {
		return reading, ok
	}
	_, regular := c.pattern.next(end, end+(end-start))
	return reading, !regular
}

// makesUp reports whether the schedule fires at the first instant of the stretch because of what the gap before it swallowed.
func (c *Cron) makesUp(s zonePeriod) bool {
	if c.skipGaps {
		return false
	}
	_, missing := c.missing(s)
	return missing
}

// checkFires refuses a schedule all of whose times fall into gaps, such as the second Sunday of March at 02:30 in New York when gaps
// are skipped. It asks from an instant where every zone follows its permanent rules.
func (c *Cron) checkFires() error {
	permanent := time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC)
	if !c.skipGaps || !c.Next(permanent).IsZero() {
		return nil
	}
	return errs.InvalidFields([]errs.Field{badCron(codeNeverFires,
		"%q never fires: in %s all of its times are skipped by the clock change; use the policy %q for dst.gap, or another time",
		c.expression, c.zone, GapRun)})
}
