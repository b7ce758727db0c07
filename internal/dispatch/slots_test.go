package dispatch

import (
	"context"
	runtimemetrics "runtime/metrics"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/runs"
)

// machine is a process that takes so many requests under way, and falls behind with more.
type machine struct {
	capacity int
	limit    *slotLimit
	grew     bool // since it shrank
	episodes int  // how often it came to be too much
	lowest   int
	highest  int
}

// run lets so many slots be wanted for a while, in a bubble's time.
func (m *machine) run(wanted int, span time.Duration) {
	m.lowest = m.limit.now
	ticker := time.NewTicker(slotPeriod)
	defer ticker.Stop()
	for end := time.Now().Add(span); time.Now().Before(end); {
		<-ticker.C
		busy := min(wanted, m.limit.now)
		s := loadSample{wanted: wanted > m.limit.now, late: time.Millisecond}
		if busy > m.capacity {
			s.late = 2 * lateLimit
		}
		before := m.limit.now
		switch after := m.limit.step(s); {
		case after > before:
			m.grew = true
		case after < before && m.grew:
			m.grew = false
			m.episodes++
		}
		m.lowest, m.highest = min(m.lowest, m.limit.now), max(m.highest, m.limit.now)
	}
}

// TestSlotsConvergeToTheCapacityOfTheProcess tries every load with every capacity, in synthetic
// time.
func TestSlotsConvergeToTheCapacityOfTheProcess(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.IntRange(1, 5000).Draw(rt, "most")
		least := rapid.IntRange(1, most).Draw(rt, "least")
		m := &machine{capacity: rapid.IntRange(1, 6000).Draw(rt, "capacity"), limit: newSlotLimit(Config{Slots: most, MinSlots: least})}
		wanted := rapid.IntRange(0, 8000).Draw(rt, "wanted")
		settled := 0
		synctest.Test(t, func(*testing.T) {
			m.run(wanted, 6*time.Minute)
			settled = m.episodes
			m.run(wanted, 30*time.Minute)
		})

		if m.lowest < least || m.highest > most {
			rt.Fatalf("between %d and %d", m.lowest, m.highest)
		}
		if least > m.capacity {
			return // It has to have more than it can take.
		}
		if got := m.episodes - settled; got > 15 { // One in two minutes.
			rt.Fatalf("it came to be too much %d times within half an hour of one load", got)
		}
		if ideal := min(wanted, most, m.capacity); min(wanted, m.lowest) < ideal*6/10-1 {
			rt.Fatalf("as few as %d of the %d that it could have", m.lowest, ideal)
		}
		if min(wanted, m.limit.now) > m.capacity+max(1, most/slotSteps) {
			rt.Fatalf("%d slots are far more than it can take", m.limit.now)
		}
	})
}

func TestSlotsGrowWithinSecondsForHangingTargets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &machine{capacity: 10_000, limit: newSlotLimit(Config{Slots: 2048, MinSlots: 256})}
		require.Equal(t, startSlots, m.limit.now)
		m.run(startSlots, time.Hour)
		require.Equal(t, startSlots, m.limit.now, "nobody waits for more")
		m.run(3000, 7*time.Second)
		require.Equal(t, 2048, m.limit.now)
	})
}

// TestSlotsGrowWhileTargetsHoldThem has a worker with hanging requests in all of its slots, and a
// claim that waits for one.
func TestSlotsGrowWhileTargetsHoldThem(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		requests int
		late     time.Duration
		want     int
	}{
		"HangingRequests":         {2 * startSlots, 0, 2 * startSlots},
		"RunsThatWaitForRecords":  {startSlots / 2, 0, startSlots},
		"AProcessThatFallsBehind": {startSlots, 2 * lateLimit, 128},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := lone(t, Config{Slots: 2 * startSlots, MinSlots: 128})
				w.queue.Add(waits(make([]int, 3*startSlots)...))
				sent := 0
				startDue := func() { // As the start loop does.
					for range w.queue.Take(start, startSlots) {
						if sent < tc.requests {
							w.underway.enter(runs.NewID(start, [16]byte{}, sent, 0), &cancelableRun{})
						}
						sent++
					}
				}
				startDue()
				require.Less(t, sent, startSlots, "some wait")
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				w.slotLoop(ctx, func() loadSample { startDue(); return loadSample{late: tc.late} })
				require.Equal(t, tc.want, w.queue.Slots())
			})
		})
	}
}

func TestSlotsThatAreNotToAdaptStay(t *testing.T) {
	t.Parallel()
	l := newSlotLimit(Config{Slots: 7})
	for range 100 {
		require.Equal(t, 7, l.step(loadSample{wanted: true, late: time.Second, memory: 1}))
	}
	require.Equal(t, 3000, newSlotLimit(Config{Slots: 4000, MinSlots: 3000}).now, "it begins no lower than its least")
}

// TestASlotLimitFollowsEachSign has one cause at a time.
func TestASlotLimitFollowsEachSign(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		s    loadSample
		want int
	}{
		"nothing":                       {loadSample{}, startSlots},
		"wanted":                        {loadSample{wanted: true}, startSlots + 2048/slotSteps},
		"wanted, and somewhat late":     {loadSample{wanted: true, late: calmLimit + 1}, startSlots},
		"wanted, and memory is scarce":  {loadSample{wanted: true, memory: 0.8}, startSlots},
		"late":                          {loadSample{late: lateLimit + 1}, startSlots * 3 / 4},
		"memory is nearly full":         {loadSample{memory: 0.95}, startSlots * 3 / 4},
		"late, and wanted all the same": {loadSample{wanted: true, late: lateLimit + 1}, startSlots * 3 / 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newSlotLimit(Config{Slots: 2048, MinSlots: 16})
			for range shrinkRest - 1 {
				require.Equal(t, startSlots, l.step(loadSample{late: tc.s.late}), "a burst passes")
			}
			require.Equal(t, tc.want, l.step(tc.s))
		})
	}
}

func TestThePercentileIsOfTheWaitsSinceTheLastTime(t *testing.T) {
	t.Parallel()
	h := &runtimemetrics.Float64Histogram{Buckets: []float64{0, 0.001, 0.01, 0.1}, Counts: []uint64{1000, 0, 0}}
	require.Equal(t, time.Millisecond, percentile(h, nil))
	before := []uint64{1000, 0, 0}
	require.Zero(t, percentile(h, before), "nothing waited since")
	h.Counts = []uint64{1000, 5, 94}
	require.Zero(t, percentile(h, before), "ninety-nine are too few")
	h.Counts = []uint64{1990, 5, 5}
	require.Equal(t, time.Millisecond, percentile(h, before))
	h.Counts = []uint64{1985, 4, 11}
	require.Equal(t, 100*time.Millisecond, percentile(h, before))
	h.Counts = []uint64{1500, 500, 0}
	require.Equal(t, 10*time.Millisecond, percentile(h, before))
}

func TestLoadSampleOfTheRuntime(t *testing.T) {
	t.Parallel()
	g := newLoadSampler()
	for range 1000 { // Each waits for a processor.
		done := make(chan struct{})
		go close(done)
		<-done
	}
	require.Positive(t, g.read().late)
	g.memory = 1
	require.Greater(t, g.read().memory, 1.0, "any process takes more than a byte")
}
