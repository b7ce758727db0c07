package httpapi

import (
	"context"

	"rubato/internal/endpoints"
	"rubato/internal/httpapi/api"
	"rubato/internal/runs"
)

// CancelRun asks for the end of a live run.
func (s *Server) CancelRun(ctx context.Context, r api.CancelRunRequestObject) (api.CancelRunResponseObject, error) {
	id, err := runs.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	cancel := runs.Cancel{By: actorOf(ctx), RunID: id}
	set(&cancel.Reason, r.Body.Reason)
	if err := inputOf(ctx).refuse(endpoints.CheckReason(cancel.Reason)); err != nil {
		if _, missing := s.runs.Get(ctx, cancel.By.TenantID, id); missing != nil { // A missing run is reported before an invalid body.
			return nil, missing
		}
		return nil, err
	}
	run, err := s.runs.Cancel(ctx, cancel)
	if err != nil {
		return nil, err
	}
	answer, err := runAnswer(run)
	if err != nil {
		return nil, err
	}
	return api.CancelRun202JSONResponse(answer), nil
}

// ListRunEvents returns the story of a run.
func (s *Server) ListRunEvents(ctx context.Context, r api.ListRunEventsRequestObject) (api.ListRunEventsResponseObject, error) {
	id, err := runs.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	story, err := s.runs.Events(ctx, principalOf(ctx).TenantID, id)
	if err != nil {
		return nil, err
	}
	out := api.RunEventList{Items: make([]api.RunEvent, len(story))}
	for i, e := range story {
		if out.Items[i], err = eventAnswer(e); err != nil {
			return nil, err
		}
	}
	return api.ListRunEvents200JSONResponse(out), nil
}

// eventAnswer returns an event as users see it.
func eventAnswer(e runs.Event) (api.RunEvent, error) {
	out := api.RunEvent{
		At:         e.At.UTC(),
		Kind:       api.RunEventKind(e.Kind),
		Author:     optional(e.Author),
		Why:        optional(e.Why),
		WorkerID:   workerName(e.WorkerID),
		ReasonCode: optional(string(e.Reason)),
		Error:      optional(e.Error),
	}
	if e.ClaimToken != 0 {
		out.ClaimToken = &e.ClaimToken
	}
	if e.Status != "" {
		out.Status = new(api.RunStatus(e.Status))
	}
	if e.StatusCode != 0 {
		out.StatusCode = new(int32(e.StatusCode))
	}
	decision, err := runDecision(e.Decision)
	out.Decision = decision
	return out, err
}
