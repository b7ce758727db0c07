// Package calls stores calls in Postgres. The transaction of a finish ends them; see package items.
package calls

import (
	"context"
	"fmt"

	"rubato/internal/calls"
	"rubato/internal/store/dbsqlc"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/pg"
)

// Inserts returns the statements that insert calls with their schedules. The caller notifies
// workers of due times that are close.
func Inserts(ctx context.Context, db *pg.DB, list []*calls.Call) []pg.Statement {
	var p dbsqlc.CallInsertParams
	var s dbsqlc.CallScheduleParams
	for _, c := range list {
		p.Ids = append(p.Ids, dbsqlc.UUID(c.ID))
		p.TenantIds = append(p.TenantIds, c.TenantID)
		p.CreatedAt = append(p.CreatedAt, c.CreatedAt)
		p.CreatedBy = append(p.CreatedBy, c.Author)
		p.NotBefore = append(p.NotBefore, c.NotBefore)
		p.DeadlineAt = append(p.DeadlineAt, c.Deadline)
		p.Specs = append(p.Specs, endpointstore.CallDocument(&c.Spec))
		p.CallbackUrls = append(p.CallbackUrls, c.Callback)
		s.LockMs = append(s.LockMs, endpointstore.CallLockMs(c.Spec))
	}
	s.Ids, s.TenantIds, s.NotBefore = p.Ids, p.TenantIds, p.NotBefore
	return []pg.Statement{
		func(q dbsqlc.DBTX) error { return wrap(db.Q.CallInsert(ctx, q, p), len(list)) },
		func(q dbsqlc.DBTX) error { return wrap(db.Q.CallSchedule(ctx, q, s), len(list)) },
	}
}

func wrap(err error, count int) error {
	if err != nil {
		return fmt.Errorf("inserting %d calls: %w", count, err)
	}
	return nil
}
