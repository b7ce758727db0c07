package dispatch

import (
	"context"
	"fmt"
	"slices"

	"rubato/internal/claims"
	"rubato/internal/runs"
)

// refused sees to the claims of starts that did not come back. Most were revoked, and there is nothing to do. One that came too early,
// because the database's clock was set back, is given back. And one whose first start was answered by nothing may be live already: only
// this worker knows that nothing was sent for it, so it ends the run.
func (w *Worker) refused(ctx context.Context, list []*waiting) error {
	if len(list) == 0 {
		return nil
	}
	w.giveBack(ctx, claimsOf(list)) // Raises the tokens of those that are not live: no start of them can arrive any more.
	unsent, err := w.unsent(ctx, list)
	if err != nil {
		w.queue.put(doubtful(list))
		return err
	}
	for _, run := range unsent {
		w.busy.Add(1) // Its record takes the place of its request.
		w.queue.occupied(run.TenantID)
		w.results <- run
	}
	return nil
}

func doubtful(list []*waiting) []*waiting {
	return slices.DeleteFunc(slices.Clone(list), func(b *waiting) bool { return !b.doubtful })
}

// unsent returns the runs that did start although nobody heard of it, ended: nothing was sent for them.
func (w *Worker) unsent(ctx context.Context, list []*waiting) ([]runs.Run, error) {
	list = doubtful(list)
	if len(list) == 0 {
		return nil, nil
	}
	started, err := w.cfg.Executions.Own(ctx, w.id, startsOf(list))
	if err != nil {
		return nil, fmt.Errorf("asking what became of %d starts: %w", len(list), err)
	}
	valid, ended := newest(list), make([]runs.Run, 0, len(started))
	for _, s := range started {
		run := w.runOf(valid[s.RunID].claim, s)
		run.Outcome = runs.Outcome{
			Status: runs.Skipped, Reason: runs.StartExpired, Error: "nothing was sent: the answer to the start was lost on its way",
		}
		run.FinishedAt = s.StartedAt
		if now, known := w.clock.now(); known && now.After(s.StartedAt) {
			run.FinishedAt = now
		}
		ended = append(ended, run)
	}
	return ended, nil
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
