package dispatch

import (
	"context"
	"log/slog"
	"time"

	"rubato/internal/egress"
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
	// callbacks is the URL that the path of a callback follows; empty: requests name no callback URL.
	callbacks string
	now       func() (now time.Time, known bool) // database time
	logger    *slog.Logger
}

// send sends the request of a run, with a span if there is a tracer.
func (c *calls) send(ctx context.Context, id runs.ID, r egress.Request) (egress.Response, error) {
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
