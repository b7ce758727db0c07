package app

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGCPercentFollowsTheAllocationRate(t *testing.T) {
	t.Parallel()
	const mebibyte = 1 << 20
	for _, c := range []struct {
		live, allocated uint64
		want            int
	}{
		{live: 0, want: 250},
		{live: mebibyte, want: 1100}, // Up to the floor.
		{live: 6 * mebibyte, want: 100},
		{live: 40 * mebibyte, want: 50},                             // Idle: no more than half.
		{live: 24 * mebibyte, allocated: 18 * mebibyte, want: 75},   // Allocations until the next collection.
		{live: 30 * mebibyte, allocated: 60 * mebibyte, want: 200},  // A burst.
		{live: 12 * mebibyte, allocated: 600 * mebibyte, want: 700}, // One that begins.
		{live: 30 * mebibyte, allocated: 600 * mebibyte, want: 250}, // There is an end.
	} {
		require.Equal(t, c.want, growth(c.live, c.allocated), "%+v", c)
	}
	require.True(t, worthChange(0, 50), "it is set at the beginning")
	require.False(t, worthChange(200, 210))
	require.True(t, worthChange(200, 100))
	runtime.GC()
	live, allocated := heap()
	require.NotZero(t, live, "the runtime tells it under this name")
	require.Greater(t, allocated, live)
}

func TestWatchCollectionsReportsEveryCollection(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	collected := make(chan struct{}, 1)
	watchCollections(ctx, collected)
	for range 3 {
		runtime.GC()
		<-collected
	}
}

func TestGCPercentRisesAfterTheFirstCollectionOfABurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const mebibyte = 1 << 20
		live, allocated := uint64(6*mebibyte), uint64(100*mebibyte)
		collected := make(chan struct{}, 1)
		var percents []int
		ctx, cancel := context.WithCancel(t.Context())
		go tune(ctx, collected, func() (uint64, uint64) { return live, allocated }, func(percent int) { percents = append(percents, percent) })
		time.Sleep(10*restInterval + restInterval/2) // It is idle.
		synctest.Wait()
		require.Equal(t, []int{100}, percents)
		live, allocated = 20*mebibyte, allocated+30*mebibyte
		collected <- struct{}{}
		synctest.Wait()
		require.Equal(t, []int{100, 120}, percents, "30 MiB in half a second, and 20 that are live")
		cancel()
		synctest.Wait()
	})
}
