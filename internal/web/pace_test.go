package web

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/stats"
)

func TestPaceIsDrawnToScale(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	tempo := client.EndpointTempo{
		At:     now,
		Record: client.TempoRecord{From: now.Add(-4 * time.Minute), Runs: 27, BaselineRuns: 20, Changes: 5},
		Steps: []client.TempoStep{
			{At: now.Add(-4 * time.Minute), Runs: 20, Changes: 5, ChangesPerHour: new(400.0)},
			{At: now.Add(-3 * time.Minute), Runs: 5, ChangesPerHour: new(100.0)},
			{At: now.Add(-2 * time.Minute)},
			{At: now.Add(-1 * time.Minute), Runs: 2, ChangesPerHour: new(0.0)},
		},
	}
	bars := barsOf(tempo)
	require.InDelta(t, 60, bars[0].runs, 0.01)
	require.InDelta(t, 15, bars[0].changes, 0.01)
	require.InDelta(t, 250, bars[1].x, 0.01)
	require.InDelta(t, 45, baselineHeight(tempo), 0.01, "five runs a step, of twenty")
	rate := rateLine(tempo)
	require.Equal(t, []string{"0.0,2.0 250.0,2.0 250.0,30.0 500.0,30.0", "750.0,58.0 1000.0,58.0"}, rate.paths, "half the height at a quarter of the rate")
	require.Equal(t, "Rate of change: 0 to 400 changes/h, now 0", rate.words())
	require.False(t, priceLine(tempo).known())
	require.Equal(t, "27 runs since 11:56:00 found 5 changes; the baseline alone would have made 20 runs", paceWords(tempo))
}

func TestSavingsAreCalledByTheirDirection(t *testing.T) {
	t.Parallel()
	require.Equal(t, "60.0 % fewer than the baseline", against(40, 100))
	require.Equal(t, "150 % more than the baseline", against(250, 100))
	require.Equal(t, "no baseline to compare with", against(3, 0))
	name, value, note := savedWords(stats.Savings{Runs: 30, BaselineRuns: 120})
	require.Equal(t, []string{"Saved", "75.0 %", "90 runs less"}, []string{name, value, note})
	name, value, _ = savedWords(stats.Savings{Runs: 30, BaselineRuns: 10})
	require.Equal(t, []string{"Added", "200 %"}, []string{name, value})
}
