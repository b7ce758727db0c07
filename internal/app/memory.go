package app

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A worker and an API server make much garbage and keep little, so the runtime's habit of collecting whenever the heap has doubled costs
// them up to a quarter of their time under load, and memory for nothing beside. They collect about once in collectEvery instead: a busy
// program's heap grows further than an idle one's.
const (
	collectEvery = time.Second
	heapFloor    = 24 << 20 // bytes that are not worth a collection
	minGrowth    = 50       // percent of what was live after the last collection
	maxGrowth    = 250
	tendInterval = 200 * time.Millisecond
	restInterval = time.Second // between looks at a program that allocates little
	little       = 1 << 20     // bytes
)

// tendHeap sets how far the heap may grow, by what is live and by how fast it grows, until ctx ends. Where the environment says GOGC, that
// stands.
func tendHeap(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	interval := tendInterval
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var set int
	_, before := heap()
	for {
		live, allocated := heap()
		if next := growth(live, (allocated-before)*uint64(collectEvery)/uint64(interval)); apart(set, next) {
			debug.SetGCPercent(next) // It stops the world for a moment.
			set = next
		}
		if interval = tendInterval; allocated-before < little {
			interval = restInterval
		}
		ticker.Reset(interval)
		before = allocated
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// growth returns by how many percent the heap may grow while so many bytes of it are live and so many are allocated in collectEvery.
func growth(live, allocated uint64) int {
	if live == 0 {
		return maxGrowth
	}
	goal := max(live+allocated, heapFloor)
	return int(min(max(goal*100/live, minGrowth+100), maxGrowth+100)) - 100
}

// apart tells whether it is worth it to go from one growth to another.
func apart(old, next int) bool { return max(old, next)-min(old, next) > old/8 }

// heap returns how many bytes were live after the last collection, and how many have ever been allocated.
func heap() (live, allocated uint64) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64(), sample[1].Value.Uint64()
}
