package dispatch

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestShareLeavesEveryWorkerHalfOfAFairShare holds the bound of the kept claims for fleets of equal
// workers: if all but one keep as many as they may, at least half of a fair share is left for the
// last one.
func TestShareLeavesEveryWorkerHalfOfAFairShare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		workers, slots := rapid.IntRange(2, 200).Draw(t, "workers"), rapid.IntRange(1, 4096).Draw(t, "slots")
		queued := rapid.IntRange(workers*shareLeast, 1_000_000).Draw(t, "queued")
		share := Fleet{Workers: workers, MaxSlots: workers * slots, Queued: queued}.share(slots)
		fair := float64(queued) / float64(workers)
		require.GreaterOrEqual(t, float64(share), math.Floor(fair))
		require.GreaterOrEqual(t, float64(queued)-float64(workers-1)*float64(share), fair/2)
	})
}

// TestAWorkerAloneKeepsEverything needs no bound, and neither does one that knows of no slots.
func TestAWorkerAloneKeepsEverything(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, math.MaxInt64, Fleet{Workers: 1, MaxSlots: 8, Queued: 100}.share(8))
	require.EqualValues(t, math.MaxInt64, Fleet{}.share(8))
}

// TestABiggerWorkerKeepsMore weighs shares by configured slots.
func TestABiggerWorkerKeepsMore(t *testing.T) {
	t.Parallel()
	fleet := Fleet{Workers: 2, MaxSlots: 400, Queued: 1000}
	require.EqualValues(t, 843, fleet.share(300))
	require.EqualValues(t, 281, fleet.share(100))
}
