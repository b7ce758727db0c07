package dispatch

import (
	"math"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// loadSampler samples the load of the process from the runtime's metrics. It is not safe for
// concurrent use.
type loadSampler struct {
	samples []runtimemetrics.Sample
	// before is the histogram of scheduling latencies at the last sample.
	before []uint64
	// memory is the memory limit of the process in bytes; zero: no limit.
	memory float64
}

// Indexes of the runtime metrics in loadSampler.samples.
const (
	waitsSample = iota
	totalSample
	releasedSample
)

func newLoadSampler() *loadSampler {
	g := &loadSampler{samples: []runtimemetrics.Sample{
		{Name: "/sched/latencies:seconds"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}, memory: memoryBound()}
	g.read() // Sets before, so that the first sample covers only the time from here.
	return g
}

// read returns the load since the last call.
func (g *loadSampler) read() loadSample {
	runtimemetrics.Read(g.samples)
	waits := g.samples[waitsSample].Value.Float64Histogram()
	s := loadSample{late: percentile(waits, g.before)}
	g.before = append(g.before[:0], waits.Counts...)
	if g.memory > 0 {
		s.memory = float64(g.samples[totalSample].Value.Uint64()-g.samples[releasedSample].Value.Uint64()) / g.memory
	}
	return s
}

// percentile returns the 99th percentile of the waits that were added since the counts were as
// before. It returns zero if there are less than 100, because so few give no percentile.
func percentile(waits *runtimemetrics.Float64Histogram, before []uint64) time.Duration {
	const few = 100
	var total, seen uint64
	since := func(i int) uint64 {
		if i < len(before) {
			return waits.Counts[i] - before[i]
		}
		return waits.Counts[i]
	}
	for i := range waits.Counts {
		total += since(i)
	}
	if total < few {
		return 0
	}
	for i := range waits.Counts {
		if seen += since(i); seen*100 >= total*99 {
			return time.Duration(min(waits.Buckets[i+1], math.MaxInt32) * float64(time.Second))
		}
	}
	return 0
}

// memoryBound returns the memory limit of the process in bytes: the smaller of GOMEMLIMIT and the
// limit of the cgroup. It returns zero if there is neither.
func memoryBound() float64 {
	bound := debug.SetMemoryLimit(-1) // A negative limit only reads the current one.
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if allowed, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			bound = min(bound, allowed)
		}
	}
	if bound == math.MaxInt64 {
		return 0
	}
	return float64(bound)
}
