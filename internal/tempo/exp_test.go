package tempo

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDecayIsTheExponential(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.OneOf(rapid.Float64Range(0, 1), rapid.Float64Range(0, 699)).Draw(t, "x")
		require.InEpsilon(t, math.Exp(-x), decay(x), 1e-9)
	})
	require.Zero(t, decay(math.Inf(1)))
	require.Zero(t, decay(math.NaN()))
	require.InDelta(t, 1, decay(0), 0)
}
