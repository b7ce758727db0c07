package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"rubato/internal/claims"
	"rubato/internal/dispatch/request"
	"rubato/internal/loop"
	"rubato/internal/runs"
)

const (
	// idleWait is the longest sleep of the starter and of the slot loop.
	idleWait = time.Second
	// startWait is the timeout of a transaction of starts.
	startWait = 5 * time.Second
	// startRetry is the backoff after a transaction of starts has failed.
	startRetry = 200 * time.Millisecond
	// startBatch is the maximum batch of starts. It equals the maximum batch of a claim.
	startBatch = 500
	// startWriters is the number of start transactions in flight, so that the next one is sent
	// while the last one waits for the disk.
	startWriters = 2
	// startLead is the longest time before the due time at which a start may be committed, so that
	// the request is sent at the due time itself. It is bounded by the guarantee of a pause: no
	// request leaves later than startLead after it.
	startLead = 20 * time.Millisecond
	// startWake is the time before the due time of the first claim at which its batch is taken: the
	// duration of a commit on a busy database. Claims that are due up to startLead later share the
	// commit.
	startWake = 8 * time.Millisecond
	// faultyExecution is the execution limit of a run after its target panicked. Nothing is sent in
	// it.
	faultyExecution = 10 * time.Second
	// poisonedRest is the delay before a claim that panicked can be claimed again, because it is
	// likely to panic again.
	poisonedRest = 15 * time.Second
)

// startLoop commits the starts of due claims in batches until ctx ends. Requests use the context
// work, so that they outlive ctx during a graceful shutdown.
func (w *Worker) startLoop(ctx, work context.Context) {
	writing := newGoroutinePool()
	defer writing.close()
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
			// Wait for a writer before the batch is taken, so that claims which come due meanwhile
			// share it.
			select {
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
			writing.run(func() {
				defer func() { <-writers }()
				started := false
				_ = w.loops.Contain(loop.Start, func() { started = w.startAdmitted(ctx, work, batch) })
				if !started { // Back off, because the database is probably unavailable.
					sleep(ctx, startRetry)
					w.queue.Poke()
				}
			})
		}
		w.releaseOverdue(ctx)
		timer.Reset(w.untilNext())
	}
}

// untilNext returns the time until the next claim is due, at most idleWait. Claims that wait for a
// slot do not count, because a finish signals the queue.
func (w *Worker) untilNext() time.Duration {
	next, found := w.queue.Next()
	if !found || w.drainOrdered.Load() {
		return idleWait
	}
	return min(max(w.clock.until(next)-startWake, 0), idleWait)
}

