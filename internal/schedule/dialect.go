package schedule

import (
	"regexp"
	"strings"
	"unicode"

	"rubato/internal/errs"
)

// Check returns the errors of [Parse], and refuses other forms in new expressions: white space
// except spaces, and ? outside the two day fields. Parse accepts these, because stored endpoints of
// an earlier release must not stop after an upgrade. For expressions of EventBridge and Quartz with
// a year, the error shows the equivalent expression.
func Check(spec Spec) error {
	bad := styleErrors(spec)
	if bad == nil {
		_, err := Parse(spec)
		return err
	}
	_, more := spec.clock()
	return errs.InvalidFields(append(bad, more...))
}

// styleErrors returns the errors of an expression that may be parsed but not stored.
func styleErrors(spec Spec) []errs.Field {
	text := spec.Expression
	if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		r := []rune(text[i:])[0]
		return []errs.Field{badCron(codeInvalid, "the expression holds %q: write it on one line, with spaces between its fields", string(r))}
	}
	upper := strings.ToUpper(strings.TrimSpace(text))
	if inner, found := strings.CutPrefix(upper, "CRON("); found {
		upper = strings.TrimSuffix(inner, ")")
	}
	parts := strings.Fields(upper)
	if foreign, form := withYear(parts); foreign != "" {
		return []errs.Field{badCron(codeInvalid, "%s: %s", foreign, suggestion(spec, form))}
	}
	return misplacedMarks(parts)
}

// yearShape is the year field of other dialects: any year, or years of four digits.
var yearShape = regexp.MustCompile(`^(\*(/[0-9]+)?|[0-9]{4}([-,/][0-9]+)*)$`)

// withYear detects an expression with a year, and returns its fields without the year. Six fields
// of EventBridge begin with the minute, so its ? is at our hour or month. Seven fields are
// Quartz's: our six and a year.
func withYear(parts []string) (foreign string, form []string) {
	if len(parts) == 0 || !yearShape.MatchString(parts[len(parts)-1]) {
		return "", nil
	}
	last := parts[len(parts)-1]
	form = parts[:len(parts)-1]
	switch {
	case len(parts) == len(fields)+1:
		return "the seventh field " + last + " is a year, and expressions have none here", form
	case len(parts) == len(fields) && (last[0] != '*' || parts[atHour] == "?" || parts[atMonth] == "?"):
		return "six fields begin with the second here, and " + last + " at the end would be a year, as in EventBridge", form
	}
	return "", nil
}

// suggestion describes the equivalent expression, if there is one. Both dialects number weekdays
// from 1 for Sunday.
func suggestion(spec Spec, form []string) string {
	own := make([]string, len(form))
	for i, text := range form {
		own[i] = strings.ReplaceAll(text, "?", "*")
	}
	own[len(own)-1] = namedWeekdays(own[len(own)-1])
	spec.Expression = strings.Join(own, " ")
	if _, err := Parse(spec); err != nil {
		return "use 5 fields (minute, hour, day of month, month, day of week), or 6 with the second in front"
	}
	return "for every year use " + spec.Expression
}

// weekdayNumber is a weekday in a list, in a range, or before L and #, but not a step or the week
// after #.
var weekdayNumber = regexp.MustCompile(`(^|[,-])([1-7])`)

// namedWeekdays replaces weekday numbers that start with 1 for Sunday by names.
func namedWeekdays(text string) string {
	if text == "L" {
		return "SAT"
	}
	names := fields[atDayOfWeek].names
	return weekdayNumber.ReplaceAllStringFunc(text, func(m string) string {
		return m[:len(m)-1] + names[m[len(m)-1]-'1']
	})
}

// misplacedMarks returns an error for each ? outside the day fields.
func misplacedMarks(parts []string) []errs.Field {
	before := len(fields) - len(parts) // the second is optional
	if before != 0 && before != 1 {
		return nil
	}
	var bad []errs.Field
	for i, text := range parts {
		at := before + i
		if at != atDayOfMonth && at != atDayOfWeek && strings.Contains(text, "?") {
			bad = append(bad, badCron(codeInvalid, "%s: ? may only stand for any day, in day of month and day of week: use *", fields[at].name))
		}
	}
	return bad
}
