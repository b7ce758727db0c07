package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"rubato/internal/claims"
	"rubato/internal/loop"
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
	// faultyExecution is the limit of an execution whose own is not known. Nothing is sent in it.
	faultyExecution = 10 * time.Second
	// poisonedRest is how long a claim that panicked rests: its fault is likely to be there again.
	poisonedRest = 15 * time.Second
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
		case <-w.queue.Changed():
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
				started := false
				_ = w.loops.Contain(loop.Start, func() { started = w.startBatch(ctx, work, batch) })
				if !started { // The database is away: the next try is not at once.
					sleep(ctx, startRetry)
					w.queue.Poke()
				}
			})
		}
		w.spill(ctx)
		timer.Reset(w.untilNext())
	}
}

// untilNext returns how long the starter can sleep. What waits for a slot is woken by a finish.
func (w *Worker) untilNext() time.Duration {
	next, found := w.queue.Next()
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
	if next, found := w.queue.Next(); found && next.Sub(now) <= startWake {
		until = now.Add(startLead)
	}
	if w.queue.Busy() < w.queue.Slots() {
		w.lastFree.Store(w.clock.mark())
	}
	return w.queue.Take(until, startBatch)
}

// startBatch commits the starts of a batch, whose slots are taken, and sends what came back. A batch that could not be committed goes
// back into the queue: its claims hold until their locks are over, and a second start of what did start after all is refused.
func (w *Worker) startBatch(ctx, work context.Context, batch []*waiting) bool {
	valid := newest(batch)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWait)
	defer cancel()

	sent := time.Now()
	started, err := w.start(ctx, batch)
	if _, panicked := errors.AsType[*loop.PanicError](err); panicked {
		return w.isolate(ctx, work, batch, err)
	}
	tell := w.starts.note(err)
	if err != nil {
		// Whether the commit arrived is unknown, so nothing is sent. What did start is found when the next start of it is refused.
		if tell {
			w.logger.Warn("starting failed; keeping the claims and trying again", "claims", len(batch), "error", err)
		}
		for _, b := range batch {
			b.doubtful = true
		}
		w.queue.PutBack(batch)
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
	return w.withoutStart(ctx, refused)
}

// start commits the starts of a batch. A panic is returned as an error.
func (w *Worker) start(ctx context.Context, batch []*waiting) (started []Started, err error) {
	r := Starting{Worker: w.id, List: w.startsOf(batch), LockTTL: w.cfg.Rules.LockTTL, Until: w.clock.latest().Add(sendLimit)}
	if fault := w.loops.Contain(loop.Start, func() { started, err = w.cfg.Executions.Start(ctx, r) }); fault != nil {
		return nil, fault
	}
	return started, err
}

// isolate starts the claims of a batch one by one, because the commit of the whole batch panicked. The
// claim whose own start panics is given back, and rests before it is claimed again. Whether one of
// them did start is asked, because nothing was sent for it.
func (w *Worker) isolate(ctx, work context.Context, batch []*waiting, fault error) bool {
	for _, b := range batch {
		b.doubtful = true
	}
	if len(batch) == 1 {
		b := batch[0]
		b.fault, b.claim.Rest = fault, w.cfg.Rules.Horizon+poisonedRest
		return w.withoutStart(ctx, batch)
	}
	all := true
	for _, b := range batch {
		all = w.startBatch(ctx, work, []*waiting{b}) && all
	}
	return all
}

// withoutStart gives back the slots of claims that did not start, and the claims. It returns false where
// some stay in doubt.
func (w *Worker) withoutStart(ctx context.Context, list []*waiting) bool {
	w.queue.Return(list)
	if err := w.refused(ctx, list); err != nil {
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
		if w.loops.Contain(loop.Start, func() { w.carryOut(work, b, s, sent) }) != nil {
			w.free(s.TenantID) // No record: the sweeper settles the run.
		}
	})
}

// carryOut runs one execution at its due time, and hands over its result.
func (w *Worker) carryOut(work context.Context, b *waiting, s Started, sent time.Time) {
	defer b.Release() // After a panic; otherwise it is released already.
	sleep(work, w.ahead(b.claim.PlannedAt))
	run := w.runOf(b.claim, s)
	if now, _ := w.clock.now(); now.After(run.StartedAt) {
		run.StartedAt = now
	}
	began := time.Now()
	outcome, ours := w.execute(work, b, s, sent)
	b.Release()
	if !ours { // The lock is lost: the process that holds it now writes the record.
		w.dropped(s)
		return
	}
	run.Outcome = outcome
	run.FinishedAt = run.StartedAt.Add(time.Since(began))
	w.results <- result{run, s.Basis}
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
	w.lastFree.Store(w.clock.mark())
	w.queue.FreeSlots(tenants...)
	w.queue.Poke()
}

// spill gives back overdue claims that will not start soon, so that workers with free slots can take them: those of tenants whose slots
// slow targets have held for a while, and those of hosts that have as many requests under way as they may and answer none. The latter
// nobody sees for a moment, or they would be the first to be claimed again, before what lies behind them.
func (w *Worker) spill(ctx context.Context) {
	now, known := w.clock.now()
	if !known {
		return
	}
	late, parked := w.queue.Evict(now, hoardLimit)
	if len(late)+len(parked) == 0 {
		return
	}
	w.logger.Warn("slow targets hold what there is of slots; giving overdue claims back",
		"claims", len(late), "claims_of_busy_hosts", len(parked), "slots", w.queue.Slots())
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
		ID: s.RunID, EndpointID: s.EndpointID, TenantID: s.TenantID, ScheduledFor: c.Slot, Attempt: c.Attempt, InfraAttempt: c.InfraAttempt, Source: c.Source,
		ClaimToken: c.Token, WorkerID: w.id, StartedAt: s.StartedAt,
	}
}

// startsOf returns the starts of claims. A claim whose target panics is started all the same, with
// nothing that its request needs, so that its run is recorded with the fault.
func (w *Worker) startsOf(list []*waiting) []Start {
	starts := make([]Start, len(list))
	for i, b := range list {
		fault := w.loops.Contain(loop.Start, func() { starts[i] = startOf(b) })
		if fault != nil {
			b.fault = fault
			starts[i] = Start{Claim: b.claim, TenantID: b.target.TenantID, RunID: b.run, Execution: faultyExecution}
		}
	}
	return starts
}

func startOf(b *waiting) Start {
	return Start{
		Claim: b.claim, TenantID: b.target.TenantID, RunID: b.run, Execution: b.target.Spec.MaxExecutionTime,
		Last: b.target.Shape != nil && b.target.Shape.UsesLast(), Secrets: b.target.unlocks(),
	}
}
