package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpreadsAndHistogramsHoldEveryDuration(t *testing.T) {
	t.Parallel()
	var list []time.Duration
	for n := range 100 {
		list = append(list, time.Duration(100-n)*time.Millisecond)
	}
	require.Equal(t, Spread{P50: 51, P90: 91, P99: 100, Max: 100}, spreadOf(list))
	total := 0
	for _, b := range histogramOf(append(list, time.Hour)) {
		total += b.Count
		if b.BelowMs == 0 {
			require.Equal(t, 1, b.Count, "what is longer than every bound")
		}
	}
	require.Equal(t, 101, total)
	require.Zero(t, spreadOf(nil))
}

func TestMeasurementCountsFailures(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1_800_000_000, 0)
	at := func(d time.Duration) int64 { return begin.Add(d).UnixNano() }
	m := observation{
		from: begin, finished: begin.Add(2 * time.Second), expected: 5, completed: 4,
		came: arrivals{
			{Run: 1, At: at(time.Millisecond), Due: at(0)},
			{Run: 1, At: at(time.Second), Due: at(0)},
			{Run: 2, At: at(-time.Millisecond), Due: at(0)},
			{Run: 3, At: at(0), Due: at(0)},
		},
		used: usage{worker: time.Second, postgres: 2 * time.Second, sink: 4 * time.Second},
	}.measure()

	require.InDelta(t, 2, m.RunsPerSecond, 1e-9)
	require.Equal(t, 1, m.Duplicates)
	require.Equal(t, 1, m.EarlyStarts)
	require.Equal(t, 2, m.Missing, "three of five runs came")
	require.Equal(t, CPU{Worker: 250, Postgres: 500, Sink: 1000}, m.CPU)
}

func TestMediansIgnoreOutliersButNoFailure(t *testing.T) {
	t.Parallel()
	m := medianOf([]Measure{
		{RunsPerSecond: 1, EarlyStarts: 1, StartLag: []Bar{{BelowMs: 1, Count: 2}}},
		{RunsPerSecond: 900, Duplicates: 1, StartLag: []Bar{{BelowMs: 0, Count: 1}, {BelowMs: 0.5, Count: 1}}},
		{RunsPerSecond: 10, Missing: 3, Failures: map[string]int{"lost worker_lost": 2}, StartLag: []Bar{{BelowMs: 1, Count: 1}}},
	})
	require.InDelta(t, 10, m.RunsPerSecond, 1e-9)
	require.Equal(t, []int{1, 1, 3}, []int{m.EarlyStarts, m.Duplicates, m.Missing})
	require.Equal(t, map[string]int{"lost worker_lost": 2}, m.Failures)
	require.Equal(t, []Bar{{BelowMs: 0.5, Count: 1}, {BelowMs: 1, Count: 3}, {BelowMs: 0, Count: 1}}, m.StartLag)
}

func TestGapErrorsAreMeasuredPerEndpoint(t *testing.T) {
	t.Parallel()
	list := arrivals{
		{Group: groupPlain, N: 1, At: int64(3 * time.Second)},
		{Group: groupPlain, N: 2, At: int64(1500 * time.Millisecond)},
		{Group: groupPlain, N: 1, At: int64(time.Second)},
		{Group: groupPlain, N: 2, At: int64(2400 * time.Millisecond)},
		{Group: groupWarm, N: 1, At: int64(2 * time.Second)},
	}
	require.ElementsMatch(t, []time.Duration{time.Second, 100 * time.Millisecond}, list.gapErrors(groupPlain, time.Second))
}

func TestDueTimesAreWholeMilliseconds(t *testing.T) {
	t.Parallel()
	w := workload{Jobs: 5, Due: time.UnixMilli(1_800_000_000_000), Span: 2 * time.Millisecond}
	require.Equal(t, w.Due, w.dueOf(2))
	require.Equal(t, w.Due.Add(time.Millisecond), w.dueOf(3))
	require.Equal(t, w.Due.Add(2*time.Millisecond), w.end())
	w.Span = 0
	require.Equal(t, w.Due, w.dueOf(2))
	require.Equal(t, w.Due.Add(time.Millisecond), w.end(), "all of a burst lies before its end")
}

// TestARateNeedNotDivideASecond has a rate with a period that is no whole number of nanoseconds.
// The last call stays inside the span, and repeated due times stay in their millisecond.
func TestARateNeedNotDivideASecond(t *testing.T) {
	t.Parallel()
	s := Steady{Rate: 3000, For: 20 * time.Second, Every: 12 * time.Second}
	w := s.workload()
	w.Due = time.UnixMilli(1_800_000_000_000)
	require.Equal(t, w.Due.Add(20*time.Second), w.end(), "19.9997 s and a millisecond")
	for n := s.endpoints(); n < w.Jobs; n++ {
		require.Equal(t, w.dueOf(n), w.dueOf(n-s.endpoints()).Add(s.Every))
	}
}
