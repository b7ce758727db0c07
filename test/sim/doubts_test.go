package sim

import (
	"context"
	"slices"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/runs"
)

// unheard keeps claims with a start that got no answer, to be started again.
func (w *world) unheard(by *worker, list []claims.Claim) {
	by.queue = append(by.queue, list...)
	by.doubts = append(by.doubts, list...)
}

// starts returns the requests to start claims.
func (p *worker) starts(list []claims.Claim) []dispatch.Start {
	starts := make([]dispatch.Start, len(list))
	for i, c := range list {
		starts[i] = dispatch.Start{
			Claim: c, RunID: runs.NewID(c.Slot, c.EndpointID, c.Attempt, c.InfraAttempt), Execution: p.targets[c.EndpointID].Spec.MaxExecutionTime,
		}
	}
	return starts
}

func toldOf(told []dispatch.Started, id runs.ID) bool {
	return slices.ContainsFunc(told, func(s dispatch.Started) bool { return s.RunID == id })
}

// refused gives back claims that did not start. It ends the runs of claims that did start without
// an answer, because nothing was sent.
func (w *world) refused(by *worker, list []dispatch.Start) {
	if len(list) == 0 {
		return
	}
	back := make([]claims.Claim, len(list))
	for i, s := range list {
		back[i] = s.Claim
	}
	w.do(w.releaseCall(by, back))
	list = slices.DeleteFunc(list, func(s dispatch.Start) bool { return !slices.Contains(by.doubts, s.Claim) })
	by.doubts = slices.DeleteFunc(by.doubts, func(c claims.Claim) bool { return slices.Contains(back, c) })
	if len(list) > 0 {
		w.do(w.ownCall(by, list))
	}
}

func (w *world) ownCall(by *worker, list []dispatch.Start) *call {
	var found []dispatch.Started
	return &call{
		name: "question of " + short(by.id) + " about its starts",
		run: func(ctx context.Context, s *stores) (err error) {
			found, err = s.executions.LiveStarts(ctx, by.id, list)
			return err
		},
		judge: func(c *changes) { w.nothing("a question about starts", c) },
		answer: func() {
			for _, s := range found {
				asked := startOf(list, s.RunID)
				w.end(by, &execution{claim: asked.Claim, started: s, asked: w.elapsed}, runs.Outcome{Status: runs.Skipped, Reason: runs.StartExpired})
				w.reach("doubt ended")
			}
		},
	}
}
