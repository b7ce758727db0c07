package httpapi

import (
	"context"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/httpapi/api"
)

// PutIntervalHint proposes another interval for an endpoint.
func (s *Server) PutIntervalHint(ctx context.Context, r api.PutIntervalHintRequestObject) (api.PutIntervalHintResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	b := r.Body
	hint := newHint(b.TTLMs, b.ExpiresAt, b.Reason)
	hint.Interval = endpoints.Milliseconds(b.IntervalMs)
	if in := inputOf(ctx); in.bad() {
		return nil, s.refuseAt(ctx, id, in, hint.CheckInterval)
	}
	e, warnings, err := s.endpoints.SetIntervalHint(ctx, actorOf(ctx), id, hint)
	if err != nil {
		return nil, err
	}
	return api.PutIntervalHint200JSONResponse{EndpointJSONResponse: changed(e, warnings)}, nil
}

// PutOneShotHint proposes one run of an endpoint at an instant.
func (s *Server) PutOneShotHint(ctx context.Context, r api.PutOneShotHintRequestObject) (api.PutOneShotHintResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	b := r.Body
	hint := newHint(b.TTLMs, b.ExpiresAt, b.Reason)
	hint.At, hint.In = given(b.At), optionalSpan(b.InMs)
	if in := inputOf(ctx); in.bad() {
		return nil, s.refuseAt(ctx, id, in, hint.CheckOneShot)
	}
	e, warnings, err := s.endpoints.SetOneShotHint(ctx, actorOf(ctx), id, hint)
	if err != nil {
		return nil, err
	}
	return api.PutOneShotHint200JSONResponse{EndpointJSONResponse: changed(e, warnings)}, nil
}

// refuseAt names every bad field of a request that cannot be read as a whole, and of which the rest
// is judged by the database's time.
func (s *Server) refuseAt(ctx context.Context, id endpoints.ID, in *input, check func(time.Time) error) error {
	_, now, err := s.endpoints.Get(ctx, actorOf(ctx), id)
	if err != nil {
		return err
	}
	return in.refuse(check(now))
}

// newHint returns what both kinds of hints have in common.
func newHint(ttl *int64, expires *time.Time, reason *string) endpoints.HintRequest {
	hint := endpoints.HintRequest{TTL: optionalSpan(ttl), ExpiresAt: given(expires)}
	set(&hint.Reason, reason)
	return hint
}

func optionalSpan(ms *int64) *time.Duration {
	if ms == nil {
		return nil
	}
	return new(endpoints.Milliseconds(*ms))
}
