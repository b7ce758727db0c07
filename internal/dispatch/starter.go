package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"rubato/internal/claims"
	"rubato/internal/runs"
)

// errShutdown is the cause of the end of a request that outlasted the grace of a stopping worker.
var errShutdown = errors.New("the worker is stopping")

const (
	idleWait   = time.Second            // how often the starter looks although nothing told it to
	startWait  = 5 * time.Second        // how long the commit of starts may take before it has failed
	startRetry = 200 * time.Millisecond // how long the starter waits after that
	startBatch = 500                    // as many as one claim brings
	// startWriters is how many batches of starts are committed at once: while one waits for the disk, the next one is sent.
	startWriters = 2
	// startLead is how long before its due time a start may be committed, so that the request can leave at the due time itself. Its
	// bound comes from what a pause may promise: no request leaves later than this after the pause.
	startLead = 20 * time.Millisecond
	// startWake is how long before the due time of the first claim its batch is gathered: the time that a commit takes on a busy
	// database. What lies between it and startLead shares the commit.
	startWake = 8 * time.Millisecond
)

// startLoop starts claims for their due time until ctx ends. Requests run under work.
func (w *Worker) startLoop(ctx, work context.Context) {
	var writing sync.WaitGroup
	defer writing.Wait()
	writers := make(chan struct{}, startWriters)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.queue.changed:
		case <-timer.C:
		}
		for {
			select { // What comes due, or gets a slot, before a writer is free shares the batch.
			case writers <- struct{}{}:
			case <-ctx.Done():
				return
			}
			batch := w.nextBatch()
			w.refill()
			if len(batch) == 0 {
				<-writers
				break
			}
			writing.Go(func() {
				defer func() { <-writers }()
				if !w.startBatch(ctx, work, batch) { // The database is away: the next try is not at once.
					sleep(ctx, startRetry)
					w.queue.poke()
				}
			})
		}
		w.spill(ctx)
		timer.Reset(w.untilNext())
	}
}

// untilNext returns how long the starter can sleep. What waits for a slot is woken by a finish.
func (w *Worker) untilNext() time.Duration {
	next, found := w.queue.next()
	if !found {
		return idleWait
	}
	return min(max(w.clock.until(next)-startWake, 0), idleWait)
}

// nextBatch takes out of the queue what is to be started next, as far as slots are free, and takes their slots.
func (w *Worker) nextBatch() []*waiting {
	now, known := w.clock.now()
	if !known {
		return nil
	}
	until := now
	if next, found := w.queue.next(); found && next.Sub(now) <= startWake {
		until = now.Add(startLead)
	}
	free := w.slots() - int(w.busy.Load())
	if free > 0 {
		w.lastFree.Store(w.clock.mark())
	}
	batch := w.queue.take(until, min(free, startBatch), free)
	w.busy.Add(int64(len(batch)))
	return batch
}

// putBack returns claims to the queue, and their slots.
func (w *Worker) putBack(batch []*waiting) {
	w.queue.putBack(batch)
	w.busy.Add(-int64(len(batch)))
}

// startBatch commits the starts of a batch, whose slots are taken, and sends what came back. A batch that could not be committed goes
// back into the queue: its claims hold until their locks are over, and a second start of what did start after all is refused.
func (w *Worker) startBatch(ctx, work context.Context, batch []*waiting) bool {
	valid := newest(batch)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWait)
	defer cancel()

	sent := time.Now()
	started, err := w.cfg.Executions.Start(ctx, Starting{
		Worker: w.id, List: startsOf(batch), LockTTL: w.cfg.Rules.LockTTL, Until: w.clock.latest().Add(sendLimit),
	})
	tell := w.starts.note(err)
	if err != nil {
		// Whether the commit arrived is unknown, so nothing is sent. What did start is found when the next start of it is refused.
		if tell {
			w.logger.Warn("starting failed; keeping the claims and trying again", "claims", len(batch), "error", err)
		}
		for _, b := range batch {
			b.doubtful = true
		}
		w.putBack(batch)
		return false
	}
	for _, s := range started {
		w.launch(work, valid[s.RunID], s, sent)
	}
	if len(started) == len(batch) {
		return true
	}
	refused := notIn(batch, started, valid)
	w.metrics.refused.Add(float64(len(refused)))
	w.queue.returnSlots(refused)
	w.busy.Add(-int64(len(refused)))
	if err := w.refused(ctx, refused); err != nil {
		w.logger.Warn("a start whose answer was lost stays in doubt; asking again", "error", err)
		return false
	}
	return true
}

