package dispatch_test

import (
	"context"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/dispatch/request"
	"rubato/internal/errs"
)

var errAway = errs.New(errs.Unavailable, "", "the database is away")

// faultyExecutions is the real store with its steps open to faults; nil hooks let through.
type faultyExecutions struct {
	dispatch.Executions
	read    func() error // before targets are read
	reads   func([]claims.Claim)
	starts  func(dispatch.Starting)
	targets func(map[[16]byte]*request.Target)
	own     func(next func() ([]dispatch.Started, error)) ([]dispatch.Started, error)
	confirm func(context.Context) (bool, error)
	detach  func(next func() ([16]byte, bool, error)) ([16]byte, bool, error)
	start   func(next func() ([]dispatch.Started, error)) ([]dispatch.Started, error)
	cancels func(next func() ([]dispatch.Cancel, error)) ([]dispatch.Cancel, error)
	finish  func(f dispatch.Finish, next func(dispatch.Finish) (dispatch.Finished, error)) (dispatch.Finished, error)
}

func (h *faultyExecutions) Targets(ctx context.Context, list []claims.Claim) (map[[16]byte]*request.Target, error) {
	if h.read != nil {
		if err := h.read(); err != nil {
			return nil, err
		}
	}
	if h.reads != nil {
		h.reads(list)
	}
	found, err := h.Executions.Targets(ctx, list)
	if h.targets != nil {
		h.targets(found)
	}
	return found, err
}

func (h *faultyExecutions) Start(ctx context.Context, s dispatch.Starting) ([]dispatch.Started, error) {
	next := func() ([]dispatch.Started, error) { return h.Executions.Start(ctx, s) }
	if h.starts != nil {
		h.starts(s)
	}
	if h.start == nil {
		return next()
	}
	return h.start(next)
}

func (h *faultyExecutions) Detach(ctx context.Context, d dispatch.Detaching) ([16]byte, bool, error) {
	next := func() ([16]byte, bool, error) { return h.Executions.Detach(ctx, d) }
	if h.detach == nil {
		return next()
	}
	return h.detach(next)
}

func (h *faultyExecutions) LiveStarts(ctx context.Context, worker [16]byte, list []dispatch.Start) ([]dispatch.Started, error) {
	next := func() ([]dispatch.Started, error) { return h.Executions.LiveStarts(ctx, worker, list) }
	if h.own == nil {
		return next()
	}
	return h.own(next)
}

func (h *faultyExecutions) Confirm(ctx context.Context, endpoint [16]byte, held claims.FencedRun) (bool, error) {
	if h.confirm == nil {
		return h.Executions.Confirm(ctx, endpoint, held)
	}
	return h.confirm(ctx)
}

func (h *faultyExecutions) Finish(ctx context.Context, f dispatch.Finish) (dispatch.Finished, error) {
	next := func(f dispatch.Finish) (dispatch.Finished, error) { return h.Executions.Finish(ctx, f) }
	if h.finish == nil {
		return next(f)
	}
	return h.finish(f, next)
}

func (h *faultyExecutions) Cancels(ctx context.Context, worker [16]byte) ([]dispatch.Cancel, error) {
	next := func() ([]dispatch.Cancel, error) { return h.Executions.Cancels(ctx, worker) }
	if h.cancels == nil {
		return next()
	}
	return h.cancels(next)
}

// with makes a worker use hooks.
func (b *bundle) with(h *faultyExecutions) func(*dispatch.Config) {
	h.Executions = b.executions
	return func(cfg *dispatch.Config) { cfg.Executions = h }
}
