// Package request makes and judges the HTTP exchange of one run: it builds the request from the
// configuration, the templates and the secrets of its tenant, sends it past the egress guard, and
// turns the answer into the outcome of the run. Tests of an endpoint, status URLs and the reports
// of suspended runs go the same way.
//
// It knows neither claims nor locks nor the database: the worker of package dispatch decides when a
// request may leave.
package request

import (
	"context"
	"log/slog"
	"time"

	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/oauth2"
	"rubato/internal/runs"
)

// Allowances returns the additional allow lists of tenants. Every run reads them, therefore they
// must come from memory.
type Allowances interface {
	// Of returns nil if the tenant has no additional allow list.
	Of(tenant [16]byte) *egress.Allowance
}

// Tracer exports the spans of requests.
type Tracer interface {
	// Request begins the span of a run's request. It returns the traceparent header for the target,
	// which is empty if the run is unknown, and the function that ends the span.
	Request(id runs.ID, r egress.Request) (traceparent string, done func(egress.Response, error))
}

// Config holds the dependencies of a [Caller].
type Config struct {
	Egress     *egress.Client // nil: nothing is sent
	Allowances Allowances     // nil: no additional allow lists
	Secrets    Secrets        // nil: requests with secrets are not sent
	Tracer     Tracer         // nil: no tracing
	// Callbacks is the URL that the path of a callback follows; empty: requests name no callback
	// URL.
	Callbacks string
	Chains    Chains                             // nil: endpoints cannot start chains
	Now       func() (now time.Time, known bool) // database time
	Logger    *slog.Logger
}

// Caller makes and sends the requests of runs, and judges their answers, for a worker, for reports
// of targets and for tests of an endpoint. It does not depend on schedules, locks or history. It is
// safe for concurrent use. Use New, and Close at the end.
type Caller struct {
	cfg     Config
	tokens  *oauth2.Cache
	judging *judging
}

// New returns a caller.
func New(cfg Config) *Caller {
	c := &Caller{cfg: cfg, judging: newJudging()}
	if cfg.Egress != nil {
		c.tokens = oauth2.New(cfg.Egress)
	}
	return c
}

// Close cancels the requests for access tokens in flight.
func (c *Caller) Close() { c.tokens.Close() }

// Send sends the request of a run, with a span if there is a tracer. A request to a chain is
// answered by the chain.
func (c *Caller) Send(ctx context.Context, id runs.ID, r egress.Request) (egress.Response, error) {
	if chain, is := endpoints.ChainOf(r.URL); is {
		began := time.Now()
		answer := c.askChain(ctx, r, chain)
		answer.Phases.Wait = time.Since(began)
		answer.Truncated = int64(len(answer.Body)) > r.MaxBody
		answer.Body = answer.Body[:min(int64(len(answer.Body)), r.MaxBody)]
		return answer, nil
	}
	if c.cfg.Tracer == nil {
		return c.cfg.Egress.Do(ctx, r)
	}
	traceparent, done := c.cfg.Tracer.Request(id, r)
	if traceparent != "" {
		r.Meta.Set("Traceparent", traceparent)
	}
	answer, err := c.cfg.Egress.Do(ctx, r)
	done(answer, err)
	return answer, err
}
