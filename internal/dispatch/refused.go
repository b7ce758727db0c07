package dispatch

import (
	"context"
	"fmt"
	"slices"

	"rubato/internal/runs"
)

// refused deals with claims whose start the database did not confirm. Most were revoked, and nothing is left to do. One that came too early,
// because the database's clock was set back, is given back. One whose earlier start got no answer may be live: only this worker knows that
// no request was sent for it, so it ends the run.
func (w *Worker) refused(ctx context.Context, list []*waiting) error {
	if len(list) == 0 {
		return nil
	}
	w.giveBack(ctx, claimsOf(list)) // Raises the tokens of those that are not live: no start of them can arrive any more.
	ended, err := w.startedUnheard(ctx, list)
	if err != nil {
		w.queue.Put(doubtful(list))
		return err
	}
	for _, run := range ended {
		w.queue.Occupy(run.TenantID) // Its record takes the place of its request.
		w.results <- result{Run: run}
	}
	return nil
}

func doubtful(list []*waiting) []*waiting {
	return slices.DeleteFunc(slices.Clone(list), func(b *waiting) bool { return !b.doubtful })
}

// startedUnheard returns the runs that did start although nobody heard of it, ended: nothing was sent for them.
func (w *Worker) startedUnheard(ctx context.Context, list []*waiting) ([]runs.Run, error) {
	list = doubtful(list)
	if len(list) == 0 {
		return nil, nil
	}
	started, err := w.cfg.Executions.Own(ctx, w.id, w.startsOf(list))
	if err != nil {
		return nil, fmt.Errorf("asking what became of %d starts: %w", len(list), err)
	}
	valid, ended := newest(list), make([]runs.Run, 0, len(started))
	for _, s := range started {
		run := w.runOf(valid[s.RunID].claim, s)
		run.Outcome = runs.Outcome{
			Status: runs.Skipped, Reason: runs.StartExpired, Error: "nothing was sent: the answer to the start was lost on its way",
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