// newest returns the claim to each run of a batch. Of two claims to one run, as an edit leaves them that does not move it, the earlier is
// void.
func newest(batch []*waiting) map[runs.ID]*waiting {
	valid := make(map[runs.ID]*waiting, len(batch))
	for _, b := range batch {
		if other := valid[b.run]; other == nil || b.claim.Token > other.claim.Token {
			valid[b.run] = b
		}
	}
	return valid
}

// notIn returns what of a batch did not start, void claims to runs that did included.
func notIn(batch []*waiting, started []Started, valid map[runs.ID]*waiting) []*waiting {
	tokens := make(map[runs.ID]int64, len(started))
	for _, s := range started {
		tokens[s.RunID] = valid[s.RunID].claim.Token
	}
	return slices.DeleteFunc(batch, func(b *waiting) bool { return tokens[b.run] == b.claim.Token })
}

// launch runs one execution, whose slot is taken, on a goroutine of the crew. sent is when the statement that started it was sent:
// counting the lock from there never makes it too long.
func (w *Worker) launch(work context.Context, b *waiting, s Started, sent time.Time) {
	w.metrics.started.Inc()
	w.crew.run(func() {
		sleep(work, w.ahead(b.claim.PlannedAt))
		run := w.runOf(b.claim, s)
		if now, _ := w.clock.now(); now.After(run.StartedAt) {
			run.StartedAt = now
		}
		began := time.Now()
		outcome, ours := w.execute(work, b, s, sent)
		w.queue.answered(b.target)
		if !ours { // The lock is lost: whoever holds it now writes the record.
			w.dropped(s)
			return
		}
		run.Outcome = outcome
		run.FinishedAt = run.StartedAt.Add(time.Since(began))
		w.results <- result{run, s.Basis}
	})
}

// dropped gives back the slot of a run whose record somebody else writes.
func (w *Worker) dropped(s Started) {
	if w.cfg.Tracer != nil {
		w.cfg.Tracer.Dropped(s.RunID)
	}
	w.free(s.TenantID)
}

// ahead returns how long a run that has started waits for its due time. It is never longer than a start may be ahead, also where the
// database's clock was set back since: the run holds a slot and a lock.
func (w *Worker) ahead(planned time.Time) time.Duration {
	return min(w.clock.until(planned), startLead)
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// free gives a slot back for each of some tenants, all at once: who waits for slots shares a batch.
func (w *Worker) free(tenants ...[16]byte) {
	w.busy.Add(-int64(len(tenants)))
	w.lastFree.Store(w.clock.mark())
	w.queue.freeSlots(tenants...)
	w.queue.poke()
}

// spill gives back overdue claims that will not start soon, so that workers with free slots can take them: those of tenants whose slots
// slow targets have held for a while, and those of hosts that have as many requests under way as they may and answer none. The latter
// nobody sees for a moment, or they would be the first to be claimed again, before what lies behind them.
func (w *Worker) spill(ctx context.Context) {
	now, known := w.clock.now()
	if !known {
		return
	}
	late, parked := w.queue.hopeless(now, hoardLimit)
	if len(late)+len(parked) == 0 {
		return
	}
	w.logger.Warn("slow targets hold what there is of slots; giving overdue claims back",
		"claims", len(late), "claims_of_busy_hosts", len(parked), "slots", w.slots())
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for _, b := range parked {
		b.claim.Rest = w.cfg.Rules.Horizon + parkedRest // Claims look that far ahead.
	}
	if err := w.refused(ctx, slices.Concat(late, parked)); err != nil {
		w.logger.Warn("a start whose answer was lost stays in doubt; asking again", "error", err)
	}
}

// runOf returns the run of a claim that has started.
func (w *Worker) runOf(c claims.Claim, s Started) runs.Run {
	return runs.Run{
		ID: s.RunID, EndpointID: s.EndpointID, TenantID: s.TenantID, ScheduledFor: c.Slot, Attempt: c.Attempt, Source: c.Source,
		ClaimToken: c.Token, WorkerID: w.id, StartedAt: s.StartedAt,
	}
}

func startsOf(list []*waiting) []Start {
	starts := make([]Start, len(list))
	for i, b := range list {
		starts[i] = Start{
			Claim: b.claim, TenantID: b.target.TenantID, RunID: b.run, Execution: b.target.Spec.MaxExecutionTime,
			Last: b.target.Shape != nil && b.target.Shape.UsesLast(), Secrets: b.target.unlocks(),
		}
	}
	return starts
}
