package schedule

import (
	"strings"

	"rubato/internal/errs"
)

// parseExpression parses the expression of endpoint id, or returns all its errors.
func parseExpression(expression string, id [16]byte) (pattern, []errs.Field) {
	texts, bad := split(expression)
	if bad != nil {
		return pattern{}, bad
	}
	var sets [len(fields)]fieldValues
	for i := range fields {
		if strings.Trim(texts[i], ",") == "" {
			bad = append(bad, badCron(codeNeverFires, "%s: the list %q has no values, so it would never fire: use %s",
				fields[i].name, texts[i], fields[i].allowed()))
			continue
		}
		var err error
		if sets[i], err = fields[i].parse(texts[i], id); err != nil {
			bad = append(bad, badCron(codeInvalid, "%s: %s", fields[i].name, err))
		}
	}
	if bad != nil {
		return pattern{}, bad
	}

	p := pattern{
		seconds: sets[atSecond].values(),
		minutes: sets[atMinute].values(),
		hours:   sets[atHour].values(),
		months:  sets[atMonth].values(),
		days:    newDayTable(sets[atDayOfMonth], sets[atDayOfWeek]),
		even:    strings.ContainsAny(texts[atHour], "*?/"),
	}
	if p.neverFires() {
		return pattern{}, []errs.Field{badCron(codeNeverFires, "%q never fires: none of its months has such a day "+
			"(February has at most 29 days, April, June, September and November have 30)", expression)}
	}
	return p, nil
}

// split returns the six fields in upper case.
func split(expression string) (texts [len(fields)]string, bad []errs.Field) {
	text := strings.ToUpper(strings.TrimSpace(expression))
	parts := strings.Fields(text)
	switch {
	case len(expression) > maxExpression:
		return texts, []errs.Field{badCron(codeInvalid, "the expression has %d bytes: use at most %d", len(expression), maxExpression)}
	case strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ="):
		return texts, []errs.Field{badCron(codeInvalid, "the expression begins with a zone: put the zone into the field timezone")}
	case strings.HasPrefix(text, "@EVERY"):
		return texts, []errs.Field{badCron(codeInvalid, "@every is no cron schedule: use baselineIntervalMs, such as 300000 for 5 minutes")}
	case strings.HasPrefix(text, "@"):
		plain, ok := shorthand(text)
		if !ok {
			return texts, []errs.Field{badCron(codeInvalid, "%.40q is not known: use @hourly, @daily, @midnight, @weekly, @monthly, "+
				"@yearly or @annually, with nothing after it", expression)}
		}
		parts = strings.Fields(plain)
	}
	switch len(parts) {
	case len(fields):
		return [len(fields)]string(parts), nil
	case len(fields) - 1:
		return [len(fields)]string(append([]string{"0"}, parts...)), nil
	}
	return texts, []errs.Field{badCron(codeInvalid, "the expression has %d fields: use 5 (minute, hour, day of month, month, "+
		"day of week), or 6 with the second in front", len(parts))}
}

// shorthand returns the expression of a name such as @DAILY.
func shorthand(name string) (string, bool) {
	switch name {
	case "@HOURLY":
		return "0 * * * *", true
	case "@DAILY", "@MIDNIGHT":
		return "0 0 * * *", true
	case "@WEEKLY":
		return "0 0 * * 0", true
	case "@MONTHLY":
		return "0 0 1 * *", true
	case "@YEARLY", "@ANNUALLY":
		return "0 0 1 1 *", true
	}
	return "", false
}
