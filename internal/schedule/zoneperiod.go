package schedule

import (
	"math"
	"time"
)

// stretch is a time during which a zone does not change its offset. On it, readings of the wall clock and instants differ by a
// constant, so that all that is special about clock changes happens at its start.
type zonePeriod struct {
	start, end int64 // Unix seconds, end excluded; the smallest and the largest number where it has no bound
	offset     int64 // seconds east of UTC
	before     int64 // the offset before start
}

// stretchAt returns the stretch of the zone that the instant lies in.
func zonePeriodAt(zone *time.Location, instant int64) zonePeriod {
	local := time.Unix(instant, 0).In(zone)
	start, end := local.ZoneBounds()
	s := zonePeriod{start: math.MinInt64, end: math.MaxInt64, offset: offsetOf(local)}
	s.before = s.offset
	if !start.IsZero() {
		s.start = start.Unix()
		s.before = offsetOf(start.Add(-time.Second))
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}
	if s.end <= instant {
		// The standard library takes every year for 365 days long where it extrapolates rules, and so ends the last stretch of a leap
		// year before its last day (by UTC), on which no rule changes a clock.
		s.end = instant - sinceMidnight(instant) + daySeconds
	}
	return s
}

// next returns the stretch that follows, which may have the same offset. There must be an end.
func (s zonePeriod) next(zone *time.Location) zonePeriod {
	n := zonePeriodAt(zone, s.end)
	n.start, n.before = s.end, s.offset
	return n
}

// gap returns the readings that the wall clock jumps over as the stretch begins, end excluded; none where start is not below end.
func (s zonePeriod) gap() (start, end int64) {
	if s.offset <= s.before {
		return 0, 0
	}
	return s.start + s.before, s.start + s.offset
}

// secondPassEnd returns the instant at which the wall clock stops to show readings for the second time.
func (s zonePeriod) secondPassEnd() int64 {
	if s.offset >= s.before {
		return s.start
	}
	return s.start + s.before - s.offset
}

func offsetOf(t time.Time) int64 {
	_, offset := t.Zone()
	return int64(offset)
}
