package httpapi

import (
	"context"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
	"rubato/internal/httpapi/api"
	"rubato/internal/stats"
)

// Fleet passes orders on to workers, and knows which endpoints they run.
type Fleet interface {
	// Drain orders a worker to drain, or withdraws the order, and returns the worker afterwards.
	Drain(ctx context.Context, by auditlog.Actor, worker [16]byte, drain bool) (stats.Worker, error)
	// Routes returns which workers may run an endpoint with these required and preferred tags.
	Routes(ctx context.Context, endpoint [16]byte, required, preferred []string) (stats.Routes, error)
}

// DrainWorker orders a worker to drain.
func (s *Server) DrainWorker(ctx context.Context, r api.DrainWorkerRequestObject) (api.DrainWorkerResponseObject, error) {
	after, err := s.orderDrain(ctx, r.ID, true)
	if err != nil {
		return nil, err
	}
	return api.DrainWorker200JSONResponse(workerAnswer(after)), nil
}

// ResumeWorker withdraws the order to drain.
func (s *Server) ResumeWorker(ctx context.Context, r api.ResumeWorkerRequestObject) (api.ResumeWorkerResponseObject, error) {
	after, err := s.orderDrain(ctx, r.ID, false)
	if err != nil {
		return nil, err
	}
	return api.ResumeWorker200JSONResponse(workerAnswer(after)), nil
}

// orderDrain passes an order of an operator on to a worker.
func (s *Server) orderDrain(ctx context.Context, worker string, drain bool) (stats.Worker, error) {
	if !principalOf(ctx).Operates() {
		return stats.Worker{}, errs.New(errs.Forbidden, "not_operator", "workers serve every tenant; use an admin key of the default tenant")
	}
	id, err := stats.ParseWorker(worker)
	if err != nil {
		return stats.Worker{}, err
	}
	return s.fleet.Drain(ctx, actorOf(ctx), id, drain)
}
