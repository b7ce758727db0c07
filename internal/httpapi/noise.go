package httpapi

import (
	"context"

	"rubato/internal/endpoints"
	"rubato/internal/httpapi/api"
)

// ListNoise returns the noise that was found in the answers of an endpoint.
func (s *Server) ListNoise(ctx context.Context, r api.ListNoiseRequestObject) (api.ListNoiseResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	found, searched, err := s.endpoints.Noise(ctx, actorOf(ctx), id)
	if err != nil {
		return nil, err
	}
	out := api.ListNoise200JSONResponse{Items: []api.Noise{}, Searched: searched}
	for _, f := range found {
		out.Items = append(out.Items, noiseAnswer(f))
	}
	return out, nil
}

// JudgeNoise rejects a finding of noise, or takes the rejection back.
func (s *Server) JudgeNoise(ctx context.Context, r api.JudgeNoiseRequestObject) (api.JudgeNoiseResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	verdict := endpoints.NoiseVerdict{Path: r.Body.Path, State: endpoints.NoiseState(r.Body.State)}
	if in := inputOf(ctx); in.bad() {
		return nil, in.refuse(verdict.Check())
	}
	found, err := s.endpoints.JudgeNoise(ctx, actorOf(ctx), id, verdict)
	if err != nil {
		return nil, err
	}
	return api.JudgeNoise200JSONResponse(noiseAnswer(found)), nil
}

func noiseAnswer(f endpoints.Finding) api.Noise {
	out := api.Noise{
		Path:    f.Path,
		State:   api.NoiseState(f.State()),
		Pairs:   int32(f.Pairs),
		GapMs:   f.Gap.Milliseconds(),
		FoundAt: f.FoundAt.UTC(),
	}
	if !f.RejectedAt.IsZero() {
		out.RejectedAt, out.RejectedBy = new(f.RejectedAt.UTC()), &f.RejectedBy
	}
	return out
}
