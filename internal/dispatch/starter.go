package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"rubato/internal/runs"
)

// errShutdown is the cause of the end of a request that outlasted the grace of a stopping worker.
var errShutdown = errors.New("the worker is stopping")

const (
	idleWait   = time.Second            // how often the starter looks although nothing told it to
	startWait  = 5 * time.Second        // how long the commit of starts may take before it has failed
	startRetry = 200 * time.Millisecond // how long the starter waits after that
)

// startLoop starts claims at their due time until ctx ends. Requests run under work.
func (w *Worker) startLoop(ctx, work context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.queue.changed:
		case <-timer.C:
		}
		if w.startDue(ctx, work) {
			w.spill(ctx)
			timer.Reset(w.untilNext())
		} else {
			timer.Reset(startRetry)
		}
	}
}

// untilNext returns how long the starter can sleep. Without a free slot a finish wakes it.
func (w *Worker) untilNext() time.Duration {
	next, found := w.queue.next()
	if !found || int(w.busy.Load()) >= w.cfg.Slots {
		return idleWait
	}
	return min(max(w.clock.until(next), 0), idleWait)
}

// startDue starts everything that is due, as far as slots are free, and reports whether the database went along.
func (w *Worker) startDue(ctx, work context.Context) bool {
	for ctx.Err() == nil {
		now, known := w.clock.now()
		if !known {
			return true
		}
		batch := w.queue.due(now, w.cfg.Slots-int(w.busy.Load()))
		if len(batch) == 0 {
			return true
		}
		if !w.startBatch(ctx, work, batch) {
			return false
		}
	}
	return true
}

// startBatch commits the starts of a batch and sends what came back. A batch that could not be committed goes back into the queue:
// its claims hold until their locks are over, and a second start of what did start after all is refused.
func (w *Worker) startBatch(ctx, work context.Context, batch []waiting) bool {
	byEndpoint := make(map[[16]byte]waiting, len(batch))
	for _, b := range batch {
		if b.claim.Token > byEndpoint[b.claim.EndpointID].claim.Token { // Of two claims of one endpoint the earlier is void.
			byEndpoint[b.claim.EndpointID] = b
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWait)
	defer cancel()

	sent := time.Now()
	started, err := w.cfg.Executions.Start(ctx, w.id, startsOf(batch), w.cfg.Rules.LockTTL)
	if err != nil {
		// Whether the commit arrived is unknown, so nothing is sent. What did start is found when the next start of it is refused.
		w.logger.Warn("starting failed; keeping the claims and trying again", "claims", len(batch), "error", err)
		for i := range batch {
			batch[i].doubtful = true
		}
		w.queue.put(batch)
		return false
	}
	at := commit{sent: sent, answered: time.Now()}
	w.metrics.refused.Add(float64(len(batch) - len(started)))
	for _, s := range started {
		w.launch(work, byEndpoint[s.EndpointID], s, at)
	}
	if err := w.refused(ctx, notIn(batch, started)); err != nil {
		w.logger.Warn("a start whose answer was lost stays in doubt; asking again", "error", err)
		return false
	}
	return true
}

// notIn returns what of a batch did not start.
func notIn(batch []waiting, started []Started) []waiting {
	ours := make(map[runs.ID]bool, len(started))
	for _, s := range started {
		ours[s.RunID] = true
	}
	return slices.DeleteFunc(batch, func(b waiting) bool { return ours[runID(b.claim)] })
}

// commit is when a statement that starts runs was sent and answered, on this process's clock. The database read its own clock in
// between: counting from when it was sent never makes a lock too long, counting from the answer never makes an end too late.
type commit struct {
	sent, answered time.Time
}

// launch takes a slot and runs one execution on a goroutine of its own.
func (w *Worker) launch(work context.Context, b waiting, s Started, at commit) {
	w.busy.Add(1)
	w.metrics.started.Inc()
	w.running.Go(func() {
		run := w.runOf(b.claim, s)
		outcome, recorded := w.execute(work, b, s, at.sent)
		if !recorded { // The lock is lost: whoever holds it now writes the record.
			w.free()
			return
		}
		run.Outcome = outcome
		run.FinishedAt = s.StartedAt.Add(time.Since(at.answered))
		w.results <- run
	})
}

// free gives a slot back.
func (w *Worker) free() {
	w.busy.Add(-1)
	w.lastFree.Store(w.clock.mark())
	w.queue.poke()
}

// spill gives back the claims that are overdue when no slot has come free for a while, so that workers with free slots can take
// them.
func (w *Worker) spill(ctx context.Context) {
	now, known := w.clock.now()
	if !known || int(w.busy.Load()) < w.cfg.Slots || w.clock.age(w.lastFree.Load()) < hoardLimit {
		return
	}
	late := w.queue.due(now, w.queue.size())
	if len(late) == 0 {
		return
	}
	w.logger.Warn("all slots are taken by slow targets; giving overdue claims back", "claims", len(late), "slots", w.cfg.Slots)
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	if err := w.refused(ctx, late); err != nil {
		w.logger.Warn("a start whose answer was lost stays in doubt; asking again", "error", err)
	}
}
