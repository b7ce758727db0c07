package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
)

// stopped is an endpoint whose target wants no more calls, in the state that the finish of its run left.
type stopped struct {
	endpoint *endpoints.Endpoint
	reason   string
}

// stop pauses the endpoints whose targets asked for it, after their finishes were written. Everybody is told as of any other pause.
func (b *batch) stop(ctx context.Context, tx pgx.Tx) error {
	for _, s := range b.stops {
		e := s.endpoint
		before, shown := *e, e.Redacted()
		planned, err := e.Stop(b.now, storable(s.reason))
		if err != nil {
			return fmt.Errorf("stopping endpoint %s: %w", e.ID, err)
		}
		if err := b.db.replan(ctx, tx, e); err != nil {
			return err
		}
		if err := b.db.recordSkips(ctx, tx, b.now, e); err != nil {
			return err
		}
		if err := b.db.decided(ctx, tx, e, *planned); err != nil {
			return err
		}
		if err := b.db.q.ScheduleNotify(ctx, tx, e.State.Due.At.UnixMilli()); err != nil {
			return err
		}
		if err := b.db.tell(ctx, tx, b.now, &before, e); err != nil {
			return err
		}
		if err := b.db.pausedAlarm(ctx, tx, b.now, e); err != nil {
			return err
		}
		by := auditlog.Actor{TenantID: e.TenantID, Name: endpoints.Target}
		err = b.db.audited(ctx, tx, auditlog.Change{
			Act: auditlog.Act{By: by, Action: auditlog.Stop}, Object: e.Object(), Before: shown, After: e.Redacted(),
		})
		if err != nil {
			return err
		}
	}
	return nil
}
