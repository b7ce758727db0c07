package endpoints

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/store/history"
	noticestore "rubato/internal/store/notices"
)

// Pause is an automatic pause, with the endpoint before and after it.
type Pause struct {
	Before, After *endpoints.Endpoint
	Act           auditlog.Act
}

// PausedAlone sends the event, the notices and the audit entry of an automatic pause that is
// written.
func (db *States) PausedAlone(ctx context.Context, tx pgx.Tx, now time.Time, p Pause) error {
	if err := history.WriteEvents(ctx, tx, db.DB, now, p.Before, p.After); err != nil {
		return err
	}
	if err := noticestore.RaisePaused(ctx, tx, db.DB, now, p.After); err != nil {
		return err
	}
	return db.Audited(ctx, tx, auditlog.Change{
		Act:    p.Act,
		Object: p.After.Object(),
		Before: p.Before.Redacted(),
		After:  p.After.Redacted(),
	})
}
