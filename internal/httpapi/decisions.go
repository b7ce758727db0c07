package httpapi

import (
	"context"

	"rubato/internal/endpoints"
	"rubato/internal/httpapi/api"
)

const defaultPreview = 10

// PreviewEndpoint returns the next due times of an endpoint.
func (s *Server) PreviewEndpoint(ctx context.Context, r api.PreviewEndpointRequestObject) (api.PreviewEndpointResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	n := int32(defaultPreview)
	set(&n, r.Params.N)
	planned, err := s.endpoints.Preview(ctx, actorOf(ctx), id, int(n))
	if err != nil {
		return nil, err
	}
	out := api.Preview{Items: []api.PlannedTime{}}
	for _, p := range planned {
		out.Items = append(out.Items, api.PlannedTime{
			At:     p.At.UTC(),
			Source: api.Source(p.Source),
			Note:   optional(p.Note),
		})
	}
	return api.PreviewEndpoint200JSONResponse(out), nil
}

// ExplainEndpoint returns the decision in force.
func (s *Server) ExplainEndpoint(ctx context.Context, r api.ExplainEndpointRequestObject) (api.ExplainEndpointResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	recorded, err := s.endpoints.Explain(ctx, actorOf(ctx), id)
	if err != nil {
		return nil, err
	}
	d := decisionAnswer(recorded.Due.At, recorded.Due.Source, recorded.Decision.Steps)
	return api.ExplainEndpoint200JSONResponse{
		NextRunAt: d.NextRunAt,
		Source:    d.Source,
		Steps:     d.Steps,
		DecidedAt: recorded.At.UTC(),
		Cause:     string(recorded.Cause),
		Author:    optional(recorded.Author),
		Version:   recorded.Version,
	}, nil
}
