package dispatch

import (
	"context"
	"fmt"
	"time"

	"rubato/internal/errs"
	"rubato/internal/failpoint"
	"rubato/internal/loop"
	"rubato/internal/runs"
)

const (
	// finishBatch bounds the runs per transaction, at the size of one claim.
	finishBatch = 500
	// finishLinger is how long a result waits for others, so that they share its commit. A killed
	// worker loses the results of that time; their runs end as lost.
	finishLinger = 20 * time.Millisecond
	// finishWriters is the number of batches written concurrently.
	finishWriters = 2
	// finishWait is the timeout of one transaction, after which it is retried.
	finishWait = 10 * time.Second
	// finishRetryMin is the first backoff after a failure. It doubles up to finishRetryMax.
	finishRetryMin = 100 * time.Millisecond
	finishRetryMax = time.Second
)

// finishLoop records results until w.results is closed. The next batch gathers while others are
// written. After the end of ctx it discards results; the sweeper settles their runs as lost.
func (w *Worker) finishLoop(ctx context.Context) {
	writing := newGoroutinePool()
	defer writing.close()
	writers := make(chan struct{}, finishWriters)
	// used returns the buffers of written batches for reuse.
	used := make(chan []result, finishWriters+1)
	for first := range w.results {
		var room []result
		select {
		case room = <-used:
		default:
		}
		batch := w.gather(append(room, first), writers)
		writing.run(func() {
			defer func() { <-writers }()
			// The slots are freed below even after a panic.
			_ = w.loops.Contain(loop.Finish, func() { w.record(ctx, batch) })
			tenants := make([][16]byte, len(batch))
			for i, run := range batch {
				tenants[i] = run.TenantID
			}
			w.free(tenants...)
			clear(batch)
			used <- batch[:0]
		})
	}
}

// gather fills a batch that holds one result, and acquires a writer for it. It adds results that
// arrive within finishLinger, or before a writer is free. It does not linger if the batch holds all
// busy runs, so that a single run is recorded at once.
func (w *Worker) gather(batch []result, writers chan<- struct{}) []result {
	linger := time.NewTimer(finishLinger)
	defer linger.Stop()
	results := w.results       // nil if the batch is full or the channel is closed
	var writer chan<- struct{} // nil while the batch lingers
	for {
		if len(batch) >= min(finishBatch, w.queue.Busy()) {
			writer = writers
		}
		if len(batch) == finishBatch {
			results = nil
		}
		select {
		case run, open := <-results:
			if !open {
				results, writer = nil, writers
				continue
			}
			batch = append(batch, run)
		case <-linger.C:
			writer = writers
		case writer <- struct{}{}:
			return w.fill(batch)
		}
	}
}

// fill adds the results that the channel already buffers.
func (w *Worker) fill(batch []result) []result {
	for len(batch) < finishBatch {
		select {
		case run, open := <-w.results:
			if !open {
				return batch
			}
			batch = append(batch, run)
		default:
			return batch
		}
	}
	return batch
}

// record writes a batch, or as many of its runs as the database accepts.
func (w *Worker) record(ctx context.Context, batch []result) {
	err := w.persist(ctx, batch)
	switch {
	case err == nil:
	case len(batch) > 1:
		// One bad row fails the whole batch, therefore each run is written alone.
		for _, run := range batch {
			w.record(ctx, []result{run})
		}
	default:
		w.quarantine(ctx, batch[0], err)
	}
}

// persist writes a batch. It retries with backoff while the database is unavailable, because a
// received answer must not be lost. It returns an error only if the database is available and
// refuses the batch.
func (w *Worker) persist(ctx context.Context, batch []result) error {
	for wait := finishRetryMin; ; wait = min(wait*2, finishRetryMax) {
		err := w.finish(ctx, batch)
		if err == nil || errs.CodeOf(err) != errs.Unavailable && ctx.Err() == nil {
			// A refusal proves that the database is available.
			w.records.record(nil)
			return err
		}
		if w.records.record(err) {
			w.logger.Warn("recording runs failed; keeping them and trying again", "runs", len(batch), "error", err)
		}
		select {
		case <-ctx.Done():
			w.logger.Error("the worker stops before it could record runs; they will be settled as lost", "runs", len(batch))
			return nil
		case <-time.After(wait):
		}
	}
}

// quarantine records a run that the database refuses, without the answer of its target. It drops
// the basis, so that the finish reads the current row.
func (w *Worker) quarantine(ctx context.Context, run result, cause error) {
	w.logger.Error("a run cannot be recorded; recording it without its answer", "run_id", run.ID.String(), "error", cause)
	run.basis = nil
	run.Outcome = runs.Outcome{
		Status:    run.Outcome.Status,
		Reason:    run.Outcome.Reason,
		MaybeSent: run.Outcome.MaybeSent,
		Error:     "the answer could not be recorded",
	}
	if err := w.persist(ctx, []result{run}); err != nil {
		w.logger.Error("recording a quarantined run failed; it will be settled as lost", "run_id", run.ID.String(), "error", err)
	}
}

// finish writes a batch and applies its result. It returns a panic as an error, so that the runs
// are then written one by one and a bad run affects no other.
func (w *Worker) finish(ctx context.Context, batch []result) (err error) {
	if fault := w.loops.Contain(loop.Finish, func() { err = w.write(ctx, batch) }); fault != nil {
		return fault
	}
	return err
}

func (w *Worker) write(ctx context.Context, batch []result) error {
	limited, cancel := context.WithTimeoutCause(ctx, finishWait, fmt.Errorf("recording runs took longer than %s", finishWait))
	defer cancel()
	failpoint.Hit(failpoint.BeforeFinish)
	done, err := w.cfg.Executions.Finish(limited, w.finishOf(batch))
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.AfterFinish)
	late := make(map[runs.ID]bool, len(done.Late))
	for _, id := range done.Late {
		late[id] = true
	}
	for _, run := range batch {
		if late[run.ID] {
			w.logger.Warn("an answer came after its run was settled; it changes nothing", "run_id", run.ID.String())
			continue
		}
		w.metrics.finished(run.Run)
	}
	w.metrics.late.Add(float64(len(late)))
	for _, s := range done.Skipped {
		w.metrics.skipped(s)
	}
	for _, source := range done.Decided {
		w.metrics.decisions.of(source).Inc()
	}
	if len(done.Kept) > 0 {
		w.enqueue(limited, done.Kept)
		// The drain began during the write and may have emptied the queue already, therefore
		// release again.
		if w.leaving() {
			w.release(limited)
		}
	}
	return nil
}

// result is a finished run with the basis from its start.
type result struct {
	runs.Run
	basis Basis
}

// finishOf returns the finish of a batch. Its Now is at least the latest end of a run, because the
// estimate of the database's time may be behind.
func (w *Worker) finishOf(batch []result) Finish {
	f := Finish{
		Worker:  w.id,
		Keep:    w.keep(),
		LockTTL: w.cfg.Rules.LockTTL,
		Runs:    make([]runs.Run, len(batch)),
		Bases:   make([]Basis, len(batch)),
	}
	now, known := w.clock.now()
	for i, r := range batch {
		f.Runs[i], f.Bases[i] = r.Run, r.basis
		if now.Before(r.FinishedAt) {
			now = r.FinishedAt
		}
	}
	if known {
		f.Now = now
	}
	return f
}

// withoutBasis returns results without a basis, so that the finish reads their rows.
func withoutBasis(list []runs.Run) []result {
	results := make([]result, len(list))
	for i, run := range list {
		results[i].Run = run
	}
	return results
}
