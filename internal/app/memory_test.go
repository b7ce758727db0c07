package app

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheHeapGrowsToItsGoal(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{
		0:         400,
		1 << 20:   400,
		heapGoal:  200,
		12 << 20:  300,
		16 << 20:  200,
		500 << 20: 200, // It at least trebles, or a large heap would be collected without end.
	} {
		require.Equal(t, want, growth(live), "%d bytes live", live)
	}
	runtime.GC()
	require.NotZero(t, liveHeap(), "the runtime tells it under this name")
}
