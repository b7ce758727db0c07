package dispatch

import (
	"context"
	"time"
)

// The concurrency limit of a worker, its number of slots, adapts to the load of its process. A
// request to a slow target costs next to nothing. Therefore the limit grows step by step while
// requests hold the slots and claims wait. It shrinks by a quarter if the process is overloaded or
// runs out of memory. The limit at an overload is remembered, and retried with a backoff, so that
// the limit becomes stable.
const (
	// slotPeriod is the time between two adaptations.
	slotPeriod = 250 * time.Millisecond
	// startSlots is the initial limit. It is enough for any burst of fast targets that two cores
	// can handle, and for batches that are worth a commit.
	startSlots = 1024
	// slotSteps is the number of steps from zero to the maximum.
	slotSteps = 32
	// shrinkRest is the number of consecutive overloaded periods before the limit shrinks. One
	// period is not enough, because a burst passes by itself.
	shrinkRest = 4
	// firstRest is the initial backoff before the limit of an overload is retried. It is in
	// periods: 10 s. Each further overload doubles it.
	firstRest = 40
	// longestRest is the maximum of that backoff, in periods.
	longestRest = 1200
	// forgetRest is the number of periods after the last shrink at which the limit of an overload
	// is forgotten.
	forgetRest = 4 * longestRest
	// lateLimit is the scheduling latency of goroutines, as 99th percentile, above which the
	// process is overloaded. The start lag of runs is a multiple of it.
	lateLimit = 100 * time.Millisecond
	// calmLimit is the scheduling latency up to which the limit may grow.
	calmLimit = lateLimit / 4
)

// Directions in which the number of slots changes.
const (
	grown  = "grown"
	shrunk = "shrunk"
)

// loadSample is a sample of the load of the process over one period.
type loadSample struct {
	// wanted is set if claims wait for slots that requests in flight hold.
	wanted bool
	// late is the 99th percentile of the goroutines' scheduling latency.
	late time.Duration
	// memory is the used fraction of the memory limit; zero if there is no limit.
	memory float64
}

const (
	// fullMemory is the fraction of the memory limit above which slots are given up.
	fullMemory = 0.9
	// calmMemory is the fraction up to which slots may be added.
	calmMemory = 0.75
)

func (s loadSample) overloaded() bool { return s.late > lateLimit || s.memory > fullMemory }

func (s loadSample) calm() bool { return s.late <= calmLimit && s.memory <= calmMemory }

// slotLimit is the adaptive concurrency limit of a worker. It reads no clock: step is called once a
// period. It belongs to the goroutine of the slot loop.
type slotLimit struct {
	least, most int
	now         int
	// since is the number of periods since the last shrink.
	since int
	// strained is the number of consecutive overloaded periods.
	strained int
	// tried is the limit at the last overload; zero: none is known.
	tried int
	// rest is the backoff before the limit may reach tried again, in periods.
	rest int
}

func newSlotLimit(cfg Config) *slotLimit {
	least := cfg.MinSlots
	if least <= 0 {
		least = cfg.Slots
	}
	return &slotLimit{
		least: least,
		most:  cfg.Slots,
		now:   min(cfg.Slots, max(least, startSlots)),
		since: shrinkRest,
	}
}

// step returns the limit after a period with this load.
func (l *slotLimit) step(s loadSample) int {
	l.since++
	l.strained++
	if !s.overloaded() {
		l.strained = 0
	}
	switch {
	case l.strained >= shrinkRest || s.memory > fullMemory && l.since > shrinkRest:
		l.shrink()
	case l.tried > 0 && l.since > forgetRest:
		l.tried, l.rest = 0, 0
	case s.wanted && s.calm():
		l.grow()
	}
	return l.now
}

func (l *slotLimit) shrink() {
	l.tried, l.since, l.strained = l.now, 0, 0
	l.rest = min(max(2*l.rest, firstRest), longestRest)
	l.now = max(l.least, l.now*3/4)
}

// grow adds a step. During the backoff it stays below the limit of the last overload, by a step or
// by a tenth, the larger of the two.
func (l *slotLimit) grow() {
	most, step := l.most, max(1, l.most/slotSteps)
	if l.tried > 0 && l.since <= l.rest {
		most = min(most, max(l.now, min(l.tried*9/10, l.tried-step)))
	}
	l.now = min(l.now+step, most)
}

// slotLoop adapts the number of slots until ctx ends. read returns the load of the process since
// its last call. While no run is in progress, the loop samples less often.
func (w *Worker) slotLoop(ctx context.Context, read func() loadSample) {
	limit := newSlotLimit(w.cfg)
	if limit.least == limit.most {
		return
	}
	ticker := time.NewTicker(slotPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s := read()
			s.wanted = w.queue.Starved() && w.heldByRequests()
			w.resize(limit.step(s))
			if w.queue.Busy() > 0 {
				ticker.Reset(slotPeriod)
			} else {
				ticker.Reset(idleWait)
			}
		}
	}
}

// heldByRequests reports whether requests in flight hold at least three quarters of the taken
// slots. If runs hold them that wait for the database, more slots would only add load to the
// database.
func (w *Worker) heldByRequests() bool { return 4*w.underway.size() >= 3*w.queue.Busy() }

// resize sets the number of slots.
func (w *Worker) resize(slots int) {
	before := w.queue.SetSlots(slots)
	switch {
	case before == slots:
	case slots > before:
		w.metrics.resized.WithLabelValues(grown).Inc()
		w.queue.Poke()
		w.claimer.Wake()
		w.logger.Debug("slots added, because slow targets hold them", "slots", slots, "before", before)
	default:
		w.metrics.resized.WithLabelValues(shrunk).Inc()
		w.logger.Info("slots removed, because the process is overloaded", "slots", slots, "before", before)
	}
}
