package dispatch

import (
	"context"
	"time"
)

// How many slots a worker has follows what its process can take. A request that hangs costs next to nothing, so where requests hold the
// slots while claims wait, slots are added, step by step. Where the process falls behind or its memory runs out, it gives up a quarter of
// them. What was too much is remembered, and tried again ever more rarely, so that the limit comes to rest.
const (
	slotPeriod  = 250 * time.Millisecond
	startSlots  = 1024 // to begin with: enough for every burst of fast targets that two cores can take, and for batches that are worth their commits
	slotSteps   = 32   // from none to the most
	shrinkRest  = 4    // periods in a row that the process must be late before it has fallen behind: a burst passes
	firstRest   = 40   // periods until what was too much is tried again, at first: 10 s; doubled every time that it is too much again
	longestRest = 1200
	forgetRest  = 4 * longestRest // periods since the last shrink after which what was too much is forgotten
	// lateLimit is how long a goroutine may wait for a processor, 99 of 100 times, before the process has fallen behind, and calmLimit
	// below which it may take more. Runs are late by as much, several times over.
	lateLimit = 100 * time.Millisecond
	calmLimit = lateLimit / 4
)

// Directions in which the number of slots changes.
const (
	grown  = "grown"
	shrunk = "shrunk"
)

// strain is how a process fared for a period.
type strain struct {
	wanted bool          // claims waited for a slot, and requests under way held them
	late   time.Duration // how long goroutines waited for a processor, 99 of 100 times
	memory float64       // how much of the memory that it may use it does; zero where there is no bound
}

// The parts of its memory from which a process gives up slots, and below which it may add some.
const (
	fullMemory = 0.9
	calmMemory = 0.75
)

func (s strain) tooMuch() bool { return s.late > lateLimit || s.memory > fullMemory }

func (s strain) calm() bool { return s.late <= calmLimit && s.memory <= calmMemory }

// slotLimit decides how many slots a worker has. It knows no clock: it is asked once a period.
type slotLimit struct {
	least, most int
	now         int
	since       int // periods since it last shrank
	strained    int // periods in a row that were too much
	tried       int // slots that were too much; zero: none are known
	rest        int // periods until more than that may be tried
}

func newSlotLimit(cfg Config) *slotLimit {
	least := cfg.MinSlots
	if least <= 0 {
		least = cfg.Slots
	}
	return &slotLimit{least: least, most: cfg.Slots, now: min(cfg.Slots, max(least, startSlots)), since: shrinkRest}
}

// step returns how many slots there are after a period that went so.
func (l *slotLimit) step(s strain) int {
	l.since++
	l.strained++
	if !s.tooMuch() {
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

// grow adds a step, and stops a step or a tenth short of what was too much, whichever is more, until it may try that again.
func (l *slotLimit) grow() {
	most, step := l.most, max(1, l.most/slotSteps)
	if l.tried > 0 && l.since <= l.rest {
		most = min(most, max(l.now, min(l.tried*9/10, l.tried-step)))
	}
	l.now = min(l.now+step, most)
}

// slotLoop adapts the number of slots until ctx ends, to what read tells of the process. It rests while nothing runs.
func (w *Worker) slotLoop(ctx context.Context, read func() strain) {
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

// heldByRequests reports whether most slots that are taken are taken by requests under way. Those of runs that wait for the database
// would only wait for it in greater number.
func (w *Worker) heldByRequests() bool { return 4*w.underway.size() >= 3*w.queue.Busy() }

// resize sets how many slots there are.
func (w *Worker) resize(slots int) {
	before := w.queue.SetSlots(slots)
	switch {
	case before == slots:
	case slots > before:
		w.metrics.resized.WithLabelValues(grown).Inc()
		w.queue.Poke()
		w.claimer.Wake()
		w.logger.Debug("slow targets hold the slots; the worker has more of them", "slots", slots, "before", before)
	default:
		w.metrics.resized.WithLabelValues(shrunk).Inc()
		w.logger.Info("the process falls behind; the worker has fewer slots", "slots", slots, "before", before)
	}
}
