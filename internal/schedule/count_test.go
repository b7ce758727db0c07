package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestCountAgreesWithAWalk counts around clock changes too: the zones and policies of drawSpec have
// them.
func TestCountAgreesWithAWalk(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, err := Parse(drawSpec(t))
		require.NoError(t, err)
		after := time.Unix(rapid.Int64Range(-5e9, 20e9).Draw(t, "after"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds"))
		if rapid.Bool().Draw(t, "from a firing") {
			after = c.Next(after)
		}
		if rapid.Bool().Draw(t, "around a clock change") {
			if change, found := c.NextTransition(after, 5*365*24*time.Hour); found {
				after = change.At.Add(time.Duration(-rapid.Int64Range(0, 7200).Draw(t, "before")) * time.Second)
			}
		}
		var want int64
		until, last := after, time.Time{}
		for range rapid.IntRange(0, 300).Draw(t, "firings") {
			until = c.Next(until)
			want, last = want+1, until
		}
		if next := c.Next(until); rapid.Bool().Draw(t, "between firings") && next.Sub(until) > time.Second {
			until = next.Add(-time.Second)
		}
		require.Equal(t, want, c.Count(after, until), "%s in (%s, %s]", c, after, until)
		require.Equal(t, last, c.Last(after, until), "%s in (%s, %s]", c, after, until)
	})
}

func TestCountOfNothingIsNone(t *testing.T) {
	t.Parallel()
	c, err := Parse(Spec{Expression: "* * * * *", Zone: "UTC"})
	require.NoError(t, err)
	at := time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)
	require.Zero(t, c.Count(at, at))
	require.Zero(t, c.Count(at, at.Add(-time.Hour)))
	require.Zero(t, c.Last(at, at.Add(59*time.Second)))
	require.Equal(t, int64(1), c.Count(at.Add(-time.Nanosecond), at))
}

// TestCountOfALongTimeIsQuick counts 30 days of every second, and ten years of every second in a
// zone that changes its clock: one after the other that would take a minute.
func TestCountOfALongTimeIsQuick(t *testing.T) {
	t.Parallel()
	c, err := Parse(Spec{Expression: "* * * * * *", Zone: "Europe/Berlin"})
	require.NoError(t, err)
	from := time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)
	require.Equal(t, int64(30*24*3600), c.Count(from, from.AddDate(0, 0, 30)))
	until := from.AddDate(10, 0, 0)
	begun := time.Now()
	require.Equal(t, int64(until.Sub(from)/time.Second), c.Count(from, until))
	require.Equal(t, until, c.Last(from, until))
	require.Less(t, time.Since(begun), 20*time.Second)
}
