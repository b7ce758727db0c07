package schedule

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// goldenZone lists the occurrences of each expression around every clock change of the zone in some
// years, or from the start of each year if there is none. Years with disputed rules are left out.
type goldenZone struct {
	zone        string
	from, to    int // years, both included
	changes     int
	expressions []string
}

func goldenZones() []goldenZone {
	return []goldenZone{
		{"Africa/Casablanca", 2021, 2025, 10, []string{"30 2 * * *", "0 3 * * *", "*/30 2 * * *", "*/15 * * * *"}},
		{"America/Havana", 2022, 2024, 6, []string{"30 0 * * *", "0 0 * * *", "@hourly"}},
		{"America/New_York", 2023, 2026, 8, []string{"30 2 * * *", "30 1 * * *", "0 */2 * * *", "*/20 1-3 * * *", "59 59 1 * * *"}},
		{"America/Santiago", 2022, 2024, 6, []string{"30 0 * * 0", "30 23 * * *", "0 0 * * *"}},
		{"America/Sao_Paulo", 2015, 2019, 9, []string{"0 0 * * *", "30 23 * * *", "0 */12 * * *"}},
		{"Asia/Gaza", 2021, 2023, 6, []string{"30 0 * * *", "30 1 * * *", "30 2 * * *", "0 * * * *"}},
		{"Asia/Kathmandu", 1985, 1986, 1, []string{"0 0 * * *", "5 0 * * *", "*/10 * * * *"}},
		{"Asia/Kolkata", 2024, 2026, 0, []string{"30 2 * * *", "0 9 * * 5-7", "0 18 LW * *"}},
		{"Australia/Lord_Howe", 2023, 2025, 6, []string{"15 2 * * *", "45 1 * * *", "0 * * * *", "*/20 * * * *"}},
		{"Europe/Berlin", 2023, 2026, 8, []string{"30 2 * * *", "0 2,3 * * *", "0 */2 * * *", "15 * * * *"}},
		{"Europe/London", 2023, 2026, 8, []string{"30 1 * * *", "0 1 * * 7", "*/30 * * * *"}},
		{"Pacific/Apia", 2010, 2013, 8, []string{"0 12 * * *", "0 12 30 12 *", "0 */6 * * *", "0 * 30 12 *"}},
		{"UTC", 2023, 2026, 0, []string{"0 0 29 2 *", "0 9 L * *", "0 9 L-2 * *", "0 9 15W * *", "0 9 * * MON#1,5L", "0 0 13 * 5"}},
	}
}

// starts returns the instants to look from: two to three hours before each change of offset.
func (g goldenZone) starts(t *testing.T, zone *time.Location) []time.Time {
	t.Helper()
	var all []time.Time
	from := time.Date(g.from, 1, 1, 0, 0, 0, 0, time.UTC)
	for now := from; now.Year() <= g.to; now = now.Add(time.Hour) {
		if _, a := now.In(zone).Zone(); a != int(offsetOf(now.Add(time.Hour).In(zone))) {
			all = append(all, now.Add(-2*time.Hour))
		}
	}
	require.Len(t, all, g.changes)
	for year := g.from; g.changes == 0 && year <= g.to; year++ {
		all = append(all, time.Date(year, 1, 1, 0, 0, 0, 0, zone))
	}
	return all
}

func TestOccurrencesAreAsReviewed(t *testing.T) {
	t.Parallel()
	for _, g := range goldenZones() {
		t.Run(strings.ReplaceAll(g.zone, "/", "_"), func(t *testing.T) {
			t.Parallel()
			zone, err := LoadZone(g.zone)
			require.NoError(t, err)
			var b strings.Builder
			for _, after := range g.starts(t, zone) {
				for _, expression := range g.expressions {
					spec := Spec{Expression: expression, Gap: GapRun, Overlap: OverlapOnce, Zone: g.zone}
					writeGolden(t, &b, spec, after)
					if g.changes > 0 {
						spec.Gap, spec.Overlap = GapSkip, OverlapBoth
						writeGolden(t, &b, spec, after)
					}
				}
			}
			compareGolden(t, strings.ReplaceAll(g.zone, "/", "_")+".golden", b.String())
		})
	}
}

// writeGolden writes the occurrences after an instant, once the oracle agrees with them.
func writeGolden(t *testing.T, b *strings.Builder, spec Spec, after time.Time) {
	t.Helper()
	c := mustParse(t, spec)
	n := 4
	if c.pattern.even {
		n = 12
	}
	rows := c.Preview(after, n)
	fmt.Fprintf(b, "%s  %s  gap=%s overlap=%s  after %s\n", spec.Zone, spec.Expression, spec.Gap, spec.Overlap, after.In(c.zone).Format(time.RFC3339))
	for _, row := range rows {
		fmt.Fprintln(b, strings.TrimRight(fmt.Sprintf("    %s  %s", row.At.Format(time.RFC3339), row.Note), " "))
	}
	if change, ok := c.NextTransition(after, 24*time.Hour); ok {
		fmt.Fprintf(b, "    change at %s: %s\n", change.At.Format(time.RFC3339), change.Note)
	}

	until := rows[len(rows)-1].At
	spec.Expression = strings.NewReplacer("@hourly", "0 * * * *", "MON", "1").Replace(spec.Expression)
	walk := newOracle(t, spec)
	if limit := after.Add(60_000 * walk.step); until.After(limit) { // The oracle is slow: 40 days of minutes, 16 hours of seconds.
		until = limit
	}
	var got []time.Time
	for _, row := range rows {
		if !row.At.After(until) {
			got = append(got, row.At.UTC())
		}
	}
	require.Equal(t, walk.firings(after, until), got, "%+v after %s", spec, after)
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update to write it")
	require.Empty(t, cmp.Diff(string(want), got))
}

// Preview returns the first n occurrences strictly after after, in the zone of the schedule and
// with their notes; fewer when there are no more.
func (c *Cron) Preview(after time.Time, n int) []Occurrence {
	var all []Occurrence
	for len(all) < n {
		after = c.Next(after)
		if after.IsZero() {
			break
		}
		all = append(all, Occurrence{At: after.In(c.zone), Note: c.Note(after)})
	}
	return all
}
