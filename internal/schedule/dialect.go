package schedule

import (
	"regexp"
	"strings"
	"unicode"

	"rubato/internal/errs"
)

// Check returns what [Parse] would refuse, and refuses besides what is no good style for a new expression although [Parse] reads it:
// white space other than spaces, and ? outside of the two day fields. Parse stays lenient, because an endpoint that an earlier release
// stored must not stop after an upgrade. Expressions of EventBridge and Quartz that end in a year get an error that offers the form
// to use here.
func Check(spec Spec) error {
	bad := styleErrors(spec)
	if bad == nil {
		_, err := Parse(spec)
		return err
	}
	_, more := spec.clock()
	return errs.InvalidFields(append(bad, more...))
}

// refuse returns what makes an expression unfit to be stored although it may be readable.
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

// yearShape is the last field of the dialects that have one: any year, or years of four digits.
var yearShape = regexp.MustCompile(`^(\*(/[0-9]+)?|[0-9]{4}([-,/][0-9]+)*)$`)

// withYear returns what is foreign in an expression that ends in a year, and its fields without the year. Six fields of EventBridge begin
// with the minute, so that its ? stands where the hour or the month is here. Seven fields are Quartz's: six of ours and a year.
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

// offer words the same schedule as it is written here, where there is one. Both dialects count weekdays from 1 for Sunday.
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

// weekdayNumber is a weekday of a list, of a range, or before L and #; a step or the week of # is none.
var weekdayNumber = regexp.MustCompile(`(^|[,-])([1-7])`)

// namedWeekdays replaces the numbers of weekdays that begin with 1 for Sunday by names.
func namedWeekdays(text string) string {
	if text == "L" {
		return "SAT"
	}
	names := fields[atDayOfWeek].names
	return weekdayNumber.ReplaceAllStringFunc(text, func(m string) string {
		return m[:len(m)-1] + names[m[len(m)-1]-'1']
	})
}

// misplacedMarks complains about each ? outside of the day fields.
func misplacedMarks(parts []string) []errs.Field {
	before := len(fields) - len(parts) // The second may be left out.
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
