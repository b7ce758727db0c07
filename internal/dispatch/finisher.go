package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"rubato/internal/errs"
	"rubato/internal/failpoint"
	"rubato/internal/loop"
	"rubato/internal/runs"
)

const (
	finishBatch    = 500                    // as many as one claim brings
	finishLinger   = 2 * time.Millisecond   // how long a result waits for another one to share its commit
	finishLingers  = 5                      // how often a batch does so while others keep coming
	finishWriters  = 2                      // how many batches are written at once
	finishWait     = 10 * time.Second       // how long one record may take before it is tried again
	finishRetryMin = 100 * time.Millisecond // doubles up to finishRetryMax
	finishRetryMax = time.Second
)

// finishLoop records results until there are no more or ctx ends. While some batches are written, the next one gathers.
func (w *Worker) finishLoop(ctx context.Context) {
	var writing sync.WaitGroup
	defer writing.Wait()
	writers := make(chan struct{}, finishWriters)
	used := make(chan []result, finishWriters+1) // Room of batches that are written, for the next ones.
	for first := range w.results {
		var room []result
		select {
		case room = <-used:
		default:
		}
		batch := w.gather(append(room, first), writers)
		writing.Go(func() {
			defer func() { <-writers }()
			_ = w.loops.Contain(loop.Finish, func() { w.record(ctx, batch) }) // Its slots come free in any case.
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

// gather takes a writer, and adds to a batch of one result those that come with it, shortly after it, or before a writer is free. A run that
// is alone does not wait for others.
func (w *Worker) gather(batch []result, writers chan<- struct{}) []result {
	linger := time.NewTimer(finishLinger)
	defer linger.Stop()
	results := w.results       // nil: the batch is full, or no more come
	var writer chan<- struct{} // nil: it is too early to ask for one
	lingered, had := 1, len(batch)
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
			if lingered == finishLingers || len(batch) == had {
				writer = writers
				continue
			}
			lingered, had = lingered+1, len(batch)
			linger.Reset(finishLinger)
		case writer <- struct{}{}:
			return w.fill(batch)
		}
	}
}

// fill adds to a batch the results that are there.
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

// record writes a batch, or what of it the database takes.
func (w *Worker) record(ctx context.Context, batch []result) {
	err := w.persist(ctx, batch)
	switch {
	case err == nil:
	case len(batch) > 1: // One row poisons the batch: find it.
		for _, run := range batch {
			w.record(ctx, []result{run})
		}
	default:
		w.quarantine(ctx, batch[0], err)
	}
}

// persist writes a batch, for as long as it takes: an answer that was received is not thrown away because the database is away. The error
// is that of a database which is there and refuses it.
func (w *Worker) persist(ctx context.Context, batch []result) error {
	for wait := finishRetryMin; ; wait = min(wait*2, finishRetryMax) {
		err := w.finish(ctx, batch)
		if err == nil || errs.CodeOf(err) != errs.Unavailable && ctx.Err() == nil {
			w.records.note(nil) // A record that is refused is answered: its row is at fault.
			return err
		}
		if w.records.note(err) {
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

// quarantine records a run that cannot be recorded as it is: without what the target sent, and by what
// its row says now instead of what its start read.
func (w *Worker) quarantine(ctx context.Context, run result, cause error) {
	w.logger.Error("a run cannot be recorded; recording it without its answer", "run_id", run.ID.String(), "error", cause)
	run.basis = nil
	run.Outcome = runs.Outcome{
		Status: run.Outcome.Status, Reason: run.Outcome.Reason, MaybeSent: run.Outcome.MaybeSent,
		Error: "the answer could not be recorded",
	}
	if err := w.persist(ctx, []result{run}); err != nil {
		w.logger.Error("recording a quarantined run failed; it will be settled as lost", "run_id", run.ID.String(), "error", err)
	}
}

// finish writes a batch and takes in what it led to. A panic is returned as an error: the batch is
// written row by row then, so that a poisoned one hurts no other.
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
		if w.draining.Load() { // The drain began while this was written, and may have given back what waited already.
			w.release(limited)
		}
	}
	return nil
}

// result is a run that has ended, and what its start read for its finish.
type result struct {
	runs.Run
	basis Basis
}

// finishOf returns the finish of a batch. A run whose end lies after the worker's view of the database's time moves that on.
func (w *Worker) finishOf(batch []result) Finish {
	f := Finish{
		Worker: w.id, Keep: w.keep(), LockTTL: w.cfg.Rules.LockTTL,
		Runs: make([]runs.Run, len(batch)), Bases: make([]Basis, len(batch)),
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

// withoutBasis returns the results of runs whose rows have to be read for their finish.
func withoutBasis(list []runs.Run) []result {
	results := make([]result, len(list))
	for i, run := range list {
		results[i].Run = run
	}
	return results
}
