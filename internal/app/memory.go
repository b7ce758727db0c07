package app

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A worker and an API server make much garbage and keep little, so the runtime's habit of collecting whenever the heap has doubled costs
// them up to a quarter of their time under load, and memory for nothing beside. They collect about once in collectEvery instead: a busy
// program's heap grows further than an idle one's.
const (
	collectEvery = 400 * time.Millisecond
	heapFloor    = 12 << 20 // bytes that are not worth a collection
	heapRoom     = 96 << 20 // bytes that a busy heap may grow to, however little of it is live
	minGrowth    = 50       // percent of what was live after the last collection
	maxGrowth    = 250
	tendInterval = 200 * time.Millisecond
	restInterval = time.Second           // between looks at a program that allocates little
	little       = 1 << 20               // bytes
	soon         = 50 * time.Millisecond // less says little about how fast the heap grows
)

// tendHeap sets how far the heap may grow until ctx ends. Where the environment says GOGC, that stands.
func tendHeap(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	collected := make(chan struct{}, 1)
	watchCollections(ctx, collected)
	tend(ctx, collected, heap, func(percent int) { debug.SetGCPercent(percent) })
}

// tend sets how far a heap may grow, by what is live and by how fast it grows, until ctx ends: at intervals, and after each collection,
// because one that came early must not be followed by more of them.
func tend(ctx context.Context, collected <-chan struct{}, heap func() (live, allocated uint64), set func(percent int)) {
	ticker := time.NewTicker(tendInterval)
	defer ticker.Stop()
	var percent int
	looked := time.Now()
	_, before := heap()
	for {
		now := time.Now()
		live, allocated := heap()
		fresh, took := allocated-before, max(now.Sub(looked), soon)
		coming := uint64(float64(fresh) * (collectEvery.Seconds() / took.Seconds()))
		if next := growth(live, coming); apart(percent, next) {
			set(next) // It stops the world for a moment.
			percent = next
		}
		interval := tendInterval
		if fresh < little {
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

// watchCollections tells of every collection of garbage until ctx ends, of several at a time once.
func watchCollections(ctx context.Context, collected chan<- struct{}) {
	type canary struct{ _ *int } // A pointer keeps it from sharing its memory with others.
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

// growth returns by how many percent the heap may grow while so many bytes of it are live and so many are allocated in collectEvery.
func growth(live, allocated uint64) int {
	if live == 0 {
		return maxGrowth
	}
	goal := min(max(live+allocated, heapFloor), max(live+live*maxGrowth/100, heapRoom))
	return max(int(goal*100/live)-100, minGrowth) //nolint:gosec // At most as many as heapRoom has bytes.
}

// apart tells whether it is worth it to go from one growth to another.
func apart(old, next int) bool { return max(old, next)-min(old, next) > old/8 }

// heap returns how many bytes were live after the last collection, and how many have ever been allocated.
func heap() (live, allocated uint64) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64(), sample[1].Value.Uint64()
}
