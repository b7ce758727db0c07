package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/errs"
)

// mustParse returns the schedule of spec.
func mustParse(tb testing.TB, spec Spec) *Cron {
	tb.Helper()
	c, err := Parse(spec)
	require.NoError(tb, err, "%+v", spec)
	return c
}

// at reads an instant such as 2026-03-08T03:00:00-04:00, or 2026-03-08 as midnight UTC.
func at(tb testing.TB, text string) time.Time {
	tb.Helper()
	if !strings.Contains(text, "T") {
		text += "T00:00:00Z"
	}
	instant, err := time.Parse(time.RFC3339, text)
	require.NoError(tb, err)
	return instant
}

// next returns the first n firings after after, as text with the offset of the zone.
func next(c *Cron, after time.Time, n int) []string {
	var all []string
	for range n {
		if after = c.Next(after); after.IsZero() {
			break
		}
		all = append(all, after.In(c.zone).Format(time.RFC3339))
	}
	return all
}

func TestParseNamesEverythingThatIsWrong(t *testing.T) {
	t.Parallel()

	_, err := Parse(Spec{Expression: "61 25 * 13 *", Gap: "jump", Overlap: "twice", Zone: "Mars/Olympus"})

	require.Equal(t, errs.Invalid, errs.CodeOf(err))
	require.Equal(t, []errs.Field{
		{Field: "baselineCron", Code: "cron_invalid", Message: `minute: "61" is not allowed: use 0 to 59`},
		{Field: "baselineCron", Code: "cron_invalid", Message: `hour: "25" is not allowed: use 0 to 23`},
		{Field: "baselineCron", Code: "cron_invalid", Message: `month: "13" is not allowed: use 1 to 12 or JAN to DEC`},
		{Field: "timezone", Code: "timezone_invalid", Message: `"Mars/Olympus" is no time zone: use an IANA name such as Europe/Berlin, ` +
			`America/New_York or UTC (a fixed offset of +2 h is Etc/GMT-2, with the sign reversed)`},
		{Field: "dst.gap", Code: "invalid_value", Message: `"jump" is no policy: use "run" (the default) or "skip"`},
		{Field: "dst.overlap", Code: "invalid_value", Message: `"twice" is no policy: use "once" (the default) or "both"`},
	}, errs.FieldsOf(err))
}

