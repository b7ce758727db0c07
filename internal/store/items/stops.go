package items

import (
	"context"
	"fmt"
	"slices"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

// stopped is an endpoint whose target asked to stop, in the state after the finish of its run.
type stopped struct {
	endpoint *endpoints.Endpoint
	reason   string
}

// askStop adds an endpoint to those that stop pauses, if the answer to a run asks for it.
func (b *batch) askStop(e *endpoints.Endpoint, run runs.Run) {
	if run.Outcome.Stop != "" && !b.stopping(e) {
		b.stops = append(b.stops, stopped{e, run.Outcome.Stop})
	}
}

// stopping reports whether stop will pause an endpoint.
func (b *batch) stopping(e *endpoints.Endpoint) bool {
	return slices.ContainsFunc(b.stops, func(s stopped) bool { return s.endpoint == e })
}

// stop pauses the endpoints whose targets asked to stop, after their finishes were written. It
// sends the events and notices of an ordinary pause. If another run holds the row of an endpoint,
// its finish decides.
func (b *batch) stop(ctx context.Context) error {
	for _, s := range b.stops {
		e := s.endpoint
		before := *e
		planned, err := e.Stop(b.now, pg.Storable(s.reason))
		if err != nil {
			return fmt.Errorf("stopping endpoint %s: %w", e.ID, err)
		}
		if err := b.pause(ctx, e, planned); err != nil {
			return err
		}
		if err := history.RecordSkips(ctx, b.tx, b.db.DB, b.now, e); err != nil {
			return err
		}
		if err := b.db.Withdrawn(ctx, b.tx, e, b.now); err != nil {
			return err
		}
		by := auditlog.Actor{TenantID: e.TenantID, Name: endpoints.Target}
		if err := b.db.PausedAlone(ctx, b.tx, b.now, endpointstore.Pause{
			Before: &before,
			After:  e,
			Act:    auditlog.Act{By: by, Action: auditlog.Stop},
		}); err != nil {
			return err
		}
	}
	return nil
}

// pause stores the pause of an endpoint and its decision; nil: a run holds the row.
func (b *batch) pause(ctx context.Context, e *endpoints.Endpoint, planned *endpoints.Recorded) error {
	if planned == nil {
		return b.db.Record(ctx, b.tx, e)
	}
	return pg.Pipeline(ctx, b.tx, b.replan(ctx, e, *planned)...)
}
