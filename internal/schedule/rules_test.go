package schedule

import (
	"math/bits"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWordsMeanTheirDays(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		expression, after string
		want              []string
	}{
		"LastDay":             {"0 9 L * *", "2024-01-31", []string{"2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30"}},
		"LastDayOfFebruary":   {"0 9 L 2 *", "2023-01-01", []string{"2023-02-28", "2024-02-29", "2025-02-28"}},
		"DaysBeforeTheLast":   {"0 9 L-3 * *", "2023-02-01", []string{"2023-02-25", "2023-03-28", "2023-04-27"}},
		"ThirtyBeforeTheLast": {"0 9 L-30 * *", "2023-01-01", []string{"2023-01-01", "2023-03-01", "2023-05-01"}},
		"LastWorkday":         {"0 9 LW * *", "2023-04-01", []string{"2023-04-28", "2023-05-31", "2023-06-30", "2023-07-31"}},
		"LastWorkdayOnSunday": {"0 9 LW 12 *", "2023-01-01", []string{"2023-12-29", "2024-12-31"}},
		"SaturdayGoesBack":    {"0 9 15W 4 *", "2023-01-01", []string{"2023-04-14"}},
		"SundayGoesForward":   {"0 9 15W 1 *", "2023-01-01", []string{"2023-01-16"}},
		"FirstOnSaturday":     {"0 9 1W 4 *", "2023-01-01", []string{"2023-04-03"}},
		"FirstOnSunday":       {"0 9 1W 1 *", "2023-01-01", []string{"2023-01-02"}},
		"LastDayOnSunday":     {"0 9 30W 4 *", "2023-01-01", []string{"2023-04-28"}},
		"NoSuchDayNoWorkday":  {"0 9 31W * *", "2023-02-01", []string{"2023-03-31", "2023-05-31", "2023-07-31"}},
		"SecondMonday":        {"0 9 * * 1#2", "2023-01-01", []string{"2023-01-09", "2023-02-13"}},
		"FifthFridayByName":   {"0 9 * * fri#5", "2023-01-01", []string{"2023-03-31", "2023-06-30"}},
		"SundayIsSeven":       {"0 9 * * 7", "2023-01-01", []string{"2023-01-01", "2023-01-08"}},
		"FirstSundayAsSeven":  {"0 9 * * 7#1", "2023-01-01", []string{"2023-01-01", "2023-02-05"}},
		"LastSundayAsSeven":   {"0 9 * * 7L", "2023-01-01", []string{"2023-01-29", "2023-02-26"}},
		"LastFriday":          {"0 9 * * 5L", "2023-01-01", []string{"2023-01-27", "2023-02-24"}},
		"LastFridayByName":    {"0 9 * * FriL", "2023-01-01", []string{"2023-01-27", "2023-02-24"}},
		"LongWeekend":         {"0 9 * * 5-7", "2023-01-02", []string{"2023-01-06", "2023-01-07", "2023-01-08", "2023-01-13"}},
		"LongWeekendByName":   {"0 9 * * FRI-SUN", "2023-01-02", []string{"2023-01-06", "2023-01-07", "2023-01-08", "2023-01-13"}},
		"SundayBeginsARange":  {"0 9 * * SUN-MON", "2023-01-02", []string{"2023-01-02", "2023-01-08", "2023-01-09"}},
		"StepsReachSunday":    {"0 9 * * 1-7/3", "2023-01-02", []string{"2023-01-02", "2023-01-05", "2023-01-08"}},
		"StepsMissSunday":     {"0 9 * * 1-7/4", "2023-01-02", []string{"2023-01-02", "2023-01-06", "2023-01-09"}},
		"SundayAlone":         {"0 9 * * 7-7", "2023-01-02", []string{"2023-01-08", "2023-01-15"}},
		"EveryDayOfTheWeek":   {"0 9 * * 0-7", "2023-01-02", []string{"2023-01-02", "2023-01-03"}},
		"ListsMixWords":       {"0 9 1,15,L * *", "2023-02-01", []string{"2023-02-01", "2023-02-15", "2023-02-28", "2023-03-01"}},
		"EitherDayMatches":    {"0 9 13 * 5", "2023-01-02", []string{"2023-01-06", "2023-01-13", "2023-01-20", "2023-01-27", "2023-02-03", "2023-02-10", "2023-02-13"}},
		"WordsRestrictToo":    {"0 9 L * 1#1", "2023-01-03", []string{"2023-01-31", "2023-02-06", "2023-02-28"}},
		"QuestionMarkIsStar":  {"0 9 ? * 1", "2023-01-03", []string{"2023-01-09", "2023-01-16"}},
		"NamesOfMonths":       {"0 9 1 jan,MAR-apr *", "2023-01-02", []string{"2023-03-01", "2023-04-01", "2024-01-01"}},
		"StartOfASteppedRun":  {"0 9 20/5 * *", "2023-01-02", []string{"2023-01-20", "2023-01-25", "2023-01-30", "2023-02-20"}},
		"Seconds":             {"0 0 9 * * 1", "2023-01-03", []string{"2023-01-09"}},
		"AcrossTheCentury":    {"0 9 29 2 *", "2096-02-28", []string{"2096-02-29", "2104-02-29"}},
	} {
		c := mustParse(t, Spec{Expression: row.expression})
		after := at(t, row.after)
		for _, want := range row.want {
			after = c.Next(after)
			require.Equal(t, want+" 09:00:00", after.Format(time.DateTime), name)
		}
	}
}

