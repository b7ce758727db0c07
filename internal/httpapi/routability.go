package httpapi

import (
	"context"

	"rubato/internal/endpoints"
	"rubato/internal/httpapi/api"
	"rubato/internal/stats"
)

// GetEndpointRoutability explains which workers run an endpoint.
func (s *Server) GetEndpointRoutability(ctx context.Context, r api.GetEndpointRoutabilityRequestObject) (api.GetEndpointRoutabilityResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	e, _, err := s.endpoints.Get(ctx, actorOf(ctx), id)
	if err != nil {
		return nil, err
	}
	routes, err := s.fleet.Routes(ctx, id, e.Spec.RequiredTags, e.Spec.PreferredTags)
	if err != nil {
		return nil, err
	}
	return api.GetEndpointRoutability200JSONResponse(routabilityAnswer(e.Spec, routes)), nil
}

func routabilityAnswer(spec endpoints.Spec, routes stats.Routes) api.Routability {
	out := api.Routability{
		At:            routes.At.UTC(),
		Routable:      routes.Routable(),
		Unroutable:    routes.Unroutable(),
		Summary:       routes.Sentence(spec.RequiredTags),
		RequiredTags:  tagList(spec.RequiredTags),
		PreferredTags: tagList(spec.PreferredTags),
		MissingTags:   tagList(routes.Missing(spec.RequiredTags)),
		Workers:       make([]api.Route, len(routes.Workers)),
	}
	if !routes.UnservedSince.IsZero() {
		out.UnservedSince = new(routes.UnservedSince.UTC())
	}
	for i, w := range routes.Workers {
		out.Workers[i] = api.Route{
			ID:           stats.WorkerName(w.ID),
			Name:         w.Name,
			State:        api.WorkerState(w.State),
			Tags:         tagList(w.Tags),
			Capabilities: tagList(w.Capabilities),
			Exclusive:    w.Exclusive,
			Runs:         w.Serves && w.State == stats.Active,
			MissingTags:  tagList(w.Missing),
			Reason:       w.Why(),
		}
	}
	return out
}

// tagList returns an empty list in place of nil.
func tagList(list []string) []string { return append([]string{}, list...) }
