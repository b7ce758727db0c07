package dispatch

import (
	"context"
	"fmt"
	"slices"

	"rubato/internal/runs"
)

// refused handles claims whose start the database refused. Most were revoked and need nothing more.
// A claim that came too early, because the database's clock was set back, is released. A claim is
// doubtful, and may have a live run, if an earlier start of it got no answer. This worker ends such
// a run, because no other process knows that its request was never sent. On an error the doubtful
// claims are queued again.
func (w *Worker) refused(ctx context.Context, list []*waiting) error {
	if len(list) == 0 {
		return nil
	}
	// Raises the tokens of claims that are not live, so that a delayed start of them is fenced off.
	w.giveBack(ctx, claimsOf(list))
	ended, err := w.unconfirmedRuns(ctx, list)
	if err != nil {
		w.queue.Put(doubtful(list))
		return err
	}
	for _, run := range ended {
		w.queue.Occupy(run.TenantID) // The finisher frees a slot for each record that it writes.
		w.results <- result{Run: run}
	}
	return nil
}

// doubtful returns the claims in the list that are marked doubtful.
func doubtful(list []*waiting) []*waiting {
	return slices.DeleteFunc(slices.Clone(list), func(b *waiting) bool { return !b.doubtful })
}

// unconfirmedRuns returns the runs of doubtful claims that are live, with the outcome that ends
// them. No request was sent for them, because the answer to their start was lost.
func (w *Worker) unconfirmedRuns(ctx context.Context, list []*waiting) ([]runs.Run, error) {
	list = doubtful(list)
	if len(list) == 0 {
		return nil, nil
	}
	started, err := w.cfg.Executions.LiveStarts(ctx, w.id, w.startsOf(list))
	if err != nil {
		return nil, fmt.Errorf("look up %d unconfirmed starts: %w", len(list), err)
	}
	valid, ended := newest(list), make([]runs.Run, 0, len(started))
	for _, s := range started {
		run := w.runOf(valid[s.RunID].claim, s)
		run.Outcome = runs.Outcome{
			Status: runs.Skipped,
			Reason: runs.StartExpired,
			Error:  "nothing was sent: the database's answer to the start was lost",
		}
		if valid[s.RunID].fault != nil {
			run.Outcome = faulty(false)
		}
		run.FinishedAt = s.StartedAt
		if now, known := w.clock.now(); known && now.After(s.StartedAt) {
			run.FinishedAt = now
		}
		ended = append(ended, run)
	}
	return ended, nil
}
