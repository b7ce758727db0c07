package schedule_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/schedule"
)

func TestWordsSayWhenAnExpressionFires(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"0 9 * * MON-FRI":     "at 09:00, on Monday to Friday",
		"* * * * *":           "every minute",
		"*/15 * * * *":        "every 15 minutes",
		"*/5 9-17 * * 1,3":    "every 5 minutes of hour 9 to 17, on Monday and Wednesday",
		"30 * * * *":          "at minute 30 of every hour",
		"0 */6 * * *":         "at minute 0 of every hour that 6 divides",
		"0 6,18 1 JAN,JUL *":  "at 06:00 and 18:00, on day 1, in January and July",
		"15 30 9 * * *":       "at 09:30:15",
		"*/10 * * * * *":      "every 10 seconds of every minute",
		"0 0 L * *":           "at 00:00, on the last day of the month",
		"0 0 LW * *":          "at 00:00, on the last day of the month from Monday to Friday",
		"0 0 15W * *":         "at 00:00, on the day from Monday to Friday nearest to day 15",
		"0 9 * * FRI#2":       "at 09:00, on the second Friday of the month",
		"0 9 * * 5L":          "at 09:00, on the last Friday of the month",
		"0 9 1 * MON":         "at 09:00, on day 1 or on Monday",
		"0 9 */2 * MON":       "at 09:00, on day 1 to day 31, every 2 or on Monday",
		"0 9 13 * */2":        "at 09:00, on day 13 or on Sunday to Saturday, every 2",
		"*/45 * * * *":        "at minute 0 to 59, every 45 of every hour",
		"*/45 * * * * *":      "at second 0 to 59, every 45 of every minute",
		"0 */5 * * *":         "at minute 0 of hour 0 to 23, every 5",
		"0 9 1 */5 *":         "at 09:00, on day 1, in January to December, every 5",
		"0 9 */1 * MON":       "at 09:00, on Monday",
		"0 9 1,* * MON":       "at 09:00, on Monday",
		"H H * * *":           "at minute H (a value of its own, always the same) of hour H (a value of its own, always the same)",
		"@daily":              "at 00:00",
		"@hourly":             "at minute 0 of every hour",
		"61 * * * *":          "",
		"not a cron":          "",
		"0 0 31 2 *":          "",
		"CRON_TZ=UTC 0 0 * *": "",
	} {
		require.Equal(t, want, schedule.Describe(expression), expression)
	}
}
