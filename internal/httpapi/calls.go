package httpapi

import (
	"context"
	"fmt"
	"maps"

	"rubato/internal/calls"
	"rubato/internal/endpoints"
	"rubato/internal/httpapi/api"
	"rubato/internal/runs"
)

// SendCall stores a call.
func (s *Server) SendCall(ctx context.Context, r api.SendCallRequestObject) (api.SendCallResponseObject, error) {
	in := inputOf(ctx)
	in.refuseMask()
	request, err := callRequest(in, r.Body)
	if err != nil {
		return nil, err
	}
	if in.bad() {
		return nil, in.refuse(s.calls.Check(actorOf(ctx).TenantID, request))
	}
	c, first, err := s.calls.Send(ctx, actorOf(ctx), request)
	if err != nil {
		return nil, err
	}
	out := callAnswer(c)
	if !first {
		out.Duplicate = new(true)
	}
	return api.SendCall202JSONResponse(out), nil
}

// callRequest returns the call of a body. The fields of the request are read as those of an
// endpoint, and a call that names no method has that of [calls.Defaults].
func callRequest(in *input, body *api.SendCallJSONRequestBody) (r calls.Request, err error) {
	document := maps.Clone(in.value)
	if document["method"] == nil {
		document["method"] = calls.Defaults().Method
	}
	if r.Spec, err = endpoints.ReadSpec(document); err != nil {
		return r, fmt.Errorf("reading a call: %w", err)
	}
	usual := calls.Defaults()
	r.Spec.Name, r.Spec.Planner = usual.Name, usual.Planner
	r.Spec.Conditional, r.Spec.FollowNext = usual.Conditional, usual.FollowNext
	if body == nil {
		return r, nil
	}
	r.Delay, r.Deadline = optionalSpan(body.DelayMs), optionalSpan(body.DeadlineMs)
	set(&r.NotBefore, body.NotBefore)
	r.Callback, r.Key = body.CallbackURL, body.DeduplicationKey
	return r, nil
}

// ListCalls returns a page of calls.
func (s *Server) ListCalls(ctx context.Context, r api.ListCallsRequestObject) (api.ListCallsResponseObject, error) {
	f := calls.Filter{TenantID: principalOf(ctx).TenantID, Limit: limitOf(r.Params.Limit) + 1}
	set(&f.Open, r.Params.Open)
	digest := filterDigest("calls", f.TenantID, f.Open)
	before, err := resume(r.Params.Cursor, digest)
	if err != nil {
		return nil, err
	}
	f.Before = before
	found, err := s.calls.List(ctx, f)
	if err != nil {
		return nil, err
	}
	out := api.CallList{Items: []api.Call{}}
	found, more := page(found, f.Limit)
	for _, c := range found {
		out.Items = append(out.Items, callAnswer(c))
	}
	if more {
		out.NextCursor = new(cursor(found[len(found)-1].ID, digest))
	}
	return api.ListCalls200JSONResponse(out), nil
}

// GetCall returns a call.
func (s *Server) GetCall(ctx context.Context, r api.GetCallRequestObject) (api.GetCallResponseObject, error) {
	id, err := calls.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	c, err := s.calls.Get(ctx, actorOf(ctx), id)
	if err != nil {
		return nil, err
	}
	return api.GetCall200JSONResponse(callAnswer(c)), nil
}

// CancelCall ends a call that waits.
func (s *Server) CancelCall(ctx context.Context, r api.CancelCallRequestObject) (api.CancelCallResponseObject, error) {
	id, err := calls.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	if _, err := s.calls.Get(ctx, actorOf(ctx), id); err != nil {
		return nil, err
	}
	if err := s.calls.Cancel(ctx, actorOf(ctx), id); err != nil {
		return nil, err
	}
	c, err := s.calls.Get(ctx, actorOf(ctx), id)
	if err != nil {
		return nil, err
	}
	return api.CancelCall200JSONResponse(callAnswer(c)), nil
}

func callAnswer(c *calls.Call) api.Call {
	out := api.Call{
		ID:        c.ID.String(),
		State:     api.CallState(c.State),
		URL:       c.Spec.URL,
		Method:    api.Method(c.Spec.Method),
		CreatedAt: c.CreatedAt,
		CreatedBy: c.Author,
		NotBefore: c.NotBefore,
	}
	if !c.Deadline.IsZero() {
		out.DeadlineAt = &c.Deadline
	}
	if c.Callback != "" {
		out.CallbackURL = &c.Callback
	}
	if c.RunID != (runs.ID{}) {
		out.RunID = new(c.RunID.String())
	}
	return out
}
