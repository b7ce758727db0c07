package bench

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestATrendTellsGrowthFromNoise(t *testing.T) {
	t.Parallel()
	noise := rand.New(rand.NewPCG(1, 2))
	series := func(of func(n int) float64) []float64 {
		list := make([]float64, 300)
		for n := range list {
			list[n] = of(n)
		}
		return list
	}
	for name, tc := range map[string]struct {
		of    func(n int) float64
		grows bool
	}{
		"Flat":              {func(int) float64 { return 40 }, false},
		"Noise":             {func(int) float64 { return 40 + 10*noise.Float64() }, false},
		"Saw":               {func(n int) float64 { return float64(n % 6 * 1000) }, false},
		"WarmUp":            {func(n int) float64 { return float64(min(n, 50)) }, false},
		"Shrinks":           {func(n int) float64 { return 1000 - float64(n) }, false},
		"ByLittle":          {func(n int) float64 { return 1000 + float64(n)/10 }, false},
		"LessThanOne":       {func(n int) float64 { return 0.1 + float64(n)/400 }, false},
		"Nothing":           {func(int) float64 { return 0 }, false},
		"Leak":              {func(n int) float64 { return 40 + float64(n)/20 }, true},
		"LeakBelowNoise":    {func(n int) float64 { return 40 + float64(n)/20 + 10*noise.Float64() }, true},
		"ConnectionsLeft":   {func(n int) float64 { return float64(20 + n/30) }, true},
		"LeakBelowTheTeeth": {func(n int) float64 { return float64(n%6*1000 + 10*n) }, true},
	} {
		got := trendOf(name, "MiB", series(tc.of), 10*time.Second)
		require.Equal(t, tc.grows, got.Grows, "%s: %+v", name, got)
	}
	got := trendOf("a line", "MiB", series(func(n int) float64 { return float64(n) }), 10*time.Second)
	require.InDelta(t, 360, got.PerHour, 1e-9)
	require.InDelta(t, 60, got.First, 1e-9, "the first fifth is left out")
	require.InDelta(t, 299, got.Last, 1e-9)
	require.InDelta(t, 299, got.Max, 1e-9)
	require.InDelta(t, 179, got.Median, 1e-9)
	require.False(t, trendOf("too few", "", []float64{1, 5}, time.Second).Grows)
	require.Zero(t, trendOf("none", "", nil, time.Second).Median)
}
