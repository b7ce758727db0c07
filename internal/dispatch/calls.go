package dispatch

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

// calls makes and sends the requests of runs, for a worker and for tests of an endpoint. It does
// not depend on schedules, locks or history.
type calls struct {
	egress     *egress.Client
	allowances Allowances // nil: no additional allow lists
	secrets    Secrets    // nil: requests with secrets are not sent
	tracer     Tracer     // nil: no tracing
	tokens     *oauth2.Cache
	judging    *judging
	// callbacks is the URL that the path of a callback follows; empty: requests name no callback
	// URL.
	callbacks string
	chains    Chains                             // nil: endpoints cannot start chains
	now       func() (now time.Time, known bool) // database time
	logger    *slog.Logger
}

// send sends the request of a run, with a span if there is a tracer. A request to a chain is
// answered by the chain.
func (c *calls) send(ctx context.Context, id runs.ID, r egress.Request) (egress.Response, error) {
	if chain, is := endpoints.ChainOf(r.URL); is {
		began := time.Now()
		answer := c.askChain(ctx, r, chain)
		answer.Phases.Wait = time.Since(began)
		answer.Truncated = int64(len(answer.Body)) > r.MaxBody
		answer.Body = answer.Body[:min(int64(len(answer.Body)), r.MaxBody)]
		return answer, nil
	}
	if c.tracer == nil {
		return c.egress.Do(ctx, r)
	}
	traceparent, done := c.tracer.Request(id, r)
	if traceparent != "" {
		r.Meta.Set("Traceparent", traceparent)
	}
	answer, err := c.egress.Do(ctx, r)
	done(answer, err)
	return answer, err
}