func TestNoWaitIsLongerThanFortyYears(t *testing.T) {
	t.Parallel()
	longest := 0
	for weekday := range 7 {
		c := mustParse(t, Spec{Expression: "0 0 * 2 " + strconv.Itoa(weekday) + "#5"})
		previous := c.Next(at(t, "2000-01-01"))
		for previous.Year() < 2400 {
			next := c.Next(previous)
			require.False(t, next.IsZero(), "after %s", previous)
			require.Equal(t, 29, next.Day())
			longest, previous = max(longest, next.Year()-previous.Year()), next
		}
	}
	require.Equal(t, 40, longest)
}

func TestShorthandsAreExpressions(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"@hourly":   {"2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"},
		"@daily":    {"2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"},
		"@midnight": {"2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"},
		"@weekly":   {"2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"},
		"@monthly":  {"2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		"@Yearly":   {"2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"},
		"@annually": {"2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"},
	} {
		require.Equal(t, want, next(mustParse(t, Spec{Expression: name}), at(t, "2026-01-01"), 2), name)
	}
}

// hashID returns an endpoint.
func hashID(n int) [16]byte { return [16]byte{0: byte(n), 7: byte(n >> 8), 15: 1} }

func TestHashesStayInTheirRangeAndSpread(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		field     int
		text      string
		low, high int
		count     int // of values one endpoint gets
	}{
		"Second":     {atSecond, "H", 0, 59, 1},
		"Minute":     {atMinute, "H", 0, 59, 1},
		"Hour":       {atHour, "H", 0, 23, 1},
		"DayOfMonth": {atDayOfMonth, "H", 1, 28, 1},
		"Month":      {atMonth, "H", 1, 12, 1},
		"DayOfWeek":  {atDayOfWeek, "H", 0, 6, 1},
		"Range":      {atHour, "H(9-17)", 9, 17, 1},
		"Step":       {atMinute, "H/15", 0, 59, 4},
		"RangeStep":  {atHour, "H(8-19)/4", 8, 19, 3},
		"Single":     {atHour, "H(5-5)", 5, 5, 1},
		"Named":      {atDayOfWeek, "H(MON-FRI)", 1, 5, 1},
	} {
		var seen uint64
		for n := range 2000 {
			values, err := fields[row.field].parse(row.text, hashID(n))
			require.NoError(t, err, name)
			require.Equal(t, row.count, bits.OnesCount64(values.bits), name)
			seen |= values.bits
		}
		require.Equal(t, row.low, bits.TrailingZeros64(seen), name)
		require.Equal(t, row.high, bits.Len64(seen)-1, name)
		require.Equal(t, row.high-row.low+1, bits.OnesCount64(seen), "%s: every value is somebody's", name)
	}
}

func TestHashesStayForever(t *testing.T) {
	t.Parallel()
	c := mustParse(t, Spec{Expression: "H H H * *", ID: hashID(1)})

	got := next(c, at(t, "2026-01-01"), 2)

	require.Equal(t, []string{"2026-01-15T06:16:00Z", "2026-02-15T06:16:00Z"}, got)
	require.Equal(t, got, next(mustParse(t, Spec{Expression: "h h h * ?", ID: hashID(1)}), at(t, "2026-01-01"), 2))
	require.NotEqual(t, got, next(mustParse(t, Spec{Expression: "H H H * *", ID: hashID(2)}), at(t, "2026-01-01"), 2))
}

func TestASteppedHashIsEvenlySpaced(t *testing.T) {
	t.Parallel()
	c := mustParse(t, Spec{Expression: "H/20 * * * *", ID: hashID(3)})
	previous := c.Next(at(t, "2026-01-01"))
	for range 10 {
		now := c.Next(previous)
		require.Equal(t, 20*time.Minute, now.Sub(previous))
		previous = now
	}
}

func TestPreviewReportsClockChanges(t *testing.T) {
	t.Parallel()
	c := mustParse(t, Spec{Expression: "30 2 * * *", Zone: "America/New_York"})
	after := at(t, "2026-03-07")

	rows := c.Preview(after, 3)

	require.Len(t, rows, 3)
	require.Empty(t, rows[0].Note)
	require.Equal(t, "2026-03-08T03:00:00-04:00", rows[1].At.Format(time.RFC3339))
	require.Equal(t, "02:30 does not exist on this day: runs at 03:00 EDT, the first instant after the gap", rows[1].Note)
	require.Empty(t, rows[2].Note)
	require.Empty(t, c.Preview(after, 0))
	require.Empty(t, c.Preview(after, -1))

	_, ok := c.NextTransition(after, 24*time.Hour)
	require.False(t, ok, "the change comes later")
	change, ok := c.NextTransition(after, 365*24*time.Hour)
	require.True(t, ok)
	require.Equal(t, rows[1], change)
	_, ok = c.NextTransition(change.At, 364*24*time.Hour)
	require.False(t, ok, "02:30 comes once in November")
	_, ok = mustParse(t, Spec{Expression: "*/5 * * * *", Zone: "America/New_York"}).NextTransition(after, 10*365*24*time.Hour)
	require.False(t, ok, "a schedule in real time loses nothing")
	_, ok = mustParse(t, Spec{Expression: "30 1 * * *", Zone: "America/New_York"}).NextTransition(at(t, "2104-12-01"), 60*24*time.Hour)
	require.False(t, ok, "the end of a leap year changes no clock")
	for _, row := range mustParse(t, Spec{Expression: "30 1 * * *", Zone: "America/New_York"}).Preview(at(t, "2104-12-28"), 6) {
		require.Empty(t, row.Note, "%s", row.At)
	}
	_, ok = mustParse(t, Spec{Expression: "30 2 * * *"}).NextTransition(after, 200*365*24*time.Hour)
	require.False(t, ok, "UTC has no changes")
}
