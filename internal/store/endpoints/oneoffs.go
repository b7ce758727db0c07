package endpoints

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

// OneOffs returns the statement that reads the one-off items for a decision.
func (db *States) OneOffs(ctx context.Context, read *Stored, ids [][16]byte) pg.Statement {
	return func(q dbsqlc.DBTX) (err error) {
		read.oneOffs, err = db.Q.OneOffGetMany(ctx, q, dbsqlc.OneOffGetManyParams{EndpointIds: ids, Now: db.Now()})
		return err
	}
}

func attachOneOff(q *endpoints.OneOffs, row *dbsqlc.OneOffGetManyRow) {
	item := &endpoints.OneOff{
		Slot:         row.Slot,
		At:           row.NotBefore,
		Attempt:      int(row.Attempt),
		InfraAttempt: int(row.InfraAttempt),
		Priority:     endpoints.Priority(row.Priority),
		Deadline:     pg.OrZero(row.DeadlineAt),
		Undo:         row.Undo,
	}
	q.LastSlot, q.Waiting = row.LastSlot, max(q.Waiting, int(row.Items))
	switch {
	case row.Own:
		q.InFlight = item
		q.Waiting--
	case q.Next == nil:
		q.Next = item
	}
}

// ManualAt returns the slot of the next one-off item, as the schedule row keeps it; zero if none
// waits.
func ManualAt(s *endpoints.State) time.Time {
	if next := s.OneOffs.Next; next != nil {
		return next.Slot
	}
	return time.Time{}
}

// OneOffWrites returns the statements that store changed one-off items, without withdrawals.
func (db *States) OneOffWrites(ctx context.Context, e *endpoints.Endpoint, author string) []pg.Statement {
	var list []pg.Statement
	q := &e.State.OneOffs
	if item := q.Added; item != nil {
		list = append(list, db.oneOffInserts(ctx, e, item, author)...)
	}
	if item := q.Retried; item != nil {
		p := dbsqlc.OneOffRequeueParams{
			EndpointID:   e.ID,
			Slot:         item.Slot,
			RunID:        runIDOf(e.ID, item),
			NotBefore:    item.At,
			Attempt:      int16(item.Attempt),
			InfraAttempt: int16(item.InfraAttempt),
		}
		list = append(list, func(tx dbsqlc.DBTX) error { return db.Q.OneOffRequeue(ctx, tx, p) })
	}
	if item := q.Ended; item != nil {
		p := dbsqlc.OneOffDeleteParams{EndpointID: e.ID, Slot: item.Slot}
		list = append(list, func(tx dbsqlc.DBTX) error { return db.Q.OneOffDelete(ctx, tx, p) })
	}
	return list
}

// runIDOf returns the ID of the next run of an item.
func runIDOf(id endpoints.ID, item *endpoints.OneOff) runs.ID {
	return runs.NewID(item.Slot, id, item.Attempt, item.InfraAttempt)
}

// oneOffInserts returns the statements that store a new item and its idempotency key.
func (db *States) oneOffInserts(ctx context.Context, e *endpoints.Endpoint, item *endpoints.OneOff, author string) []pg.Statement {
	row := dbsqlc.OneOffInsertParams{
		EndpointID:  e.ID,
		Slot:        item.Slot,
		TenantID:    e.TenantID,
		RunID:       runIDOf(e.ID, item),
		NotBefore:   item.At,
		Priority:    int16(item.Priority),
		DeadlineAt:  pg.Optional(item.Deadline),
		Force:       item.Force,
		RequestedBy: author,
	}
	if !item.Override.Empty() {
		raw, err := json.Marshal(item.Override)
		if err != nil {
			panic(err) // Strings always encode.
		}
		row.Request = raw
	}
	list := []pg.Statement{func(tx dbsqlc.DBTX) error { return db.Q.OneOffInsert(ctx, tx, row) }}
	if row.Request != nil || item.RerunOf != [16]byte{} {
		made := dbsqlc.RunRequestInsertParams{
			EndpointID:   e.ID,
			ScheduledFor: item.Slot,
			TenantID:     e.TenantID,
			Request:      row.Request,
			RerunOf:      pg.Given(item.RerunOf),
		}
		list = append(list, func(tx dbsqlc.DBTX) error { return db.Q.RunRequestInsert(ctx, tx, made) })
	}
	if item.Key == nil {
		return list
	}
	key := dbsqlc.OneOffKeyInsertParams{
		EndpointID:  e.ID,
		Key:         *item.Key,
		Slot:        item.Slot,
		Fingerprint: item.Fingerprint,
		KeepMs:      endpoints.OneOffKeyLife.Milliseconds(),
		Now:         db.Now(),
	}
	return append(list, func(tx dbsqlc.DBTX) error {
		taken, err := db.Q.OneOffKeyInsert(ctx, tx, key)
		if err == nil && taken == 0 {
			return endpoints.ErrOneOffKeyTaken()
		}
		return err
	})
}

