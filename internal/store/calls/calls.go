// Package calls stores calls in Postgres. The transaction of a finish ends them; see package items.
package calls

import (
	"context"
	"fmt"
	"time"

	"rubato/internal/calls"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

// Drop returns the statements that end a waiting call. They record its next attempt, which was not
// sent.
func Drop(ctx context.Context, db *pg.DB, due endpoints.Due, c Unsent) []pg.Statement {
	var h history.Records
	h.Add(runs.Run{
		ID:           runs.NewID(due.Slot, c.ID, due.Attempt, due.InfraAttempt),
		EndpointID:   c.ID,
		TenantID:     c.TenantID,
		ScheduledFor: due.Slot,
		Attempt:      due.Attempt,
		InfraAttempt: due.InfraAttempt,
		Source:       string(governor.SourceCall),
		ClaimedAt:    c.At,
		StartedAt:    c.At,
		FinishedAt:   c.At,
		Outcome: runs.Outcome{
			Status: c.Status,
			Reason: c.Reason,
			Error:  "nothing was sent: " + c.Why,
		},
	}, endpointstore.CallVersion, 0, nil)
	drop := func(q dbsqlc.DBTX) error { return db.Q.ScheduleDelete(ctx, q, c.ID) }
	wake := func(q dbsqlc.DBTX) error { return db.Q.ChainCallOver(ctx, q, c.ID) }
	return append(h.Writes(ctx, db), drop, wake)
}

// Unsent is the end of a call whose next attempt is not sent.
type Unsent struct {
	ID       endpoints.ID
	TenantID [16]byte
	At       time.Time
	Status   runs.Status
	Reason   runs.Reason
	// Why says it in words.
	Why string
}

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
		p.SentKeys = append(p.SentKeys, c.SentKey)
		p.DueFor = append(p.DueFor, c.DueFor)
		s.LockMs = append(s.LockMs, endpointstore.CallLockMs(c.Spec))
		rank, _ := c.Spec.Priority.Rank() // An unknown one is normal.
		s.Priorities = append(s.Priorities, int16(rank))
	}
	s.Ids, s.TenantIds, s.NotBefore = p.Ids, p.TenantIds, p.NotBefore
	writes := []pg.Statement{
		func(q dbsqlc.DBTX) error { return wrap(db.Q.CallInsert(ctx, q, p), len(list)) },
		func(q dbsqlc.DBTX) error { return wrap(db.Q.CallSchedule(ctx, q, s), len(list)) },
	}
	for _, c := range list {
		if c.RerunOf == [16]byte{} {
			continue
		}
		origin := dbsqlc.RunRequestInsertParams{
			EndpointID:   dbsqlc.UUID(c.ID),
			ScheduledFor: c.NotBefore,
			TenantID:     c.TenantID,
			RerunOf:      &c.RerunOf,
		}
		writes = append(writes, func(q dbsqlc.DBTX) error { return db.Q.RunRequestInsert(ctx, q, origin) })
	}
	return writes
}

func wrap(err error, count int) error {
	if err != nil {
		return fmt.Errorf("inserting %d calls: %w", count, err)
	}
	return nil
}
