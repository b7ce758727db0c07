package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
)

// stopped is an endpoint whose target asked to stop, in the state after the finish of its run.
type stopped struct {
	endpoint *endpoints.Endpoint
	reason   string
}

// stop pauses the endpoints whose targets asked to stop, after their finishes were written. It
// sends the events and notices of an ordinary pause.
func (b *batch) stop(ctx context.Context, tx pgx.Tx) error {
	for _, s := range b.stops {
		e := s.endpoint
		before := *e
		planned, err := e.Stop(b.now, storable(s.reason))
		if err != nil {
			return fmt.Errorf("stopping endpoint %s: %w", e.ID, err)
		}
		if err := b.db.replan(ctx, tx, e); err != nil {
			return err
		}
		if err := recordSkips(ctx, tx, b.db.DB, b.now, e); err != nil {
			return err
		}
		if err := b.db.withdrawn(ctx, tx, e, b.now); err != nil {
			return err
		}
		if err := b.db.decided(ctx, tx, e, *planned); err != nil {
			return err
		}
		if err := b.db.q.ScheduleNotify(ctx, tx, e.State.Due.At.UnixMilli()); err != nil {
			return err
		}
		by := auditlog.Actor{TenantID: e.TenantID, Name: endpoints.Target}
		if err := b.db.pausedAlone(ctx, tx, b.now, pause{before: &before, after: e, act: auditlog.Act{By: by, Action: auditlog.Stop}}); err != nil {
			return err
		}
	}
	return nil
}
