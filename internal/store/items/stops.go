package items

import (
	"context"
	"fmt"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

// stopped is an endpoint whose target asked to stop, in the state after the finish of its run.
type stopped struct {
	endpoint *endpoints.Endpoint
	reason   string
}

// stop pauses the endpoints whose targets asked to stop, after their finishes were written. It
// sends the events and notices of an ordinary pause.
func (b *batch) stop(ctx context.Context) error {
	for _, s := range b.stops {
		e := s.endpoint
		before := *e
		planned, err := e.Stop(b.now, pg.Storable(s.reason))
		if err != nil {
			return fmt.Errorf("stopping endpoint %s: %w", e.ID, err)
		}
		if err := b.db.Replan(ctx, b.tx, e); err != nil {
			return err
		}
		if err := history.RecordSkips(ctx, b.tx, b.db.DB, b.now, e); err != nil {
			return err
		}
		if err := b.db.Withdrawn(ctx, b.tx, e, b.now); err != nil {
			return err
		}
		if err := b.db.Decided(ctx, b.tx, e, *planned); err != nil {
			return err
		}
		if err := b.db.Q.ScheduleNotify(ctx, b.tx, e.State.Due.At.UnixMilli()); err != nil {
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
