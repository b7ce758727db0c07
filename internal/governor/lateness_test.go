package governor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/governor"
)

// span draws a length of time.
func span(t *rapid.T, name string, most time.Duration) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name))
}

// around draws a length of time at an edge, or on either side of it.
func around(t *rapid.T, edge time.Duration) time.Duration {
	return max(0, edge+rapid.SampledFrom([]time.Duration{-edge, -time.Millisecond, 0, 1, time.Millisecond, edge}).Draw(t, "from the edge"))
}

// TestNextAnchorIsTheSlotOrALateStart draws starts around the second that separates the two.
func TestNextAnchorIsTheSlotOrALateStart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		planned := at(span(t, "jitter", hour))
		start := planned.Add(around(t, time.Second))

		got := governor.NextAnchor(T, planned, start)

		if start.Sub(planned) <= time.Second {
			require.Equal(t, T, got)
			return
		}
		require.NotEqual(t, T, got)
		require.Less(t, start.Sub(got), time.Millisecond)
		require.False(t, got.After(start))
		require.Zero(t, got.Nanosecond()%1_000_000)
	})
}

// TestASkippingCronMissesItsOccurrencesAfterAMinute tries every source with every policy.
func TestASkippingCronMissesItsOccurrencesAfterAMinute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		late := around(t, time.Minute)
		source := rapid.SampledFrom(governor.Sources()).Draw(t, "source")
		occurrence := source == governor.SourceBaselineCron || source == governor.SourcePaused
		require.Equal(t, occurrence && late > time.Minute, governor.CatchUpSkip.Misses(source, late))
		require.False(t, governor.CatchUpOnce.Misses(source, late))
		require.False(t, governor.CatchUpAll.Misses(source, late))
	})
}

// TestAfterMinimumLeavesTheMinimumAndNoMore holds the gap, and that nothing moves without need.
func TestAfterMinimumLeavesTheMinimumAndNoMore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		planned, least := at(span(t, "at", hour)), span(t, "minimum", hour)

		got := governor.AfterMinimum(planned, T, least)

		require.GreaterOrEqual(t, got.Sub(T), least)
		require.True(t, got.Equal(planned) || got.Sub(T) == least && got.After(planned))
		require.Equal(t, planned, governor.AfterMinimum(planned, time.Time{}, least), "no start")
		require.Equal(t, planned, governor.AfterMinimum(planned, T, -least), "no minimum")
	})
}

// TestCutWaitHoldsBackForAnHourThirtyTwoIntervalsOrTheMaximum draws waits on both sides of the
// longest.
func TestCutWaitHoldsBackForAnHourThirtyTwoIntervalsOrTheMaximum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		asked, usual, most := at(span(t, "asked", 100*hour)), span(t, "usual", 2*hour), span(t, "maximum", 50*hour)

		got := governor.CapRetryAfter(asked, T, usual, most)

		longest := max(hour, 32*usual, most)
		require.False(t, got.After(asked))
		if got.Before(asked) {
			require.InDelta(t, longest, got.Sub(T), float64(time.Millisecond))
			require.True(t, governor.ExceedsRetryAfterCap(asked, T))
			return
		}
		require.LessOrEqual(t, asked.Sub(T), longest+time.Second)
	})
}

// TestPlannerBoundsLieWithinTheClamps: the planner's bounds are within the user's clamps, and not
// faster than the baseline without a minimum.
func TestPlannerBoundsLieWithinTheClamps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		usual := time.Second + span(t, "usual", hour)
		least := time.Second + span(t, "minimum", hour)
		most := least + span(t, "more", hour)

		fastest, slowest := governor.PlannerBounds(usual, 0, 0)
		require.Equal(t, []time.Duration{usual, 8 * usual}, []time.Duration{fastest, slowest})
		fastest, slowest = governor.PlannerBounds(usual, least, most)
		require.Equal(t, []time.Duration{least, most}, []time.Duration{fastest, slowest})
		clamped := governor.Clamp(usual, least, most)
		require.True(t, clamped == usual || clamped == least && usual < least || clamped == most && usual > most)
	})
	fastest, slowest := governor.PlannerBounds(0, 0, 0)
	require.Equal(t, []time.Duration{time.Second, 0}, []time.Duration{fastest, slowest}, "an unknown interval")
}
