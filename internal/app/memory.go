package app

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A worker and an API server allocate much and keep little. At the default GOGC, which collects
// whenever the heap has doubled, the garbage collector costs them up to a quarter of their CPU time
// under load. These settings aim at one collection per collectEvery instead, so that the heap of a
// busy program grows further than that of an idle one.
const (
	// collectEvery is the intended interval between collections.
	collectEvery = 400 * time.Millisecond
	// heapFloor is the heap size below which no collection is worthwhile.
	heapFloor = 12 << 20
	// heapRoom is the size to which a busy heap may grow even if little of it is live.
	heapRoom = 96 << 20
	// minGrowth and maxGrowth bound GOGC: percent of the live heap.
	minGrowth = 50
	maxGrowth = 250
	// tuneInterval is the interval between measurements; restInterval applies while the program
	// allocates less than idleAllocation.
	tuneInterval   = 200 * time.Millisecond
	restInterval   = time.Second
	idleAllocation = 1 << 20 // bytes
	// minSample is the shortest interval from which the allocation rate is extrapolated.
	minSample = 50 * time.Millisecond
)

// tuneGC adapts GOGC to the allocation rate until ctx ends. It does nothing if the environment sets
// GOGC.
func tuneGC(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	collected := make(chan struct{}, 1)
	watchCollections(ctx, collected)
	tune(ctx, collected, heap, func(percent int) { debug.SetGCPercent(percent) })
}

// tune sets GOGC from the live heap and the allocation rate until ctx ends. It does so at intervals
// and after each collection, because an early collection must not be followed by more of them.
func tune(ctx context.Context, collected <-chan struct{}, heap func() (live, allocated uint64), set func(percent int)) {
	ticker := time.NewTicker(tuneInterval)
	defer ticker.Stop()
	var percent int
	looked := time.Now()
	_, before := heap()
	for {
		now := time.Now()
		live, allocated := heap()
		fresh, took := allocated-before, max(now.Sub(looked), minSample)
		coming := uint64(float64(fresh) * (collectEvery.Seconds() / took.Seconds()))
		if next := growth(live, coming); worthChange(percent, next) {
			// SetGCPercent stops the world for a moment.
			set(next)
			percent = next
		}
		interval := tuneInterval
		if fresh < idleAllocation {
			interval = restInterval
		}
		ticker.Reset(interval)
		looked, before = now, allocated
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-collected:
		}
	}
}

// watchCollections sends to collected after each collection until ctx ends. Collections that follow
// each other before the receiver is ready are merged. The collector runs the cleanup of an
// unreachable canary object with each collection.
func watchCollections(ctx context.Context, collected chan<- struct{}) {
	// The pointer field keeps the object out of the allocator for tiny objects, where it would
	// share its memory with others.
	type canary struct{ _ *int }
	runtime.AddCleanup(&canary{}, func(struct{}) {
		select {
		case collected <- struct{}{}:
		default:
		}
		if ctx.Err() == nil {
			watchCollections(ctx, collected)
		}
	}, struct{}{})
}

// growth returns GOGC, in percent, for a heap with the given live bytes and the bytes allocated in
// collectEvery.
func growth(live, allocated uint64) int {
	if live == 0 {
		return maxGrowth
	}
	goal := min(max(live+allocated, heapFloor), max(live+live*maxGrowth/100, heapRoom))
	return max(int(goal*100/live)-100, minGrowth)
}

// worthChange reports whether GOGC changes enough to justify stopping the world.
func worthChange(old, next int) bool { return max(old, next)-min(old, next) > old/8 }

// heap returns the bytes that were live after the last collection, and the bytes allocated since
// the start of the process.
func heap() (live, allocated uint64) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64(), sample[1].Value.Uint64()
}
