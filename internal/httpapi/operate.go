package httpapi

import (
	"context"

	"rubato/internal/endpoints"
	"rubato/internal/httpapi/api"
	"rubato/internal/runs"
)

// PauseEndpoint pauses an endpoint.
func (s *Server) PauseEndpoint(ctx context.Context, r api.PauseEndpointRequestObject) (api.PauseEndpointResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	pause := endpoints.PauseRequest{Until: given(r.Body.Until), For: optionalSpan(r.Body.ForMs)}
	set(&pause.Reason, r.Body.Reason)
	if in := inputOf(ctx); in.bad() {
		return nil, s.refuseAt(ctx, id, in, pause.Check)
	}
	e, err := s.endpoints.Pause(ctx, actorOf(ctx), id, pause)
	if err != nil {
		return nil, err
	}
	return api.PauseEndpoint200JSONResponse{EndpointJSONResponse: changed(e, nil)}, nil
}

// ResumeEndpoint ends a pause.
func (s *Server) ResumeEndpoint(ctx context.Context, r api.ResumeEndpointRequestObject) (api.ResumeEndpointResponseObject, error) {
	e, err := s.simply(ctx, r.ID, s.endpoints.Resume)
	if err != nil {
		return nil, err
	}
	return api.ResumeEndpoint200JSONResponse{EndpointJSONResponse: changed(e, nil)}, nil
}

// ResetFailures sets the failure count of an endpoint to zero.
func (s *Server) ResetFailures(ctx context.Context, r api.ResetFailuresRequestObject) (api.ResetFailuresResponseObject, error) {
	e, err := s.simply(ctx, r.ID, s.endpoints.ResetFailures)
	if err != nil {
		return nil, err
	}
	return api.ResetFailures200JSONResponse{EndpointJSONResponse: changed(e, nil)}, nil
}

// ClearHints forgets the hints of an endpoint.
func (s *Server) ClearHints(ctx context.Context, r api.ClearHintsRequestObject) (api.ClearHintsResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	e, warnings, err := s.endpoints.ClearHints(ctx, actorOf(ctx), id)
	if err != nil {
		return nil, err
	}
	return api.ClearHints200JSONResponse{EndpointJSONResponse: changed(e, warnings)}, nil
}

// simply calls an operation that needs nothing but the endpoint's id.
func (s *Server) simply(
	ctx context.Context, text string, operate func(context.Context, endpoints.Actor, endpoints.ID) (*endpoints.Endpoint, error),
) (*endpoints.Endpoint, error) {
	id, err := endpoints.ParseID(text)
	if err != nil {
		return nil, err
	}
	return operate(ctx, actorOf(ctx), id)
}

// RunEndpoint queues a one-off run.
func (s *Server) RunEndpoint(ctx context.Context, r api.RunEndpointRequestObject) (api.RunEndpointResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	request := oneOffRequest(r.Body)
	if in := inputOf(ctx); in.bad() {
		return nil, in.refuse(request.Check())
	}
	queued, err := s.endpoints.RunNow(ctx, actorOf(ctx), id, request)
	if err != nil {
		return nil, err
	}
	return api.RunEndpoint202JSONResponse(plannedRun(runs.FirstAttempt(queued.Slot, id), queued)), nil
}

// oneOffRequest returns the one-off run of a body; a nil body is a run without overrides.
func oneOffRequest(body *api.OneOffRun) (r endpoints.OneOffRequest) {
	if body == nil {
		return r
	}
	r.Override.Body = body.Body
	set(&r.Override.Headers, body.Headers)
	set(&r.Override.Query, body.Query)
	r.Deadline = optionalSpan(body.DeadlineMs)
	r.Key = body.IdempotencyKey
	set(&r.Force, body.Force)
	if body.Priority != nil {
		r.Priority = endpoints.PriorityName(*body.Priority)
	}
	return r
}
