package schedule

import (
	"math"
	"time"
)

// zonePeriod is a period with a constant zone offset. Within it local times and instants differ by
// a constant, so that clock changes matter only at its start.
type zonePeriod struct {
	start, end int64 // Unix seconds, end excluded; the extreme values if unbounded
	offset     int64 // seconds east of UTC
	before     int64 // offset before start
}

// zonePeriodAt returns the zone period of an instant.
func zonePeriodAt(zone *time.Location, instant int64) zonePeriod {
	local := time.Unix(instant, 0).In(zone)
	start, end := local.ZoneBounds()
	s := zonePeriod{
		start:  math.MinInt64,
		end:    math.MaxInt64,
		offset: offsetOf(local),
	}
	s.before = s.offset
	if !start.IsZero() {
		s.start = start.Unix()
		s.before = offsetOf(start.Add(-time.Second))
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}
	if s.end <= instant {
		// The standard library counts every year as 365 days where it extrapolates rules. Therefore
		// it ends the last period of a leap year before its last day (in UTC), on which no rule
		// changes a clock.
		s.end = instant - sinceMidnight(instant) + daySeconds
	}
	return s
}

// next returns the following period, which may have the same offset. The period must have an end.
func (s zonePeriod) next(zone *time.Location) zonePeriod {
	n := zonePeriodAt(zone, s.end)
	n.start, n.before = s.end, s.offset
	return n
}

// gap returns the local times that are missing at the start of the period, end excluded; none if
// start is not below end.
func (s zonePeriod) gap() (start, end int64) {
	if s.offset <= s.before {
		return 0, 0
	}
	return s.start + s.before, s.start + s.offset
}

// secondPassEnd returns the instant at which the repeated local times end.
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
