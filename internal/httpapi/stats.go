package httpapi

import (
	"context"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/httpapi/api"
	"rubato/internal/stats"
)

// GetEndpointHealth returns how an endpoint did.
func (s *Server) GetEndpointHealth(ctx context.Context, r api.GetEndpointHealthRequestObject) (api.GetEndpointHealthResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	if _, _, err := s.endpoints.Get(ctx, actorOf(ctx), id); err != nil {
		return nil, err
	}
	list, err := s.stats.Health(ctx, principalOf(ctx).TenantID, id)
	if err != nil {
		return nil, err
	}
	out := api.EndpointHealth{Items: []api.HealthWindow{}}
	for _, h := range list {
		window := api.HealthWindow{
			WindowMs:  h.Window.Milliseconds(),
			Runs:      h.Runs,
			Succeeded: h.Succeeded,
			Failed:    h.Failed,
			Skipped:   h.Skipped,
			LatencyMs: spreadAnswer(h.Latency),
		}
		if judged := h.Succeeded + h.Failed; judged > 0 {
			window.SuccessRate = new(float64(h.Succeeded) / float64(judged))
		}
		out.Items = append(out.Items, window)
	}
	return api.GetEndpointHealth200JSONResponse(out), nil
}

// GetStats returns the due endpoints, the running runs, and statistics of the newest runs.
func (s *Server) GetStats(ctx context.Context, _ api.GetStatsRequestObject) (api.GetStatsResponseObject, error) {
	o, err := s.stats.Overview(ctx, principalOf(ctx).TenantID)
	if err != nil {
		return nil, err
	}
	return api.GetStats200JSONResponse{
		At:          o.At.UTC(),
		Due:         o.Due,
		OldestDueMs: o.OldestDue.Milliseconds(),
		Running:     o.Running,
		Recent: api.RecentRuns{
			Runs:       o.Runs,
			Since:      shown(o.Since),
			Statuses:   o.Statuses,
			StartLagMs: spreadAnswer(o.StartLag),
			LatencyMs:  spreadAnswer(o.Latency),
		},
	}, nil
}

// ListWorkers returns the workers.
func (s *Server) ListWorkers(ctx context.Context, _ api.ListWorkersRequestObject) (api.ListWorkersResponseObject, error) {
	list, at, err := s.stats.Workers(ctx)
	if err != nil {
		return nil, err
	}
	out := api.WorkerList{At: at.UTC(), Items: []api.Worker{}}
	for _, w := range list {
		out.Items = append(out.Items, workerAnswer(w))
	}
	return api.ListWorkers200JSONResponse(out), nil
}

func workerAnswer(w stats.Worker) api.Worker {
	return api.Worker{
		ID:           stats.WorkerName(w.ID),
		Name:         w.Name,
		Version:      w.Version,
		State:        api.WorkerState(w.State),
		Slots:        int32(w.Slots),
		Busy:         int32(w.Busy),
		StartedAt:    w.StartedAt.UTC(),
		HeartbeatAt:  w.HeartbeatAt.UTC().Truncate(time.Millisecond),
		Tags:         tagList(w.Tags),
		Capabilities: tagList(w.Capabilities),
		Exclusive:    w.Exclusive,
	}
}

func spreadAnswer(s stats.Percentiles) api.Spread {
	return api.Spread{
		P50: millis(s.P50),
		P95: millis(s.P95),
		P99: millis(s.P99),
	}
}
