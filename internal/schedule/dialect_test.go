package schedule

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/errs"
)

// TestOtherDialectsAreRefusedWithTheRightForm has expressions that were stored as another schedule,
// and what their users meant.
func TestOtherDialectsAreRefusedWithTheRightForm(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"0 12 * * ? *":                   "for every year use 0 12 * * *",
		"cron(0 12 * * ? *)":             "for every year use 0 12 * * *",
		"0 18 ? * MON-FRI *":             "for every year use 0 18 * * MON-FRI",
		"0/10 * ? * 2-6 *":               "for every year use 0/10 * * * MON-FRI",
		"15 10 ? * 6L 2022-2023":         "2022-2023 at the end would be a year, as in EventBridge: for every year use 15 10 * * FRIL",
		"0 9 ? * 2#1 *":                  "for every year use 0 9 * * MON#1",
		"0 9 ? * L *":                    "for every year use 0 9 * * SAT",
		"0 8 1 * ? *":                    "for every year use 0 8 1 * *",
		"0 12 1 1 * 2026":                "for every year use 0 12 1 1 *",
		"0 12 31 2 ? *":                  "use 5 fields (minute, hour, day of month, month, day of week), or 6 with the second in front",
		"0 0 12 * * ? *":                 "the seventh field * is a year, and expressions have none here: for every year use 0 0 12 * * *",
		"0 0 12 ? * 1,7 2026":            "for every year use 0 0 12 * * SUN,SAT",
		"? 12 * * *":                     "minute: ? may only stand for any day, in day of month and day of week: use *",
		"0 0 ? * * *":                    "six fields begin with the second here",
		"0 12 * ? *":                     "month: ? may only stand for any day",
		"? 0 12 * * MON":                 "second: ? may only stand for any day",
		"*/5 *\t* * *":                   `the expression holds "\t": write it on one line, with spaces between its fields`,
		"0 12 * * *\n":                   `the expression holds "\n"`,
		"0 12 * * *\u00a0":               "write it on one line",
		"0 12 * * MON\u202e":             "write it on one line",
		strings.Repeat("? ", 5) + "\x00": `the expression holds "\x00"`,
	} {
		bad := errs.FieldsOf(Check(Spec{Expression: expression}))
		require.Len(t, bad, 1, expression)
		require.Equal(t, "baselineCron", bad[0].Field, expression)
		require.Equal(t, "cron_invalid", bad[0].Code, expression)
		require.Contains(t, bad[0].Message, want, expression)
	}
}

func TestEveryBadPartOfANewExpressionIsNamed(t *testing.T) {
	t.Parallel()

	bad := errs.FieldsOf(Check(Spec{Expression: "? ? * ? *", Zone: "Mars"}))

	require.Len(t, bad, 4)
	require.Contains(t, bad[0].Message, "minute")
	require.Contains(t, bad[1].Message, "hour")
	require.Contains(t, bad[2].Message, "month")
	require.Equal(t, "timezone", bad[3].Field)
}

// TestOurOwnDialectIsAccepted has six fields with the second in front, and ? for a day, which
// Quartz shares.
func TestOurOwnDialectIsAccepted(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		"0 12 * * ?", "0 12 ? * *", "0 0 12 * * ?", "0 0 12 ? * *", "0 0 12 ? * MON-FRI", "*/10 * * * * *", "0 12 * * * *", " 0  12 * * * ", "@daily",
		"0 12 1-31/2 * ?", "H H * * ?",
	} {
		require.NoError(t, Check(Spec{Expression: expression}), expression)
	}
}

// TestStoredSchedulesStayReadable holds that an upgrade stops no endpoint.
func TestStoredSchedulesStayReadable(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{"0 12 * * ? *", "*/5 *\t* * *", "0 12 * * *\n"} {
		mustParse(t, Spec{Expression: expression})
		require.Error(t, Check(Spec{Expression: expression}), expression)
	}
}
