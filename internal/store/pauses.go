package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
)

// pause is an automatic pause, with the endpoint before and after it.
type pause struct {
	before, after *endpoints.Endpoint
	act           auditlog.Act
}

// pausedAlone sends the event, the notices and the audit entry of an automatic pause that is
// written.
func (db *States) pausedAlone(ctx context.Context, tx pgx.Tx, now time.Time, p pause) error {
	if err := tell(ctx, tx, db.DB, now, p.before, p.after); err != nil {
		return err
	}
	if err := pausedAlarm(ctx, tx, db.DB, now, p.after); err != nil {
		return err
	}
	return db.audited(ctx, tx, auditlog.Change{Act: p.act, Object: p.after.Object(), Before: p.before.Redacted(), After: p.after.Redacted()})
}
