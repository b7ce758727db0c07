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

// strainGauge reads from the runtime how the process fares. It is not safe for concurrent use.
type strainGauge struct {
	samples []runtimemetrics.Sample
	before  []uint64 // the counts of the waits as they last were
	memory  float64  // bytes that the process may use; zero: no bound
}

// What is read of the runtime, in this order.
const (
	waitsSample = iota
	totalSample
	releasedSample
)

func newStrainGauge() *strainGauge {
	g := &strainGauge{samples: []runtimemetrics.Sample{
		{Name: "/sched/latencies:seconds"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}, memory: memoryBound()}
	g.read() // What was before does not count.
	return g
}

// read returns how the process fared since the last time.
func (g *strainGauge) read() strain {
	runtimemetrics.Read(g.samples)
	waits := g.samples[waitsSample].Value.Float64Histogram()
	s := strain{late: percentile(waits, g.before)}
	g.before = append(g.before[:0], waits.Counts...)
	if g.memory > 0 {
		s.memory = float64(g.samples[totalSample].Value.Uint64()-g.samples[releasedSample].Value.Uint64()) / g.memory
	}
	return s
}

// percentile returns the time that 99 of 100 waits stayed below, of those that came since the counts were as before; zero where few came,
// of which one says nothing.
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

// memoryBound returns how much memory the process may use, in bytes: what GOMEMLIMIT says or its container allows, whichever is less; zero
// where nothing says.
func memoryBound() float64 {
	bound := debug.SetMemoryLimit(-1) // Asks, and changes nothing.
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
