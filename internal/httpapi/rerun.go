package httpapi

import (
	"context"
	"fmt"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
	"rubato/internal/httpapi/api"
	"rubato/internal/runs"
)

// RerunRun queues a one-off run that repeats a finished one.
func (s *Server) RerunRun(ctx context.Context, r api.RerunRunRequestObject) (api.RerunRunResponseObject, error) {
	id, err := runs.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	run, err := s.runs.Get(ctx, principalOf(ctx).TenantID, id)
	if err != nil {
		return nil, err
	}
	again := rerunOf(run, r.Body)
	if in := inputOf(ctx); in.bad() {
		return nil, in.refuse(again.Check())
	}
	if !run.Outcome.Status.Terminal() {
		return nil, errs.New(errs.Conflict, "run_not_finished", fmt.Sprintf(
			"run %s is %s; it can be repeated when it has finished, or run its endpoint now: POST /v1/endpoints/{id}/run", id, run.Outcome.Status))
	}
	if run.Source == string(governor.SourceCall) {
		return s.rerunCall(ctx, again)
	}
	queued, err := s.endpoints.Rerun(ctx, actorOf(ctx), again)
	if err != nil {
		return nil, err
	}
	return api.RerunRun202JSONResponse(plannedRun(runs.FirstAttempt(queued.Slot, run.EndpointID), queued)), nil
}

// rerunCall sends the call of a finished run again.
func (s *Server) rerunCall(ctx context.Context, again endpoints.Rerun) (api.RerunRunResponseObject, error) {
	c, first, err := s.calls.Rerun(ctx, actorOf(ctx), again)
	if err != nil {
		return nil, err
	}
	out := plannedRun(runs.FirstAttempt(c.NotBefore, endpoints.ID(c.ID)), endpoints.Queued{
		Slot:     c.NotBefore,
		Waiting:  1,
		Repeated: !first,
	})
	out.CallID = new(c.ID.String())
	return api.RerunRun202JSONResponse(out), nil
}

// rerunOf returns the rerun of a run that a body asks for; a nil body asks for the defaults.
func rerunOf(run runs.Run, body *api.RerunRequest) endpoints.Rerun {
	again := endpoints.Rerun{Past: pastOf(run)}
	if body == nil {
		return again
	}
	again.AsNow = body.As != nil && *body.As == api.RerunRequestAsNow
	set(&again.SameKey, body.SameIdempotencyKey)
	set(&again.Force, body.Force)
	again.Deadline, again.Key = optionalSpan(body.DeadlineMs), body.IdempotencyKey
	if body.Priority != nil {
		again.Priority = endpoints.PriorityName(*body.Priority)
	}
	return again
}

// pastOf returns the part of a run that its request follows from. An unclaimed run has the
// configuration that was in force at its end. Skipped due times have the one in force at the last
// of them; a waiting run has the current one.
func pastOf(run runs.Run) endpoints.RecordedRun {
	past := endpoints.RecordedRun{
		RunID:    run.ID,
		Endpoint: run.EndpointID,
		Slot:     run.ScheduledFor,
		At:       run.ClaimedAt,
		Key:      runs.FirstAttempt(run.ScheduledFor, run.EndpointID).String(),
	}
	switch {
	case run.Unclaimed() && run.Skipped == nil:
		past.At = run.FinishedAt
	case past.At.IsZero():
		past.At = run.ScheduledFor
	}
	return past
}

// plannedRun returns a queued one-off run with its first attempt as users see it.
func plannedRun(first runs.ID, queued endpoints.Queued) api.PlannedRun {
	out := api.PlannedRun{RunID: first.String(), ScheduledFor: queued.Slot.UTC()}
	if queued.Repeated {
		out.Repeated = new(true)
	} else {
		out.Waiting = new(queued.Waiting)
	}
	return out
}
