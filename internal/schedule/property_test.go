package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestFiringsAreStrictlyIncreasing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, err := Parse(drawSpec(t))
		require.NoError(t, err)
		after := time.Unix(rapid.Int64Range(-5e9, 20e9).Draw(t, "after"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds"))
		for range 20 {
			now := c.Next(after)
			require.True(t, now.After(after), "%s: %s is not after %s", c, now, after)
			require.Zero(t, now.Nanosecond())
			require.Equal(t, now, c.Next(now.Add(-time.Nanosecond)), "nothing fires between")
			after = now
		}
	})
}

func TestWithoutClockChangesWeAgreeWithRobfig(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		expression := drawPlain(t)
		zone := rapid.SampledFrom([]string{"UTC", "Asia/Kolkata", "Asia/Kathmandu", "Etc/GMT+5"}).Draw(t, "zone")
		theirs, err := cron.ParseStandard("CRON_TZ=" + zone + " " + expression)
		require.NoError(t, err, expression)
		after := time.Unix(rapid.Int64Range(946684800, 4102444800).Draw(t, "after"), 0).UTC()
		want := theirs.Next(after)
		ours, err := Parse(Spec{Expression: expression, Zone: zone})
		if err != nil {
			require.True(t, want.IsZero(), "%s fires at %s", expression, want)
			return
		}
		for range 5 {
			got := ours.Next(after)
			if want.IsZero() {
				require.True(t, got.Sub(after) > 4*365*24*time.Hour, "%s: %s is within what robfig searches", expression, got)
				return
			}
			require.Equal(t, want.UTC(), got, "%s after %s", expression, after)
			after, want = got, theirs.Next(got)
		}
	})
}

func FuzzParseAndNextAreBounded(f *testing.F) {
	for _, expression := range []string{
		"* * * * *", "0 0 29 2 *", "*/5 1-3,7 L,15W,LW * 5L,1#5", "0 30 2 * 3 0#2", "H H(1-5)/2 H * *", "@hourly", "TZ=0", "CRON_TZ=Europe/Berlin",
		", * * * *", "@every 1ns", "0 12 30 12 *", "? ? ? ? ?", "59 59 23 31 12 7",
	} {
		f.Add(expression, "Pacific/Apia", "run", "once", int64(1325239200), int64(0))
		f.Add(expression, "America/New_York", "skip", "both", int64(1772953200), int64(1))
		f.Add(expression, "UTC", "", "", int64(-62135596800), int64(999999999))
		f.Add(expression, "Africa/Casablanca", "", "", int64(253402300799), int64(0))
	}
	f.Fuzz(func(t *testing.T, expression, zone, gap, overlap string, second, nanosecond int64) {
		c, err := Parse(Spec{Expression: expression, Zone: zone, Gap: GapPolicy(gap), Overlap: OverlapPolicy(overlap)})
		if err != nil {
			require.Nil(t, c)
			return
		}
		after := time.Unix(second, nanosecond)
		now := c.Next(after)
		require.True(t, now.IsZero() || now.After(after), "%s after %s", c, after)
		require.True(t, now.IsZero() || now.Unix()-after.Unix() <= horizon, "%s after %s", c, after)
		for _, row := range c.Preview(after, 3) {
			require.True(t, strings.ToValidUTF8(row.Note, "") == row.Note)
		}
		c.NextTransition(after, 365*24*time.Hour)
	})
}

func BenchmarkNext(b *testing.B) {
	for name, spec := range map[string]Spec{
		"EveryMinuteUTC":        {Expression: "* * * * *"},
		"EveryFiveMinutes":      {Expression: "*/5 * * * *", Zone: "Europe/Berlin"},
		"Daily":                 {Expression: "30 2 * * *", Zone: "America/New_York"},
		"LastWorkday":           {Expression: "0 9 LW * *", Zone: "Europe/Berlin"},
		"Yearly":                {Expression: "0 0 1 1 *", Zone: "America/New_York"},
		"LeapDay":               {Expression: "0 0 29 2 *", Zone: "America/New_York"},
		"FifthMondayInFebruary": {Expression: "0 0 * 2 1#5", Zone: "America/New_York"},
	} {
		b.Run(name, func(b *testing.B) {
			c := mustParse(b, spec)
			after := at(b, "2026-06-15")
			for b.Loop() {
				c.Next(after)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		mustParse(b, Spec{Expression: "*/15 9-17 * * 1-5", Zone: "Europe/Berlin"})
	}
}
