package schedule

import (
	"math/bits"
	"time"
)

// daySeconds is the length of a day in local time, without gaps and overlaps.
const daySeconds = 24 * 60 * 60

// pattern is an expression without its zone: the matching local times. A local time is counted in
// seconds since 1970-01-01 00:00:00 of the wall clock.
type pattern struct {
	seconds, minutes, hours, months uint64 // bit n is value n
	days                            dayTable
	// even reports a wildcard or step in the hour field: the schedule follows real time.
	even bool
}

// neverFires reports whether no month has a matching day. Within 400 years every month has every
// shape of its lengths.
func (p *pattern) neverFires() bool {
	for month := time.January; month <= time.December; month++ {
		if p.months>>month&1 == 0 {
			continue
		}
		longest := monthLength(2000, month) // a leap year
		for first := time.Sunday; first <= time.Saturday; first++ {
			if p.days.of(monthShape{length: longest, first: first}) != 0 {
				return false
			}
		}
	}
	return true
}

// next returns the first matching local time in [from, to).
func (p *pattern) next(from, to int64) (reading int64, ok bool) {
	today := from - sinceMidnight(from)
	day, ok := p.nextDay(today, to)
	if ok && day == today {
		if clock, found := p.nextClock(int(from - today)); found {
			return today + int64(clock), today+int64(clock) < to
		}
		day, ok = p.nextDay(today+daySeconds, to)
	}
	if !ok {
		return 0, false
	}
	clock, _ := p.nextClock(0)
	return day + int64(clock), day+int64(clock) < to
}

// nextDay returns the midnight of the first matching day at or after from, if its month begins
// before to.
func (p *pattern) nextDay(from, to int64) (midnight int64, ok bool) {
	year, month, day := time.Unix(from, 0).UTC().Date()
	first := from - int64(day-1)*daySeconds
	m := monthShape{first: time.Unix(first, 0).UTC().Weekday()}
	for first < to {
		m.length = monthLength(year, month)
		if p.months>>month&1 != 0 {
			if rest := p.days.of(m) >> day << day; rest != 0 {
				midnight = first + int64(bits.TrailingZeros32(rest)-1)*daySeconds
				return midnight, true
			}
		}
		first += int64(m.length) * daySeconds
		m.first = m.weekday(m.length + 1)
		day = 1
		if month++; month > time.December {
			year, month = year+1, time.January
		}
	}
	return 0, false
}

// nextClock returns the first matching time of day at or after clock, both in seconds since
// midnight.
func (p *pattern) nextClock(clock int) (next int, ok bool) {
	h, m, s := clock/3600, clock/60%60, clock%60
	if p.hours>>h&1 != 0 {
		if p.minutes>>m&1 != 0 {
			if s, ok = atOrAfter(p.seconds, s); ok {
				return h*3600 + m*60 + s, true
			}
		}
		if m, ok = atOrAfter(p.minutes, m+1); ok {
			return h*3600 + m*60 + bits.TrailingZeros64(p.seconds), true
		}
	}
	if h, ok = atOrAfter(p.hours, h+1); ok {
		return h*3600 + bits.TrailingZeros64(p.minutes)*60 + bits.TrailingZeros64(p.seconds), true
	}
	return 0, false
}

// atOrAfter returns the smallest value of a bit set that is at least n.
func atOrAfter(values uint64, n int) (value int, ok bool) {
	rest := values >> n << n
	return bits.TrailingZeros64(rest), rest != 0
}

// monthLength returns the days of a month.
func monthLength(year int, month time.Month) int {
	switch month {
	case time.April, time.June, time.September, time.November:
		return 30
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// sinceMidnight returns the seconds since midnight of a local time, or of an instant in UTC; also
// before 1970.
func sinceMidnight(n int64) int64 { return ((n % daySeconds) + daySeconds) % daySeconds }
