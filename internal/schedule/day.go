package schedule

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/robfig/cron/v3"
)

// monthShape is the length and first weekday of a month. Day rules depend on nothing else, and
// there are 28 shapes, so that a table covers every month of every year.
type monthShape struct {
	length int          // in days
	first  time.Weekday // of the 1st
}

// weekday returns the weekday of a day of the month.
func (m monthShape) weekday(day int) time.Weekday { return time.Weekday((int(m.first) + day - 1) % 7) }

// dayRule returns the matching days of a month as bits 1 to 31.
type dayRule func(m monthShape) uint32

// Members of day fields that depend on the month.
var (
	lastDayShape = regexp.MustCompile(`^L(?:-([0-9]+))?$`)
	workdayShape = regexp.MustCompile(`^(L|[0-9]+)W$`)
	nthShape     = regexp.MustCompile(`^([0-9A-Z]+)#([0-9]+)$`)
	lastShape    = regexp.MustCompile(`^([0-9A-Z]+)L$`)
)

// dayRule parses a member that depends on the month; found is false for any other member.
func (f *field) dayRule(text string) (rule dayRule, found bool, err error) {
	if f.kind == cron.Dom {
		return f.monthRule(text)
	}
	if f.kind == cron.Dow {
		return f.weekRule(text)
	}
	return nil, false, nil
}

func (f *field) monthRule(text string) (rule dayRule, found bool, err error) {
	if m := lastDayShape.FindStringSubmatch(text); m != nil {
		before := 0
		if m[1] != "" {
			if before, err = strconv.Atoi(m[1]); err != nil || before < 1 || before > 30 {
				return nil, false, fmt.Errorf("%q is out of range: use L for the last day, or L-1 to L-30 for days before it", text)
			}
		}
		return lastDay(before), true, nil
	}
	if m := workdayShape.FindStringSubmatch(text); m != nil {
		if m[1] == "L" {
			return lastWorkday, true, nil
		}
		day, err := f.value(m[1])
		return nearestWorkday(day), err == nil, err
	}
	return nil, false, nil
}

func (f *field) weekRule(text string) (rule dayRule, found bool, err error) {
	if text == "L" {
		return nil, false, errors.New("the weekday of L is missing: use FRIL for the last Friday of the month, or SAT for Saturdays")
	}
	if m := nthShape.FindStringSubmatch(text); m != nil {
		day, err := f.value(m[1])
		if err != nil {
			return nil, false, err
		}
		n, err := strconv.Atoi(m[2])
		if err != nil || n < 1 || n > 5 {
			return nil, false, fmt.Errorf("%q is out of range: a weekday comes in a month as #1 to #5", text)
		}
		return nthWeekday(time.Weekday(day%sunday), n), true, nil
	}
	if m := lastShape.FindStringSubmatch(text); m != nil {
		day, err := f.value(m[1])
		return lastWeekday(time.Weekday(day % sunday)), err == nil, err
	}
	return nil, false, nil
}

// lastDay is L, or L-before.
func lastDay(before int) dayRule {
	return func(m monthShape) uint32 { return dayBit(m.length-before, m) }
}

// nearestWorkday is dayW: the day itself, the Friday before a Saturday, or the Monday after a
// Sunday, but always in the same month. A month without the day has none.
func nearestWorkday(day int) dayRule {
	return func(m monthShape) uint32 {
		if day > m.length {
			return 0
		}
		weekday, near := m.weekday(day), day
		switch {
		case weekday == time.Saturday && day == 1:
			near = 3
		case weekday == time.Saturday:
			near = day - 1
		case weekday == time.Sunday && day == m.length:
			near = day - 2
		case weekday == time.Sunday:
			near = day + 1
		}
		return dayBit(near, m)
	}
}

// lastWorkday is LW.
func lastWorkday(m monthShape) uint32 { return nearestWorkday(m.length)(m) }

// nthWeekday is day#n.
func nthWeekday(day time.Weekday, n int) dayRule {
	return func(m monthShape) uint32 { return dayBit(firstOn(day, m)+7*(n-1), m) }
}

// lastWeekday is dayL.
func lastWeekday(day time.Weekday) dayRule {
	return func(m monthShape) uint32 {
		first := firstOn(day, m)
		return dayBit(first+(m.length-first)/7*7, m)
	}
}

// firstOn returns the first day of the month with a weekday.
func firstOn(day time.Weekday, m monthShape) int { return 1 + (int(day)-int(m.first)+7)%7 }

// dayBit returns the bit of day, or 0 if the month has no such day.
func dayBit(day int, m monthShape) uint32 {
	if day < 1 || day > m.length {
		return 0
	}
	return 1 << day
}

// dayTable holds the matching days of every month shape, by its length less 28 and its first
// weekday.
type dayTable [4][7]uint32

// of returns the matching days of the month.
func (t *dayTable) of(m monthShape) uint32 { return t[m.length-28][m.first] }

// newDayTable combines both day fields. A day matches if it matches either field, or both if one of
// them is unrestricted.
func newDayTable(dom, dow fieldValues) dayTable {
	var table dayTable
	for i := range table {
		for first := range table[i] {
			m := monthShape{length: 28 + i, first: time.Weekday(first)}
			monthly, weekly := monthDays(dom, m), weekDays(dow, m)
			if dom.bits&star != 0 || dow.bits&star != 0 {
				table[i][first] = monthly & weekly
			} else {
				table[i][first] = monthly | weekly
			}
		}
	}
	return table
}

func monthDays(dom fieldValues, m monthShape) uint32 {
	var days uint32
	for day := 1; day <= m.length; day++ {
		days |= uint32(dom.bits>>day&1) << day
	}
	return days | ruleDays(dom.rules, m)
}

func weekDays(dow fieldValues, m monthShape) uint32 {
	var days uint32
	for day := 1; day <= m.length; day++ {
		days |= uint32(dow.bits>>m.weekday(day)&1) << day
	}
	return days | ruleDays(dow.rules, m)
}

func ruleDays(rules []dayRule, m monthShape) uint32 {
	var days uint32
	for _, rule := range rules {
		days |= rule(m)
	}
	return days
}
