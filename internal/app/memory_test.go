package app

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheHeapGrowsByHowBusyItIs(t *testing.T) {
	t.Parallel()
	const mebibyte = 1 << 20
	for _, c := range []struct {
		live, allocated uint64
		want            int
	}{
		{live: 0, want: 250},
		{live: mebibyte, want: 2300}, // Up to the floor.
		{live: 12 * mebibyte, want: 100},
		{live: 40 * mebibyte, want: 50},                             // Idle: no more than half.
		{live: 24 * mebibyte, allocated: 18 * mebibyte, want: 75},   // What it takes until the next collection.
		{live: 30 * mebibyte, allocated: 60 * mebibyte, want: 200},  // A burst.
		{live: 12 * mebibyte, allocated: 600 * mebibyte, want: 700}, // One that begins.
		{live: 30 * mebibyte, allocated: 600 * mebibyte, want: 250}, // There is an end.
	} {
		require.Equal(t, c.want, growth(c.live, c.allocated), "%+v", c)
	}
	require.True(t, apart(0, 50), "it is set at the beginning")
	require.False(t, apart(200, 210))
	require.True(t, apart(200, 100))
	runtime.GC()
	live, allocated := heap()
	require.NotZero(t, live, "the runtime tells it under this name")
	require.Greater(t, allocated, live)
}

func TestEveryCollectionIsTold(t *testing.T) {
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