func TestBadExpressionsAreRefused(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]struct{ code, message string }{
		"":                                     {"cron_invalid", "the expression has 0 fields: use 5 "},
		"* * * *":                              {"cron_invalid", "the expression has 4 fields: use 5 "},
		"* * * * * * *":                        {"cron_invalid", "the expression has 7 fields: use 5 "},
		strings.Repeat("0,", 300) + " * * * *": {"cron_invalid", "608 bytes: use at most 512"},
		"TZ=Europe/Rome":                       {"cron_invalid", "put the zone into the field timezone"},
		"TZ=":                                  {"cron_invalid", "put the zone into the field timezone"},
		"CRON_TZ=":                             {"cron_invalid", "put the zone into the field timezone"},
		"CRON_TZ=Europe/Berlin 0 9 * * *":      {"cron_invalid", "put the zone into the field timezone"},
		"tz=UTC 0 9 * * *":                     {"cron_invalid", "put the zone into the field timezone"},
		"@every 500ms":                         {"cron_invalid", "use baselineIntervalMs"},
		"@every":                               {"cron_invalid", "use baselineIntervalMs"},
		"@annually text":                       {"cron_invalid", "with nothing after it"},
		"@reboot":                              {"cron_invalid", "with nothing after it"},
		", * * * *":                            {"cron_never_fires", `minute: the list "," has no values`},
		"* , * * *":                            {"cron_never_fires", `hour: the list "," has no values`},
		"1, * * * *":                           {"cron_invalid", `minute: the list "1," has an empty member`},
		"* * ,1 * *":                           {"cron_invalid", `day of month: the list ",1" has an empty member`},
		"* * * 1,,2 *":                         {"cron_invalid", `month: the list "1,,2" has an empty member`},
		"60 * * * *":                           {"cron_invalid", `"60" is not allowed: use 0 to 59`},
		"61 * * * *":                           {"cron_invalid", `"61" is not allowed: use 0 to 59`},
		"60 * * * * *":                         {"cron_invalid", `"60" is not allowed: use 0 to 59`},
		"0-99 * * * *":                         {"cron_invalid", `"99" is not allowed: use 0 to 59`},
		"* 24 * * *":                           {"cron_invalid", `"24" is not allowed: use 0 to 23`},
		"* * 0 * *":                            {"cron_invalid", `"0" is not allowed: use 1 to 31`},
		"* * 32 * *":                           {"cron_invalid", `"32" is not allowed: use 1 to 31`},
		"* * * 0 *":                            {"cron_invalid", `"0" is not allowed: use 1 to 12 or JAN to DEC`},
		"* * * FOO *":                          {"cron_invalid", `"FOO" is not allowed: use 1 to 12 or JAN to DEC`},
		"* * * * 8":                            {"cron_invalid", `"8" is not allowed: use 0 to 7 or SUN to SAT`},
		"* * * * MOO":                          {"cron_invalid", `"MOO" is not allowed: use 0 to 7 or SUN to SAT`},
		"0 0 * 2 8":                            {"cron_invalid", `"8" is not allowed: use 0 to 7 or SUN to SAT`},
		"30-10 * * * *":                        {"cron_invalid", "the range 30-10 runs backwards"},
		"* 22-2 * * *":                         {"cron_invalid", "the range 22-2 runs backwards: write the smaller value first, within 0 to 23"},
		"* * * * SAT-MON":                      {"cron_invalid", "the range 6-1 runs backwards"},
		"*/0 * * * *":                          {"cron_invalid", `minute: the step "0" is out of range: use 1 to 59`},
		"*/90 * * * *":                         {"cron_invalid", `minute: the step "90" is out of range: use 1 to 59`},
		"* */24 * * *":                         {"cron_invalid", `hour: the step "24" is out of range: use 1 to 23`},
		"99999999999999999999 * * * *":         {"cron_invalid", "is not allowed"},
		"*/99999999999999999999 * * * *":       {"cron_invalid", "is out of range"},
		"-5 * * * *":                           {"cron_invalid", `"-5" cannot be read: use 0 to 59`},
		"+5 * * * *":                           {"cron_invalid", `"+5" cannot be read`},
		"*-5 * * * *":                          {"cron_invalid", `"*-5" cannot be read`},
		"5- * * * *":                           {"cron_invalid", `"5-" cannot be read`},
		"1-2-3 * * * *":                        {"cron_invalid", `"1-2-3" cannot be read`},
		"*/2/3 * * * *":                        {"cron_invalid", `"*/2/3" cannot be read`},
		"*/ * * * *":                           {"cron_invalid", `"*/" cannot be read`},
		"** * * * *":                           {"cron_invalid", `"**" cannot be read`},
		"1.5 * * * *":                          {"cron_invalid", `"1.5" cannot be read`},
		"٣ * * * *":                            {"cron_invalid", "cannot be read"},
		"L * * * *":                            {"cron_invalid", `"L" is not allowed`},
		"* * * L *":                            {"cron_invalid", `"L" is not allowed`},
		"* * * * L":                            {"cron_invalid", "the weekday of L is missing: use FRIL"},
		"* * L-0 * *":                          {"cron_invalid", "use L for the last day, or L-1 to L-30"},
		"* * L-31 * *":                         {"cron_invalid", "use L for the last day, or L-1 to L-30"},
		"* * 32W * *":                          {"cron_invalid", `"32" is not allowed`},
		"* * W * *":                            {"cron_invalid", `"W" is not allowed`},
		"* * 1-5W * *":                         {"cron_invalid", `"5W" is not allowed`},
		"* * * * 1#0":                          {"cron_invalid", "#1 to #5"},
		"* * * * 1#6":                          {"cron_invalid", "#1 to #5"},
		"* * * * 8#1":                          {"cron_invalid", `"8" is not allowed`},
		"* * * * 8L":                           {"cron_invalid", `"8" is not allowed`},
		"* * 1#2 * *":                          {"cron_invalid", `day of month: "1#2" cannot be read`},
		"H(5-99) * * * *":                      {"cron_invalid", `"99" is not allowed`},
		"H(9-5) * * * *":                       {"cron_invalid", "the range 9-5 runs backwards"},
		"H() * * * * *":                        {"cron_invalid", `second: "H()" cannot be read`},
		"H/0 * * * *":                          {"cron_invalid", `the step "0" is out of range`},
		"H/99 * * * *":                         {"cron_invalid", `the step "99" is out of range`},
		"H-5 * * * *":                          {"cron_invalid", `"H" is not allowed`},
		"0 0 30 2 *":                           {"cron_never_fires", "February has at most 29 days"},
		"0 0 31 4 *":                           {"cron_never_fires", "June, September and November have 30"},
		"0 0 31 2,4,6,9,11 *":                  {"cron_never_fires", "never fires"},
		"0 0 L-29 2 *":                         {"cron_never_fires", "never fires"},
		"0 0 30W 2 *":                          {"cron_never_fires", "never fires"},
	} {
		_, err := Parse(Spec{Expression: expression})
		fields := errs.FieldsOf(err)
		require.Len(t, fields, 1, expression)
		require.Equal(t, "baselineCron", fields[0].Field, expression)
		require.Equal(t, want.code, fields[0].Code, expression)
		require.Contains(t, fields[0].Message, want.message, expression)
	}
}

