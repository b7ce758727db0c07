package dispatch

import (
	"context"
	"log/slog"
	"time"

	"rubato/internal/egress"
	"rubato/internal/oauth2"
	"rubato/internal/runs"
)

// Allowances know what a tenant may call besides what everybody may. They are asked on every run, so they answer from memory.
type Allowances interface {
	// Of returns nil where there is nothing of the kind.
	Of(tenant [16]byte) *egress.Allowance
}

// calls makes the requests of runs and sends them, whoever asks for it: a worker, or somebody who tests an endpoint. It knows nothing of
// schedules, locks and history.
type calls struct {
	egress     *egress.Client
	allowances Allowances // nil: nothing
	secrets    Secrets    // nil: requests that need any are not sent
	tracer     Tracer     // nil: nobody collects traces
	tokens     *oauth2.Cache
	judging    *judging
	now        func() (now time.Time, known bool) // database time
	logger     *slog.Logger
}

// send sends the request of a run, and tells the tracer of it where there is one.
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
