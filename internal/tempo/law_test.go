package tempo_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/tempo"
)

// certain returns a filter that is certain of one rate of the grid, now and in the long run.
func certain(j int) tempo.Filter {
	f := tempo.NewFilter()
	f.LongRun = [tempo.Rates]float32{}
	f.LongRun[j] = 1
	for h := range f.Now {
		f.Now[h] = f.LongRun
	}
	return f
}

// TestWaitAtAConstantRate compares with the closed form: the root of twice the price over the rate.
func TestWaitAtAConstantRate(t *testing.T) {
	t.Parallel()
	for j := range tempo.Rates {
		f := certain(j)
		for _, price := range []float64{0.01, 1, 100} {
			want := math.Sqrt(2 * price / gridRate(j))
			got := f.Wait(price, time.Millisecond, 1000*time.Hour)
			require.InDelta(t, want, got.Seconds(), 0.001+want*2e-3, "rate %d, price %g", j, price)
		}
	}
}

// TestWaitSolvesTheIndexLaw integrates the expected number of changes by small steps.
func TestWaitSolvesTheIndexLaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := tempo.NewFilter()
		for range rapid.IntRange(0, 20).Draw(t, "looks") {
			f.Observe(time.Duration(rapid.IntRange(1, 100).Draw(t, "gap"))*time.Second, rapid.Bool().Draw(t, "changed"))
		}
		price := rapid.Float64Range(0.01, 50).Draw(t, "price")
		wait := f.Wait(price, time.Millisecond, 10*time.Hour).Seconds()
		require.InEpsilon(t, price, indexOf(f, wait), 0.02)
		require.InEpsilon(t, indexOf(f, wait), f.Worth(time.Duration(wait*1e9)), 0.02)
	})
}

func TestExpectedChangesAddUpTheRate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := tempo.NewFilter()
		for range rapid.IntRange(0, 20).Draw(t, "looks") {
			f.Observe(time.Duration(rapid.IntRange(1, 100).Draw(t, "gap"))*time.Second, rapid.Bool().Draw(t, "changed"))
		}
		// The index grows by t dN, so that of a thin slice of time is its changes times its middle.
		from := time.Duration(rapid.Int64Range(1, 3600).Draw(t, "from")) * time.Second
		until := from + from/100
		slice := (f.Worth(until) - f.Worth(from)) / ((from + until).Seconds() / 2)
		require.InEpsilon(t, slice, f.Expected(until)-f.Expected(from), 0.01)
	})
	f := tempo.NewFilter()
	require.Zero(t, f.Expected(0))
}

// indexOf returns T N(T) less the integral of N, by the trapezoidal rule.
func indexOf(f tempo.Filter, until float64) float64 {
	present := func(p [tempo.Rates]float32) (sum float64) {
		for j, v := range p {
			sum += float64(v) * gridRate(j)
		}
		return sum
	}
	long := present(f.LongRun)
	count := func(s float64) (n float64) {
		for h, w := range f.Weight {
			n += float64(w) * (long*s + (present(f.Now[h])-long)*(1-math.Exp(-jumps[h]*s))/jumps[h])
		}
		return n
	}
	const steps = 4000
	var area float64
	for n := range steps {
		a, b := until*float64(n)/steps, until*float64(n+1)/steps
		area += (count(a) + count(b)) / 2 * (b - a)
	}
	return until*count(until) - area
}

func TestWaitStaysWithinItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := tempo.NewFilter()
		for range rapid.IntRange(0, 9).Draw(t, "looks") {
			f.Observe(time.Duration(rapid.Int64().Draw(t, "gap")), rapid.Bool().Draw(t, "changed"))
		}
		shortest := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "shortest"))
		longest := shortest + time.Duration(rapid.Int64Range(0, int64(9000*time.Hour)).Draw(t, "longest"))
		got := f.Wait(rapid.Float64().Draw(t, "price"), shortest, longest)
		require.True(t, shortest <= got && got <= longest, "%s in %s to %s", got, shortest, longest)
	})
}