func TestPanicsOfTheParserAreErrors(t *testing.T) {
	t.Parallel()

	_, err := fields[atMinute].robfig("TZ=0")

	require.ErrorContains(t, err, "cannot be read: use 0 to 59")
}

func TestSchedulesWithinClockGapsAreRefused(t *testing.T) {
	t.Parallel()
	spec := Spec{Expression: "30 2 * 3 0#2", Zone: "America/New_York"}
	mustParse(t, spec)

	spec.Gap = GapSkip
	_, err := Parse(spec)

	require.Len(t, errs.FieldsOf(err), 1)
	require.Equal(t, "cron_never_fires", errs.FieldsOf(err)[0].Code)
	spec.Expression = "30 2 * 3 0"
	mustParse(t, spec)
}

func TestZonesAreChecked(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT-2", "GMT+0", "America/Port-au-Prince"} {
		zone, err := LoadZone(name)
		require.NoError(t, err, name)
		require.Equal(t, name, zone.String())
	}
	for _, name := range []string{
		"", "Local", "local", "localtime", "posixrules", "Factory", "posix/Europe/Berlin", "right/Europe/Berlin", "UTC+2", "+02:00", "Europe",
		"Europe/Nowhere", "/etc/localtime", "../zoneinfo/UTC", "Europe/../UTC", "Europe//Berlin", "Europe/Berlin/", " UTC", "UTC\n", "UTC\x00",
		"zone.tab", "tzdata.zi", "leapseconds", `Europe\Berlin`, strings.Repeat("A", 100),
	} {
		_, err := LoadZone(name)
		require.Len(t, errs.FieldsOf(err), 1, name)
		require.Equal(t, "timezone", errs.FieldsOf(err)[0].Field, name)
		require.Equal(t, "timezone_invalid", errs.FieldsOf(err)[0].Code, name)
	}
}

// TestAnEmptyZoneIsNotQuoted: the error for an empty zone quotes nothing, because a blank stands
// for empty text.
func TestAnEmptyZoneIsNotQuoted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", " ", "\t "} {
		_, err := LoadZone(name)
		require.Contains(t, errs.FieldsOf(err)[0].Message, "must not be empty: use an IANA name such as")
		require.NotContains(t, errs.FieldsOf(err)[0].Message, "\"")
	}
	_, err := LoadZone("Nowhere")
	require.Contains(t, errs.FieldsOf(err)[0].Message, `"Nowhere" is no time zone: use`)
}

func TestNoZoneIsUTC(t *testing.T) {
	t.Parallel()

	c := mustParse(t, Spec{Expression: " 0  9 * *\t1-5 "})

	require.Equal(t, "0 9 * * 1-5 (UTC)", c.String())
	require.Equal(t, time.UTC, c.Next(at(t, "2026-01-01")).Location())
}

func TestPoliciesAreKnown(t *testing.T) {
	t.Parallel()
	for _, p := range []GapPolicy{"", GapRun, GapSkip} {
		require.True(t, p.Valid(), p)
	}
	for _, p := range []OverlapPolicy{"", OverlapOnce, OverlapBoth} {
		require.True(t, p.Valid(), p)
	}
	require.False(t, GapPolicy("Run").Valid())
	require.False(t, OverlapPolicy("skip").Valid())
}

func TestOddInstantsHaveAnAnswer(t *testing.T) {
	t.Parallel()
	c := mustParse(t, Spec{Expression: "* * * * *", Zone: "Europe/Berlin"})
	for name, after := range map[string]time.Time{
		"AfterYear9999": time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
		"LastMinute":    time.Date(9999, 12, 31, 23, 59, 0, 0, time.UTC),
		"BeforeYear1":   time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC),
		"FarFuture":     time.Unix(1<<63-1, 0),
		"FarPast":       time.Unix(-1<<63, 0),
	} {
		require.Zero(t, c.Next(after), name)
		require.Empty(t, c.Preview(after, 3), name)
		_, ok := c.NextTransition(after, time.Hour)
		require.False(t, ok, name)
	}
	require.Equal(t, at(t, "0001-01-01T00:00:32Z"), c.Next(time.Time{}), "local mean time of Berlin is 53 min 28 s ahead")
	require.Equal(t, at(t, "2026-01-01T00:01:00Z"), c.Next(at(t, "2026-01-01").Add(time.Nanosecond)))
	require.Equal(t, at(t, "2026-01-01T00:01:00Z"), c.Next(at(t, "2026-01-01T00:00:59Z").Add(time.Second-1)))
}
