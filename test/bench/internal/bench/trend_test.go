package bench

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTrendDistinguishesGrowthFromNoise(t *testing.T) {
	t.Parallel()
	series := func(of func(n int) float64, noise float64) []float64 {
		list, random := make([]float64, 300), rand.New(rand.NewPCG(1, 2))
		for n := range list {
			list[n] = of(n) + noise*random.Float64()
		}
		return list
	}
	for name, tc := range map[string]struct {
		of    func(n int) float64
		noise float64 // at most, above that
		grows bool
	}{
		"Flat":              {func(int) float64 { return 40 }, 0, false},
		"Noise":             {func(int) float64 { return 40 }, 10, false},
		"Saw":               {func(n int) float64 { return float64(n % 6 * 1000) }, 0, false},
		"WarmUp":            {func(n int) float64 { return float64(min(n, 50)) }, 0, false},
		"Shrinks":           {func(n int) float64 { return 1000 - float64(n) }, 0, false},
		"ByLittle":          {func(n int) float64 { return 1000 + float64(n)/10 }, 0, false},
		"LessThanOne":       {func(n int) float64 { return 0.1 + float64(n)/400 }, 0, false},
		"Nothing":           {func(int) float64 { return 0 }, 0, false},
		"Leak":              {func(n int) float64 { return 40 + float64(n)/20 }, 0, true},
		"LeakBelowNoise":    {func(n int) float64 { return 40 + float64(n)/20 }, 10, true},
		"ConnectionsLeft":   {func(n int) float64 { return float64(20 + n/30) }, 0, true},
		"LeakBelowTheTeeth": {func(n int) float64 { return float64(n%6*1000 + 10*n) }, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := trendOf(name, "MiB", series(tc.of, tc.noise), 10*time.Second)
			require.Equal(t, tc.grows, got.Grows, "%+v", got)
		})
	}
	got := trendOf("a line", "MiB", series(func(n int) float64 { return float64(n) }, 0), 10*time.Second)
	require.InDelta(t, 360, got.PerHour, 1e-9)
	require.InDelta(t, 60, got.First, 1e-9, "the first fifth is left out")
	require.InDelta(t, 299, got.Last, 1e-9)
	require.InDelta(t, 299, got.Max, 1e-9)
	require.InDelta(t, 179, got.Median, 1e-9)
	require.False(t, trendOf("too few", "", []float64{1, 5}, time.Second).Grows)
	require.Zero(t, trendOf("none", "", nil, time.Second).Median)
}
