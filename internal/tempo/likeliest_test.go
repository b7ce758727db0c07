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

// exactExp returns e^x by its series, in arbitrary precision, for 0 <= x.
func exactExp(x *big.Float) *big.Float {
	halvings := 0
	small := new(big.Float).Copy(x)
	for small.Cmp(exact(0.5)) > 0 {
		small.Mul(small, exact(0.5))
		halvings++
	}
	sum, term := exact(1), exact(1)
	for n := 1; n < 25; n++ {
		term.Mul(term, small)
		term.Quo(term, exact(float64(n)))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}

// slopeAt returns the derivative of the logarithm of the likelihood of looks at a rate: the sum of
// g e^(-rg) / (1 - e^(-rg)) over changed looks less the sum of g over unchanged ones.
func slopeAt(rate *big.Float, looks []tempo.Looks) *big.Float {
	sum := exact(0)
	for _, l := range looks {
		g := exact(l.Gap.Seconds())
		all := new(big.Float).Mul(g, exact(float64(l.Count)))
		if !l.Changed {
			sum.Sub(sum, all)
			continue
		}
		less := new(big.Float).Quo(exact(1), exactExp(new(big.Float).Mul(rate, g)))
		part := new(big.Float).Quo(less, new(big.Float).Sub(exact(1), less))
		sum.Add(sum, part.Mul(part, all))
	}
	return sum
}

// likeliestBySearch halves an interval around the maximum of the likelihood.
func likeliestBySearch(looks []tempo.Looks) float64 {
	low, high := exact(0), exact(100)
	for range 60 {
		middle := new(big.Float).Mul(new(big.Float).Add(low, high), exact(0.5))
		if slopeAt(middle, looks).Sign() > 0 {
			low = middle
		} else {
			high = middle
		}
	}
	rate, _ := low.Float64()
	return rate
}

func TestLikeliestRateAgreesWithAnExactSearch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		looks := []tempo.Looks{{Gap: time.Second, Changed: true, Count: 1}, {Gap: time.Minute, Count: 1}}
		for range rapid.IntRange(0, 4).Draw(t, "groups") {
			looks = append(looks, tempo.Looks{
				Gap:     time.Duration(rapid.Int64Range(1_000, 1_000_000).Draw(t, "gap")) * time.Millisecond,
				Changed: rapid.Bool().Draw(t, "changed"),
				Count:   rapid.Int64Range(1, 5).Draw(t, "count"),
			})
		}
		require.InEpsilon(t, likeliestBySearch(looks), tempo.Likeliest(looks), 1e-9)
	})
}

func TestLikeliestRateAtEqualGaps(t *testing.T) {
	t.Parallel()
	// One of four looks 5 s apart finds a change, so e^(-5r) = 3/4. A gap of 0 says nothing.
	looks := []tempo.Looks{{Gap: 5 * time.Second, Changed: true, Count: 10}, {Gap: 5 * time.Second, Count: 30}, {Changed: true, Count: 7}}
	require.InEpsilon(t, math.Log(4.0/3)/5, tempo.Likeliest(looks), 1e-9)
	// Nearly every look found a change.
	looks[1].Count, looks[0].Count = 1, 1_000_000
	require.InEpsilon(t, math.Log(1_000_001)/5, tempo.Likeliest(looks), 1e-9)
}

func TestLikeliestRateWithoutBothResults(t *testing.T) {
	t.Parallel()
	require.Zero(t, tempo.Likeliest(nil))
	require.Zero(t, tempo.Likeliest([]tempo.Looks{{Gap: time.Second, Count: 4}}))
	require.True(t, math.IsInf(tempo.Likeliest([]tempo.Looks{{Gap: time.Second, Changed: true, Count: 4}}), 1))
}
