package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"rubato/internal/callbacks"
	"rubato/internal/claims"
	"rubato/internal/dispatch/request"
	"rubato/internal/errs"
	"rubato/internal/runs"
)

// CallbackStore is the database of [Callbacks].
type CallbackStore interface {
	// Reported returns the run of a callback token with its endpoint, and the database's time.
	// Nothing says yet that the run exists, or that it is suspended. The error is an
	// [errs.NotFound] if there is no such endpoint.
	Reported(ctx context.Context, held claims.FencedRun) (run SuspendedRun, now time.Time, err error)
	// End is that of [Suspensions].
	End(ctx context.Context, run SuspendedRun, outcome runs.Outcome) (bool, error)
	// Extend starts the wait of a suspended run again, and returns its new end. extended is false
	// if the run is not suspended any more.
	Extend(ctx context.Context, run SuspendedRun) (until time.Time, extended bool, err error)
	// Late records the report about a run that has ended, at most [MaxLateReports] for each run. It
	// reports false if the run has not ended.
	Late(ctx context.Context, run SuspendedRun, outcome runs.Outcome) (ended bool, err error)
}

// MaxLateReports bounds the late reports that are recorded of one run, because a target may repeat
// them without end.
const MaxLateReports = 10

// Callbacks applies the reports of targets about their asynchronous runs. It is safe for concurrent
// use. Use NewCallbacks.
type Callbacks struct {
	store  CallbackStore
	caller *request.Caller
	ended  *prometheus.CounterVec
}

// NewCallbacks returns the service of callbacks. keys opens the signing keys of tenants; nil:
// signed callbacks are refused.
func NewCallbacks(store CallbackStore, keys request.Secrets, logger *slog.Logger, r prometheus.Registerer) *Callbacks {
	ended := promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: "rubato_callbacks_ended_total", Help: "Suspended runs that a report of their target ended, by status. A worker does not count them as finished.",
	}, []string{"status"})
	for _, status := range []runs.Status{runs.Succeeded, runs.Failed} {
		ended.WithLabelValues(string(status))
	}
	return &Callbacks{
		store: store,
		ended: ended,
		caller: request.New(request.Config{
			Secrets: keys,
			Logger:  logger.With("component", "callbacks"),
		}),
	}
}

// Known reports whether a token is genuine, at the cost of one look-up by key. Its run may have
// ended. The error is an [errs.Malformed] if the text has not the form of a token.
func (c *Callbacks) Known(ctx context.Context, token string) (bool, error) {
	_, _, err := c.find(ctx, token)
	if err != nil && errs.CodeOf(err) == errs.NotFound {
		return false, nil
	}
	return err == nil, err
}

// find returns the run of a genuine token, and the database's time. The error is an [errs.NotFound]
// for a wrong token.
func (c *Callbacks) find(ctx context.Context, token string) (run SuspendedRun, now time.Time, err error) {
	subject, proves, err := callbacks.Open(token)
	if err != nil {
		return run, now, err
	}
	run, now, err = c.store.Reported(ctx, claims.FencedRun{
		EndpointID: subject.EndpointID,
		RunID:      subject.RunID,
		Token:      subject.Fence,
	})
	if errs.CodeOf(err) == errs.NotFound || err == nil && !proves(run.Target.CallbackKey()) {
		return run, now, callbacks.ErrUnknown()
	}
	return run, now, err
}

// Report applies a report to the run of a token. A run ends once: of concurrent reports exactly one
// ends it, and the others get an [errs.Conflict]. The error is an [errs.Invalid] for a report that
// [callbacks.Report.Check] refuses, an [errs.NotFound] for a wrong token, and an
// [errs.Unauthorized] for a wrong signature.
func (c *Callbacks) Report(ctx context.Context, token string, r callbacks.Report) (callbacks.Result, error) {
	if err := r.Check(); err != nil {
		return callbacks.Result{}, err
	}
	run, now, err := c.find(ctx, token)
	if err != nil {
		return callbacks.Result{}, err
	}
	outcome, err := c.caller.Report(ctx, run.request(), r, now)
	if err != nil {
		return callbacks.Result{}, err
	}
	if r.Status == callbacks.Progress {
		return c.extend(ctx, run)
	}
	return c.end(ctx, run, outcome)
}

// extend applies a report of progress.
func (c *Callbacks) extend(ctx context.Context, run SuspendedRun) (callbacks.Result, error) {
	until, extended, err := c.store.Extend(ctx, run)
	switch {
	case err != nil:
		return callbacks.Result{}, err
	case !extended:
		return callbacks.Result{}, finishedError(run.ID)
	}
	return callbacks.Result{RunID: run.ID, Status: runs.Running, Until: until}, nil
}

const (
	// earlyReports bounds how often a report waits for the suspension of its run. A fast target may
	// report before the worker has stored its answer 202.
	earlyReports = 20
	earlyWait    = 100 * time.Millisecond
)

// end ends a run, or records that it had ended before.
func (c *Callbacks) end(ctx context.Context, run SuspendedRun, outcome runs.Outcome) (callbacks.Result, error) {
	for range earlyReports {
		ended, err := c.store.End(ctx, run, outcome)
		if err != nil {
			return callbacks.Result{}, err
		}
		if ended {
			c.ended.WithLabelValues(string(outcome.Status)).Inc()
			return callbacks.Result{RunID: run.ID, Status: outcome.Status}, nil
		}
		late, err := c.store.Late(ctx, run, outcome)
		if err != nil {
			return callbacks.Result{}, err
		}
		if late {
			return callbacks.Result{}, finishedError(run.ID)
		}
		sleep(ctx, earlyWait)
	}
	return callbacks.Result{}, errs.New(errs.Unavailable, "", fmt.Sprintf("run %s does not wait for its end yet; report again after the response 202", run.ID))
}

func finishedError(run runs.ID) error {
	return errs.New(errs.Conflict, "run_finished", fmt.Sprintf("run %s does not wait for a report any more, so that this one changes nothing", run))
}
