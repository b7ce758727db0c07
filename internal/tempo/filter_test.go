package tempo_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/tempo"
)

// reference is the filter in arbitrary precision, written from the formulas of the design.
type reference struct {
	now    [tempo.Hazards][tempo.Rates]*big.Float
	long   [tempo.Rates]*big.Float
	weight [tempo.Hazards]*big.Float
}

func exact(v float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(v) }

func newReference() *reference {
	r := &reference{}
	for j := range r.long {
		r.long[j] = exact(1.0 / tempo.Rates)
	}
	for h := range r.now {
		r.weight[h] = new(big.Float).Quo(exact(1), exact(tempo.Hazards))
		for j := range r.now[h] {
			r.now[h][j] = exact(1.0 / tempo.Rates)
		}
	}
	return r
}

// expected rates and hazards, from the design: 16 rates from 1/4 h to 1/1.5 s, jumps every 4 min,
// 20 min and 3 h.
func gridRate(j int) float64 { return math.Pow(9600, float64(j)/15) / 14400 }

var jumps = [tempo.Hazards]float64{1.0 / 240, 1.0 / 1200, 1.0 / 10800}

func (r *reference) observe(gap float64, changed bool) {
	mul := func(a, b *big.Float) *big.Float { return new(big.Float).Mul(a, b) }
	add := func(a, b *big.Float) *big.Float { return new(big.Float).Add(a, b) }
	mixed := [tempo.Rates]*big.Float{}
	for j := range mixed {
		mixed[j] = exact(0)
	}
	total := exact(0)
	for h := range r.now {
		stay, sum := exact(math.Exp(-jumps[h]*gap)), exact(0)
		for j := range r.now[h] {
			like := math.Exp(-gridRate(j) * gap)
			if changed {
				like = -math.Expm1(-gridRate(j) * gap)
			}
			prior := add(mul(r.now[h][j], stay), mul(new(big.Float).Sub(exact(1), stay), r.long[j]))
			r.now[h][j] = mul(prior, exact(like))
			sum = add(sum, r.now[h][j])
		}
		for j := range r.now[h] {
			r.now[h][j] = new(big.Float).Quo(r.now[h][j], sum)
		}
		r.weight[h] = mul(r.weight[h], sum)
		total = add(total, r.weight[h])
	}
	for h := range r.weight {
		r.weight[h] = new(big.Float).Quo(r.weight[h], total)
		for j := range mixed {
			mixed[j] = add(mixed[j], mul(r.weight[h], r.now[h][j]))
		}
	}
	share := exact(min(gap/7200, 0.02))
	for j := range r.long {
		r.long[j] = add(mul(r.long[j], new(big.Float).Sub(exact(1), share)), mul(share, mixed[j]))
	}
}

func (r *reference) rate() float64 {
	sum := exact(0)
	for h := range r.now {
		for j := range r.now[h] {
			sum = sum.Add(sum, new(big.Float).Mul(r.weight[h], new(big.Float).Mul(r.now[h][j], exact(gridRate(j)))))
		}
	}
	rate, _ := sum.Float64()
	return rate
}

func TestFilterAgreesWithAnExactReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f, want := tempo.NewFilter(), newReference()
		for range rapid.IntRange(1, 40).Draw(t, "looks") {
			gap := time.Duration(rapid.Int64Range(int64(time.Second), int64(2*time.Minute)).Draw(t, "gap"))
			changed := rapid.Bool().Draw(t, "changed")
			f.Observe(gap, changed)
			want.observe(gap.Seconds(), changed)
			// The floor of a probability (1e-9) and single precision allow 0.1 %.
			require.InEpsilon(t, want.rate(), f.Rate(), 1e-3)
		}
	})
}

func TestFilterStaysADistribution(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := tempo.NewFilter()
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			f.Observe(time.Duration(rapid.Int64().Draw(t, "gap")), rapid.Bool().Draw(t, "changed"))
		}
		sums := map[string]float64{}
		for h := range f.Now {
			sums["weight"] += float64(f.Weight[h])
			var sum float64
			for j, p := range f.Now[h] {
				require.False(t, p <= 0 || math.IsNaN(float64(p)) || math.IsInf(float64(p), 0))
				sum += float64(p)
				if h == 0 {
					sums["long run"] += float64(f.LongRun[j])
				}
			}
			require.InDelta(t, 1, sum, 1e-5)
		}
		require.InDelta(t, 1, sums["weight"], 1e-5)
		require.InDelta(t, 1, sums["long run"], 1e-3)
	})
}

// TestFilterFindsAConstantRate compares the mean of the estimates with the rate at which a look of
// 5 s finds a change with that frequency.
func TestFilterFindsAConstantRate(t *testing.T) {
	t.Parallel()
	for _, every := range []int{3, 12, 60} { // of so many looks, one finds a change
		f := tempo.NewFilter()
		var sum float64
		const looks, counted = 4000, 1200
		for n := range looks {
			f.Observe(5*time.Second, n%every == 0)
			if n >= looks-counted {
				sum += f.Rate()
			}
		}
		want := -math.Log(1-1/float64(every)) / 5
		require.InEpsilon(t, want, sum/counted, 0.4, "a change every %d looks", every)
	}
}

//nolint:paralleltest // AllocsPerRun must not run beside other tests.
func TestObserveAllocatesNothing(t *testing.T) {
	f := tempo.NewFilter()
	require.Zero(t, testing.AllocsPerRun(100, func() { f.Observe(time.Second, true) }))
	s := tempo.NewState()
	at := time.Unix(0, 0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		at = at.Add(time.Second)
		s.After(tempo.Look{At: at, Answered: true, Digest: uint64(at.Unix())}, hourly)
	}))
}
