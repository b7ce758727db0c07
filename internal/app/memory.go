package app

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A worker makes much garbage and keeps little, so the runtime's habit of collecting whenever the heap has doubled costs it a quarter of
// its time. It collects when the heap has come to heapGoal instead, but not before it has trebled and not after it has grown fivefold.
const (
	heapGoal       = 48 << 20
	minGrowth      = 200 // percent of what was live after the last collection
	maxGrowth      = 400
	growthInterval = 5 * time.Second
)

// tendHeap sets how far the heap may grow, by what is live, until ctx ends. Where the environment says GOGC, that stands.
func tendHeap(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	ticker := time.NewTicker(growthInterval)
	defer ticker.Stop()
	for {
		debug.SetGCPercent(growth(liveHeap()))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// growth returns by how many percent the heap may grow while so many bytes of it are live.
func growth(live uint64) int {
	if live == 0 {
		return maxGrowth
	}
	return int(min(max(heapGoal*100/live, minGrowth+100), maxGrowth+100)) - 100
}

func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
