package schedule

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/robfig/cron/v3"
)

// Describe describes an expression in English, such as "at 09:00, on Monday to Friday". It returns
// an empty text for an invalid expression. A field that it cannot describe is shown as it is
// written.
func Describe(expression string) string {
	texts, bad := split(expression)
	if bad != nil {
		return ""
	}
	if _, bad := parseExpression(expression, [16]byte{}); bad != nil {
		return ""
	}
	parts := []string{describeClock(texts[atSecond], texts[atMinute], texts[atHour])}
	if days := describeDays(texts[atDayOfMonth], texts[atDayOfWeek]); days != "" {
		parts = append(parts, days)
	}
	if !anyValue(texts[atMonth]) {
		parts = append(parts, "in "+describeValues(atMonth, texts[atMonth], monthName))
	}
	return strings.Join(parts, ", ")
}

func anyValue(text string) bool { return text == "*" || text == "?" }

// step returns n of */n if it is a regular period: */45 is minute 0 and 45, not every 45 minutes.
func step(text string, whole int) (int, bool) {
	rest, found := strings.CutPrefix(text, "*/")
	n, err := strconv.Atoi(rest)
	return n, found && err == nil && n > 1 && whole%n == 0
}

// numbers returns the values of a plain list, such as 0,30.
func numbers(text string) ([]int, bool) {
	var list []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		list = append(list, n)
	}
	return list, true
}

// describeClock describes the times of day.
func describeClock(second, minute, hour string) string {
	seconds, plainSeconds := numbers(second)
	minutes, plainMinutes := numbers(minute)
	hours, plainHours := numbers(hour)
	if plainSeconds && plainMinutes && plainHours && len(seconds)*len(minutes)*len(hours) <= 6 {
		times := make([]string, 0, len(seconds)*len(minutes)*len(hours))
		for _, h := range hours {
			for _, m := range minutes {
				for _, s := range seconds {
					times = append(times, clockTime(h, m, s))
				}
			}
		}
		return "at " + join(times)
	}
	words := describeMinutes(minute, hour)
	switch {
	case second == "0":
		return words
	case anyValue(second):
		return "every second of " + strings.TrimPrefix(words, "at ")
	}
	if n, is := step(second, 60); is {
		return fmt.Sprintf("every %d seconds of %s", n, strings.TrimPrefix(words, "at "))
	}
	return "at second " + describeValues(atSecond, second, plainName) + " of " + strings.TrimPrefix(words, "at ")
}

func clockTime(h, m, s int) string {
	if s == 0 {
		return fmt.Sprintf("%02d:%02d", h, m)
	}
	return fmt.Sprintf("%02d:%02d:%02d", h, m, s)
}

func describeMinutes(minute, hour string) string {
	during := describeHours(hour)
	if n, is := step(minute, 60); is {
		return strings.TrimSpace(fmt.Sprintf("every %d minutes %s", n, during))
	}
	switch {
	case anyValue(minute):
		return strings.TrimSpace("every minute " + during)
	case during == "":
		return "at minute " + describeValues(atMinute, minute, plainName) + " of every hour"
	default:
		return "at minute " + describeValues(atMinute, minute, plainName) + " " + during
	}
}

// describeHours describes the hours; empty: all of them.
func describeHours(hour string) string {
	if anyValue(hour) {
		return ""
	}
	if n, is := step(hour, 24); is {
		return fmt.Sprintf("of every hour that %d divides", n)
	}
	return "of hour " + describeValues(atHour, hour, plainName)
}

// describeDays describes the days; empty: all of them. If both fields are restricted, one of them
// has to match.
func describeDays(dayOfMonth, dayOfWeek string) string {
	var parts []string
	if restricts(atDayOfMonth, dayOfMonth) {
		parts = append(parts, "on "+describeValues(atDayOfMonth, dayOfMonth, dayName))
	}
	if restricts(atDayOfWeek, dayOfWeek) {
		parts = append(parts, "on "+describeValues(atDayOfWeek, dayOfWeek, weekdayName))
	}
	return strings.Join(parts, " or ")
}

// restricts reports whether a day field excludes days: */2 does, a star in a list does not.
func restricts(place int, text string) bool {
	said, err := fields[place].parse(text, [16]byte{})
	return err == nil && said.bits&star == 0
}

// last returns the last value of the field; Sunday counts as the first day of the week.
func (f *field) last() int {
	if f.kind == cron.Dow {
		return sunday - 1
	}
	return f.max
}

// describeValues describes one field: a list of values, ranges and steps.
func describeValues(place int, text string, name func(string) string) string {
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		values, by, stepped := strings.Cut(part, "/")
		from, to, ranged := strings.Cut(values, "-")
		words := name(values)
		switch {
		case anyValue(values) && stepped:
			words = name(strconv.Itoa(fields[place].min)) + " to " + name(strconv.Itoa(fields[place].last()))
		case anyValue(values):
			words = "any"
		case ranged && !strings.HasPrefix(values, "L") && !strings.HasPrefix(values, "H"):
			words = name(from) + " to " + name(to)
		}
		if stepped {
			words += ", every " + by
		}
		list = append(list, words)
	}
	return join(list)
}

// join formats a list as in a sentence.
func join(list []string) string {
	switch len(list) {
	case 0:
		return ""
	case 1:
		return list[0]
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}

func plainName(text string) string {
	if strings.HasPrefix(text, "H") {
		return text + " (a value of its own, always the same)"
	}
	return text
}

func monthName(text string) string {
	months := [...]string{
		"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
	}
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= 12 {
		return months[n-1]
	}
	for i, short := range fields[atMonth].names {
		if text == short {
			return months[i]
		}
	}
	return plainName(text)
}

func weekday(text string) (string, bool) {
	days := [...]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
	if n, err := strconv.Atoi(text); err == nil && n >= 0 && n <= sunday {
		return days[n], true
	}
	for i, short := range fields[atDayOfWeek].names {
		if text == short {
			return days[i], true
		}
	}
	return "", false
}

func weekdayName(text string) string {
	if day, is := weekday(text); is {
		return day
	}
	if day, nth, found := strings.Cut(text, "#"); found {
		ordinals := map[string]string{"1": "first", "2": "second", "3": "third", "4": "fourth", "5": "fifth"}
		if name, is := weekday(day); is && ordinals[nth] != "" {
			return "the " + ordinals[nth] + " " + name + " of the month"
		}
	}
	if day, found := strings.CutSuffix(text, "L"); found {
		if name, is := weekday(day); is {
			return "the last " + name + " of the month"
		}
	}
	return plainName(text)
}

func dayName(text string) string {
	switch text {
	case "L":
		return "the last day of the month"
	case "LW", "WL":
		return "the last day of the month from Monday to Friday"
	}
	if before, found := strings.CutPrefix(text, "L-"); found {
		return before + " days before the last of the month"
	}
	if day, found := strings.CutSuffix(text, "W"); found {
		return "the day from Monday to Friday nearest to day " + day
	}
	if _, err := strconv.Atoi(text); err == nil {
		return "day " + text
	}
	return plainName(text)
}