// withdraw deletes withdrawn one-off items of an endpoint and records each as skipped. The item in
// flight is left out, because its run is recorded by its own finish.
func (db *States) withdraw(ctx context.Context, tx dbsqlc.DBTX, e *endpoints.Endpoint, now time.Time, h *history.Records) error {
	rows, err := db.Q.OneOffWithdraw(ctx, tx, e.ID)
	if err != nil {
		return fmt.Errorf("withdrawing the one-off runs of endpoint %s: %w", e.ID, err)
	}
	for _, row := range rows {
		if row.Own {
			continue
		}
		h.Add(runs.Run{
			ID:           runs.NewID(row.Slot, e.ID, int(row.Attempt), int(row.InfraAttempt)),
			EndpointID:   e.ID,
			TenantID:     e.TenantID,
			ScheduledFor: row.Slot,
			Attempt:      int(row.Attempt),
			InfraAttempt: int(row.InfraAttempt),
			Source:       string(governor.SourceManual),
			ClaimedAt:    now,
			StartedAt:    now,
			FinishedAt:   now,
			Outcome: runs.Outcome{
				Status: runs.Skipped,
				Reason: runs.Withdrawn,
				Error:  "nothing was sent: the run was withdrawn, because its endpoint was paused or archived while it waited",
			},
		}, e.Version, e.State.FailureCount, nil)
	}
	return nil
}

// withdrawDetached deletes the detached runs of a paused or archived endpoint that wait for another
// attempt. Those in flight go on; if the endpoint is archived, their finishes plan nothing.
func (db *States) withdrawDetached(ctx context.Context, tx dbsqlc.DBTX, e *endpoints.Endpoint, now time.Time) error {
	if !e.Archived() && !e.PausedAt(now) {
		return nil
	}
	if err := db.Q.ScheduleWithdrawDetached(ctx, tx, e.ID); err != nil {
		return fmt.Errorf("withdrawing the detached runs of endpoint %s: %w", e.ID, err)
	}
	if !e.Archived() {
		return nil
	}
	if err := db.Q.ScheduleArchiveDetached(ctx, tx, e.ID); err != nil {
		return fmt.Errorf("archiving the detached runs of endpoint %s: %w", e.ID, err)
	}
	return nil
}

// withdrawWaiting withdraws the detached runs and the one-off runs that a change of an endpoint
// withdraws. The caller writes the history.
func (db *States) withdrawWaiting(ctx context.Context, tx dbsqlc.DBTX, e *endpoints.Endpoint, now time.Time, h *history.Records) error {
	if err := db.withdrawDetached(ctx, tx, e, now); err != nil {
		return err
	}
	if !e.State.OneOffs.Withdrawn && !e.Archived() {
		return nil
	}
	return db.withdraw(ctx, tx, e, now, h)
}

// Withdrawn is withdrawWaiting for a caller that writes no other history.
func (db *States) Withdrawn(ctx context.Context, tx pgx.Tx, e *endpoints.Endpoint, now time.Time) error {
	var h history.Records
	if err := db.withdrawWaiting(ctx, tx, e, now, &h); err != nil || len(h.Rows.Ids) == 0 {
		return err
	}
	return pg.Pipeline(ctx, tx, h.Writes(ctx, db.DB)...)
}

// OneOffKey implements endpoints.OneOffKeys.
func (s *Store) OneOffKey(ctx context.Context, tenant [16]byte, id endpoints.ID, key string) (slot time.Time, fingerprint []byte, err error) {
	rows, err := s.db.Q.OneOffKeyGet(ctx, s.db.Pool, dbsqlc.OneOffKeyGetParams{
		EndpointID: id,
		TenantID:   tenant,
		Key:        key,
		Now:        s.db.Now(),
	})
	if err != nil || len(rows) == 0 {
		return time.Time{}, nil, pg.Translate(err)
	}
	return rows[0].Slot, rows[0].Fingerprint, nil
}

// PastRequest implements endpoints.Requests.
func (s *Store) PastRequest(ctx context.Context, tenant [16]byte, run endpoints.RecordedRun) (was endpoints.PastRequest, err error) {
	row, err := s.db.Q.RunRequestGet(ctx, s.db.Pool, dbsqlc.RunRequestGetParams{
		EndpointID:   run.Endpoint,
		TenantID:     tenant,
		At:           run.At,
		ScheduledFor: run.Slot,
	})
	if err != nil {
		return was, fmt.Errorf("reading the request of run %s: %w", runs.ID(run.RunID), pg.Translate(err))
	}
	was.Version, was.RerunOf = row.Version, pg.OrZero(row.RerunOf)
	override, err := endpoints.ParseOverride(row.Request)
	if err != nil {
		return was, fmt.Errorf("decoding the request of run %s: %w", runs.ID(run.RunID), err)
	}
	was.Key = cmp.Or(override.SentKey, pg.OrZero(row.SentKey), run.Key)
	was.DueFor = cmp.Or(override.DueFor, pg.OrZero(row.DueFor), run.Slot)
	var spec endpoints.Spec
	switch {
	case row.Version > 0:
		if err := spec.UnmarshalJSON(row.Spec); err != nil {
			return was, unreadable(run.Endpoint, err)
		}
	case override.Whole == nil:
		return was, nil
	}
	was.Spec = new(override.Apply(spec))
	return was, nil
}
