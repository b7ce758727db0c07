package schedule

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/robfig/cron/v3"
)

// The indexes of the fields in an expression.
const (
	atSecond = iota
	atMinute
	atHour
	atDayOfMonth
	atMonth
	atDayOfWeek
)

// field is one field of an expression: its range and its form in robfig/cron.
type field struct {
	name     string
	kind     cron.ParseOption
	bits     func(*cron.SpecSchedule) uint64
	min, max int      // range of values; weekday 7 is Sunday again
	names    []string // names of the values from min on, if there are any
}

// fields are the six fields; read-only.
var fields = [...]field{
	atSecond: {
		name: "second",
		kind: cron.Second,
		bits: func(s *cron.SpecSchedule) uint64 { return s.Second },
		max:  59,
	},
	atMinute: {
		name: "minute",
		kind: cron.Minute,
		bits: func(s *cron.SpecSchedule) uint64 { return s.Minute },
		max:  59,
	},
	atHour: {
		name: "hour",
		kind: cron.Hour,
		bits: func(s *cron.SpecSchedule) uint64 { return s.Hour },
		max:  23,
	},
	atDayOfMonth: {
		name: "day of month",
		kind: cron.Dom,
		bits: func(s *cron.SpecSchedule) uint64 { return s.Dom },
		min:  1,
		max:  31,
	},
	atMonth: {
		name:  "month",
		kind:  cron.Month,
		bits:  func(s *cron.SpecSchedule) uint64 { return s.Month },
		min:   1,
		max:   12,
		names: []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"},
	},
	atDayOfWeek: {
		name:  "day of week",
		kind:  cron.Dow,
		bits:  func(s *cron.SpecSchedule) uint64 { return s.Dow },
		max:   sunday,
		names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"},
	},
}

// sunday is the number of Sunday at the end of a range.
const sunday = 7

// star is the bit with which robfig/cron marks a field that holds * or ?.
const star = 1 << 63

// fieldValues is the parsed value of a field: a bit set of values, with star if it is unrestricted,
// and rules that depend on the month.
type fieldValues struct {
	bits  uint64
	rules []dayRule
}

// values returns the bits without star.
func (s fieldValues) values() uint64 { return s.bits &^ star }

// parse parses the text of the field, in upper case.
func (f *field) parse(text string, id [16]byte) (fieldValues, error) {
	var all fieldValues
	for member := range strings.SplitSeq(text, ",") {
		if member == "" {
			return fieldValues{}, fmt.Errorf("the list %q has an empty member: use %s", text, f.allowed())
		}
		rule, found, err := f.dayRule(member)
		switch {
		case err != nil:
			return fieldValues{}, err
		case found:
			all.rules = append(all.rules, rule)
			continue
		}
		values, err := f.member(member, id)
		if err != nil {
			return fieldValues{}, err
		}
		all.bits |= values
	}
	return all, nil
}

// member parses a list member with the same values in every month.
func (f *field) member(text string, id [16]byte) (uint64, error) {
	if m := hashShape.FindStringSubmatch(text); m != nil {
		return f.hashed(m[1], m[2], id)
	}
	return f.plain(text)
}

// plainShape is a value, a range or a star, with or without a step. It is stricter than
// robfig/cron, which accepts *-5 and +5.
var plainShape = regexp.MustCompile(`^(?:[*?]|([0-9A-Z]+)(?:-([0-9A-Z]+))?)(?:/([0-9]+))?$`)

// plain parses a value, a range or a star, with or without a step.
func (f *field) plain(text string) (uint64, error) {
	m := plainShape.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%q cannot be read: use %s, a range such as %d-%d, a step such as */2, or a list of these",
			text, f.allowed(), f.min, f.min+3)
	}
	step, err := f.step(m[3])
	if err != nil {
		return 0, err
	}
	if m[1] == "" {
		return f.robfig(text)
	}
	low, err := f.value(m[1])
	if err != nil {
		return 0, err
	}
	if m[2] == "" {
		return f.from(low, m[3])
	}
	high, err := f.value(m[2])
	if err != nil {
		return 0, err
	}
	if f.kind == cron.Dow && m[2] == "SUN" && low > 0 {
		high = sunday
	}
	return f.span(low, high, step)
}

// from parses a single value. With a step it begins a range to the end of the field.
func (f *field) from(low int, step string) (uint64, error) {
	if f.kind == cron.Dow && low == sunday {
		return 1, nil
	}
	if step != "" {
		step = "/" + step
	}
	return f.robfig(strconv.Itoa(low) + step)
}

// span parses a range.
func (f *field) span(low, high, step int) (uint64, error) {
	if low > high {
		return 0, fmt.Errorf("the range %d-%d runs backwards: write the smaller value first, within %s, or a list of two ranges",
			low, high, f.allowed())
	}
	if f.kind != cron.Dow || high < sunday {
		return f.robfig(fmt.Sprintf("%d-%d/%d", low, high, step))
	}
	var values uint64
	if (sunday-low)%step == 0 {
		values = 1
	}
	if low == sunday {
		return values, nil
	}
	week, err := f.robfig(fmt.Sprintf("%d-%d/%d", low, sunday-1, step))
	return values | week, err
}

// value parses a number or a name.
func (f *field) value(text string) (int, error) {
	for i, name := range f.names {
		if name == text {
			return f.min + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.min || n > f.max {
		return 0, fmt.Errorf("%q is not allowed: use %s", text, f.allowed())
	}
	return n, nil
}

// step parses the step of a range; empty is 1. A step beyond the field is refused, because it would
// run once per round: */90 is not 90 minutes.
func (f *field) step(text string) (int, error) {
	if text == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > f.max {
		return 0, fmt.Errorf("the step %q is out of range: use 1 to %d", text, f.max)
	}
	return n, nil
}

// allowed describes the values of the field.
func (f *field) allowed() string {
	if f.names == nil {
		return fmt.Sprintf("%d to %d", f.min, f.max)
	}
	return fmt.Sprintf("%d to %d or %s to %s", f.min, f.max, f.names[0], f.names[len(f.names)-1])
}

// robfig parses one member with robfig/cron, and converts its panics into errors.
func (f *field) robfig(text string) (values uint64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%q cannot be read: use %s", text, f.allowed())
		}
	}()
	parsed, err := cron.NewParser(f.kind).Parse(text)
	plain, ok := parsed.(*cron.SpecSchedule)
	if err != nil || !ok {
		return 0, fmt.Errorf("%q cannot be read: use %s", text, f.allowed())
	}
	return f.bits(plain), nil
}