// nextBatch takes the next claims to start from the queue, with a slot for each.
func (w *Worker) nextBatch() []*waiting {
	now, known := w.clock.now()
	if !known || w.drainOrdered.Load() {
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

// startBatch commits the starts of a batch, which holds slots, and launches the started runs. If
// the commit fails, the batch goes back to the queue and startBatch returns false. A retry is safe:
// the claims stay locked until their locks expire, and the fence refuses a second start.
func (w *Worker) startBatch(ctx, work context.Context, batch []*waiting) bool {
	valid := newest(batch)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startWait)
	defer cancel()

	sent := time.Now()
	started, err := w.start(ctx, batch)
	if _, panicked := errors.AsType[*loop.PanicError](err); panicked {
		return w.isolate(ctx, work, batch, err)
	}
	logIt := w.starts.record(err)
	if err != nil {
		// The commit may have succeeded, so nothing is sent. If it has, the next start is refused,
		// and the live run is found then.
		if logIt {
			w.logger.Warn("start runs failed; retrying with the same claims", "claims", len(batch), "error", err)
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
	r := Starting{
		Worker:  w.id,
		List:    w.startsOf(batch),
		LockTTL: w.cfg.Rules.LockTTL,
		Until:   w.clock.latest().Add(request.SendLimit),
	}
	if fault := w.loops.Contain(loop.Start, func() { started, err = w.cfg.Executions.Start(ctx, r) }); fault != nil {
		return nil, fault
	}
	return started, err
}

// isolate starts the claims of a batch one by one, because the commit of the whole batch panicked.
// A claim that panics by itself is released with a delay before it can be claimed again. Each
// claim is marked doubtful, because the panic may have come after the commit.
func (w *Worker) isolate(ctx, work context.Context, batch []*waiting, fault error) bool {
	for _, b := range batch {
		b.doubtful = true
	}
	if len(batch) == 1 {
		b := batch[0]
		b.fault, b.claim.ReleaseDelay = fault, w.cfg.Rules.Horizon+poisonedRest
		return w.withoutStart(ctx, batch)
	}
	all := true
	for _, b := range batch {
		all = w.startBatch(ctx, work, []*waiting{b}) && all
	}
	return all
}

// withoutStart frees the slots of claims that did not start, and releases the claims. It returns
// false if the database did not report whether some of them have a live run.
func (w *Worker) withoutStart(ctx context.Context, list []*waiting) bool {
	w.queue.Return(list)
	if err := w.refused(ctx, list); err != nil {
		w.logger.Warn("look up unconfirmed starts failed; retrying", "error", err)
		return false
	}
	return true
}

// newest returns the valid claim of each run in a batch. An edit of an endpoint that keeps the due
// time can leave two claims of one run. The one with the lower token is void.
func newest(batch []*waiting) map[runs.ID]*waiting {
	valid := make(map[runs.ID]*waiting, len(batch))
	for _, b := range batch {
		if other := valid[b.run]; other == nil || b.claim.Token > other.claim.Token {
			valid[b.run] = b
		}
	}
	return valid
}

// notIn returns the claims of a batch that did not start. They include void claims of started runs.
func notIn(batch []*waiting, started []Started, valid map[runs.ID]*waiting) []*waiting {
	tokens := make(map[runs.ID]int64, len(started))
	for _, s := range started {
		tokens[s.RunID] = valid[s.RunID].claim.Token
	}
	return slices.DeleteFunc(batch, func(b *waiting) bool { return tokens[b.run] == b.claim.Token })
}

// launch runs one execution, which holds a slot, on the goroutine pool. sent is when the start was
// sent to the database. The lock is counted from there, so that it never seems longer than it is.
func (w *Worker) launch(work context.Context, b *waiting, s Started, sent time.Time) {
	w.metrics.started.Inc()
	w.pool.run(func() {
		if w.loops.Contain(loop.Start, func() { w.runExecution(work, b, s, sent) }) != nil {
			w.free(s.TenantID) // No record is written, so the sweeper settles the run.
		}
	})
}

// runExecution runs one execution at its due time, and sends its result to the finisher. The slot
// stays taken until the finisher has written the record.
func (w *Worker) runExecution(work context.Context, b *waiting, s Started, sent time.Time) {
	defer b.Release() // Only needed after a panic.
	sleep(work, w.ahead(b.claim.PlannedAt))
	run := w.runOf(b.claim, s)
	if now, _ := w.clock.now(); now.After(run.StartedAt) {
		run.StartedAt = now
	}
	began := time.Now()
	outcome, ours := w.execute(work, b, s, sent)
	b.Release()
	if !ours { // The lock is lost, so another process writes the record.
		w.dropped(s)
		return
	}
	w.judgeHost(work, b, outcome)
	run.Outcome, run.ItemID = outcome, b.claim.ItemID() // It may have been detached.
	run.FinishedAt = run.StartedAt.Add(time.Since(began))
	w.results <- result{run, s.Basis}
}

// dropped frees the slot of a run that another process records.
func (w *Worker) dropped(s Started) {
	if w.cfg.Tracer != nil {
		w.cfg.Tracer.Dropped(s.RunID)
	}
	w.free(s.TenantID)
}

// ahead returns the time until the due time of a started run, at most startLead. The limit matters
// if the database's clock was set back after the start, because the run holds a slot and a lock.
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

// free frees one slot for each of the tenants. It signals the queue once, so that the next claims
// share a batch.
func (w *Worker) free(tenants ...[16]byte) {
	w.lastFree.Store(w.clock.mark())
	w.queue.FreeSlots(tenants...)
	w.queue.Poke()
}

// releaseOverdue releases overdue claims that will not start soon, so that workers with free slots
// can take them. These are claims of starved tenants, whose slots slow targets hold, and claims at
// full hosts that do not answer, or that take no requests now. The latter cannot be claimed for a
// while. Otherwise they would be claimed again first, ahead of later claims.
func (w *Worker) releaseOverdue(ctx context.Context) {
	now, known := w.clock.now()
	if !known {
		return
	}
	starved, atHosts := w.queue.Evict(now, hoardLimit)
	if len(starved)+len(atHosts) == 0 {
		return
	}
	if len(starved) > 0 {
		w.logger.Warn("all slots are held by slow targets; releasing overdue claims", "claims", len(starved), "slots", w.queue.Slots())
	}
	if len(atHosts) > 0 {
		w.metrics.deferred.WithLabelValues(deferredFull).Add(float64(len(atHosts)))
		w.logger.Debug("releasing claims at hosts that take no more requests", "claims_at_busy_hosts", len(atHosts))
	}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for _, b := range atHosts {
		// A claim takes endpoints up to Horizon early.
		b.claim.ReleaseDelay = w.cfg.Rules.Horizon + w.restOf(b)
	}
	if err := w.refused(ctx, slices.Concat(starved, atHosts)); err != nil {
		w.logger.Warn("look up unconfirmed starts failed; retrying", "error", err)
	}
}

// runOf returns the run of a started claim, without an outcome.
func (w *Worker) runOf(c claims.Claim, s Started) runs.Run {
	return runs.Run{
		ID:           s.RunID,
		EndpointID:   c.Endpoint(),
		ItemID:       c.ItemID(),
		TenantID:     s.TenantID,
		ScheduledFor: c.Slot,
		Attempt:      c.Attempt,
		InfraAttempt: c.InfraAttempt,
		Source:       c.Source,
		ClaimToken:   c.Token,
		WorkerID:     w.id,
		StartedAt:    s.StartedAt,
	}
}

// startsOf returns the starts of claims. A claim with a target that panics is started as well,
// without the data of its request, so that the panic is recorded as the outcome of its run.
func (w *Worker) startsOf(list []*waiting) []Start {
	starts := make([]Start, len(list))
	for i, b := range list {
		fault := w.loops.Contain(loop.Start, func() { starts[i] = startOf(b) })
		if fault != nil {
			b.fault = fault
			starts[i] = Start{
				Claim:     b.claim,
				TenantID:  b.target.TenantID,
				RunID:     b.run,
				Execution: faultyExecution,
			}
		}
	}
	return starts
}

func startOf(b *waiting) Start {
	return Start{
		Claim:     b.claim,
		TenantID:  b.target.TenantID,
		RunID:     b.run,
		Execution: b.target.Spec.MaxExecutionTime,
		Last:      b.target.Template != nil && b.target.Template.UsesLast(),
		Secrets:   b.target.NeedsSecrets(),
	}
}
