package schedule

import (
	"math/bits"
	"time"
)

// Count returns the number of occurrences in (after, until]. It adds up days instead of visiting
// occurrences, so that a month of seconds costs no more than a month of hours. Instants outside the
// years 1 to 9999 do not count.
func (c *Cron) Count(after, until time.Time) int64 {
	from, to := max(after.Unix(), earliest)+1, min(until.Unix(), latest)+1
	var n int64
	for from < to {
		s := zonePeriodAt(c.zone, from)
		n += c.countWithin(s, from, min(s.end, to))
		from = s.end
	}
	return n
}

// Last returns the last occurrence in (after, until] in UTC, and the zero time if there is none. It
// is a binary search over Count.
func (c *Cron) Last(after, until time.Time) time.Time {
	if c.Count(after, until) == 0 {
		return time.Time{}
	}
	early, last := max(after.Unix(), earliest), min(until.Unix(), latest) // invariant: an occurrence lies in (early, last], none after last
	for last-early > 1 {
		middle := early + (last-early)/2
		if c.Count(time.Unix(middle, 0), time.Unix(last, 0)) > 0 {
			early = middle
		} else {
			last = middle
		}
	}
	return time.Unix(last, 0).UTC()
}

// countWithin returns the number of occurrences in [from, to), both within the zone period.
func (c *Cron) countWithin(s zonePeriod, from, to int64) int64 {
	var n int64
	if from == s.start && c.makesUp(s) {
		n, from = 1, from+1
	}
	if !c.bothPasses {
		from = max(from, s.secondPassEnd())
	}
	if from >= to {
		return n
	}
	return n + c.pattern.count(from+s.offset, to+s.offset)
}

// count returns the number of matching local times in [from, to).
func (p *pattern) count(from, to int64) int64 {
	first, last := from-sinceMidnight(from), to-sinceMidnight(to)
	n := p.countDays(first, last) * int64(p.countClock(daySeconds))
	n -= p.countDays(first, first+daySeconds) * int64(p.countClock(int(from-first)))
	return n + p.countDays(last, last+daySeconds)*int64(p.countClock(int(to-last)))
}

// countDays returns the number of matching days between two midnights, the second one excluded.
func (p *pattern) countDays(from, to int64) int64 {
	var n int64
	for from < to {
		year, month, day := time.Unix(from, 0).UTC().Date()
		first := from - int64(day-1)*daySeconds
		m := monthShape{length: monthLength(year, month), first: time.Unix(first, 0).UTC().Weekday()}
		end := min(m.length+1, int((to-first)/daySeconds)+1) // first day of the month outside the range
		if p.months>>month&1 != 0 {
			days := uint64(p.days.of(m)) >> day << day
			n += int64(bits.OnesCount64(days & (1<<end - 1)))
		}
		from = first + int64(end-1)*daySeconds
	}
	return n
}

// countClock returns the number of matching times of day before clock, in seconds since midnight.
func (p *pattern) countClock(clock int) int {
	h, m, s := clock/3600, clock/60%60, clock%60
	minute := bits.OnesCount64(p.seconds)
	hour := minute * bits.OnesCount64(p.minutes)
	n := hour * bits.OnesCount64(below(p.hours, h))
	if p.hours>>h&1 == 0 {
		return n
	}
	n += minute * bits.OnesCount64(below(p.minutes, m))
	if p.minutes>>m&1 != 0 {
		n += bits.OnesCount64(below(p.seconds, s))
	}
	return n
}

// below returns the values of a bit set that are smaller than n.
func below(values uint64, n int) uint64 { return values & (1<<n - 1) }
