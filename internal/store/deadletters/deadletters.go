// Package deadletters keeps dead letters in Postgres. The transaction of a finish inserts them; see
// package items.
package deadletters

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/calls"
	"rubato/internal/deadletters"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
	"rubato/internal/secrets"
	callstore "rubato/internal/store/calls"
	"rubato/internal/store/dbsqlc"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/pg"
)

// Store implements deadletters.Store.
type Store struct {
	db        *pg.DB
	endpoints *endpointstore.Store
}

var _ deadletters.Store = (*Store)(nil)

// New returns the store of dead letters.
func New(db *pg.DB, keeper *endpointstore.Store) *Store { return &Store{db: db, endpoints: keeper} }

// List implements deadletters.Store.
func (s *Store) List(ctx context.Context, f deadletters.Filter) (list []deadletters.Letter, err error) {
	err = s.db.List(ctx, func(tx pgx.Tx) error {
		rows, err := s.rows(ctx, tx, f)
		if err != nil {
			return fmt.Errorf("listing dead letters: %w", err)
		}
		for _, row := range rows {
			list = append(list, letterOf(row))
		}
		return nil
	})
	return list, err
}

func (s *Store) rows(ctx context.Context, tx pgx.Tx, f deadletters.Filter) ([]*dbsqlc.DeadLetter, error) {
	if f.After != (deadletters.ID{}) {
		return s.db.Q.DeadLetterListOldest(ctx, tx, dbsqlc.DeadLetterListOldestParams{
			TenantID:   f.TenantID,
			EndpointID: pg.Given(f.EndpointID),
			State:      string(f.State),
			Reason:     pg.OptionalText(f.Reason),
			After:      dbsqlc.UUID(f.After),
			MaxRows:    int32(f.Limit),
		})
	}
	return s.db.Q.DeadLetterList(ctx, tx, dbsqlc.DeadLetterListParams{
		TenantID:   f.TenantID,
		EndpointID: pg.Given(f.EndpointID),
		State:      pg.OptionalText(string(f.State)),
		Reason:     pg.OptionalText(f.Reason),
		Before:     pg.Given(f.Before),
		MaxRows:    int32(f.Limit),
	})
}

// Get implements deadletters.Store.
func (s *Store) Get(ctx context.Context, tenant [16]byte, id deadletters.ID) (deadletters.Letter, error) {
	return s.get(ctx, s.db.Pool, tenant, id)
}

func (s *Store) get(ctx context.Context, q dbsqlc.DBTX, tenant [16]byte, id deadletters.ID) (deadletters.Letter, error) {
	row, err := s.db.Q.DeadLetterGet(ctx, q, dbsqlc.DeadLetterGetParams{ID: dbsqlc.UUID(id), TenantID: tenant})
	if pg.IsMissing(err) {
		return deadletters.Letter{}, errs.New(errs.NotFound, "not_found", fmt.Sprintf("there is no dead letter %s", id))
	}
	if err != nil {
		return deadletters.Letter{}, fmt.Errorf("reading dead letter %s: %w", id, pg.Translate(err))
	}
	return letterOf(row), nil
}

// Replay implements deadletters.Store. The row of the dead letter is locked before that of its
// endpoint, by every caller.
func (s *Store) Replay(ctx context.Context, by auditlog.Actor, l deadletters.Letter, change deadletters.Change) error {
	r := &endpointstore.Revision{}
	write := func(tx pgx.Tx) error {
		*r = endpointstore.Revision{
			Act:    auditlog.Act{By: by, Action: auditlog.RunNow},
			ID:     l.EndpointID,
			Change: change,
		}
		now, err := s.db.DecisionTime(ctx, tx)
		if err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		if err := s.lock(ctx, tx, by.TenantID, l.ID); err != nil {
			return err
		}
		if err := s.endpoints.ChangeIn(ctx, tx, r); err != nil {
			return err
		}
		return s.handle(ctx, tx, l.ID, dbsqlc.DeadLetterHandleParams{
			ID:         dbsqlc.UUID(l.ID),
			TenantID:   by.TenantID,
			State:      string(deadletters.Replayed),
			HandledAt:  &now,
			HandledBy:  &by.Name,
			ReplaySlot: &r.Changed.State.OneOffs.Added.Slot,
		})
	}
	if err := s.db.WithPartitions(ctx, r.Days, func() error { return s.db.Tx(ctx, write) }); err != nil {
		return err
	}
	s.endpoints.Returning(ctx, r)
	return nil
}

// ReplayCall implements deadletters.Store.
func (s *Store) ReplayCall(
	ctx context.Context, by auditlog.Actor, l deadletters.Letter, again func(*calls.Call, time.Time) (*calls.Call, error),
) (sent *calls.Call, err error) {
	var now time.Time
	write := func(tx pgx.Tx) error {
		if now, err = s.db.DecisionTime(ctx, tx); err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		was, err := callstore.Find(ctx, s.db, tx, by.TenantID, calls.ID(l.EndpointID))
		if err != nil && errs.CodeOf(err) != errs.NotFound { // The history may have dropped it.
			return err
		}
		if sent, err = again(was, now); err != nil {
			return err
		}
		err = s.handle(ctx, tx, l.ID, dbsqlc.DeadLetterHandleParams{
			ID:         dbsqlc.UUID(l.ID),
			TenantID:   by.TenantID,
			State:      string(deadletters.Replayed),
			HandledAt:  &now,
			HandledBy:  &by.Name,
			ReplaySlot: &sent.NotBefore,
			ReplayCall: pg.Given(sent.ID),
		})
		if err != nil {
			return err
		}
		if err := pg.Pipeline(ctx, tx, callstore.Inserts(ctx, s.db, []*calls.Call{sent})...); err != nil {
			return err
		}
		return s.db.Audited(ctx, tx, auditlog.Change{
			Act:    auditlog.Act{By: by, Action: auditlog.RunNow},
			Object: l.Object(),
			Before: map[string]any{"state": string(deadletters.Open)},
			After:  map[string]any{"state": string(deadletters.Replayed), "call": sent.ID.String()},
		})
	}
	days := func() []time.Time { return []time.Time{pg.DayOf(sent.NotBefore)} }
	if err := s.db.WithPartitions(ctx, days, func() error { return s.db.Tx(ctx, write) }); err != nil {
		return nil, err
	}
	s.db.Wake(ctx, sent.NotBefore, now)
	return sent, nil
}

// lock locks an open dead letter, or returns how it was handled before.
func (s *Store) lock(ctx context.Context, tx pgx.Tx, tenant [16]byte, id deadletters.ID) error {
	open, err := s.db.Q.DeadLetterLockOpen(ctx, tx, dbsqlc.DeadLetterLockOpenParams{ID: dbsqlc.UUID(id), TenantID: tenant})
	if err != nil {
		return fmt.Errorf("locking dead letter %s: %w", id, err)
	}
	return s.handled(ctx, tx, tenant, id, len(open) == 1)
}

// handle changes the state of an open dead letter, or returns how it was handled before.
func (s *Store) handle(ctx context.Context, tx pgx.Tx, id deadletters.ID, p dbsqlc.DeadLetterHandleParams) error {
	changed, err := s.db.Q.DeadLetterHandle(ctx, tx, p)
	if err != nil {
		return fmt.Errorf("handling dead letter %s: %w", id, err)
	}
	return s.handled(ctx, tx, p.TenantID, id, changed == 1)
}

// handled returns how a dead letter was handled before, unless it was open.
func (s *Store) handled(ctx context.Context, tx pgx.Tx, tenant [16]byte, id deadletters.ID, open bool) error {
	if open {
		return nil
	}
	now, err := s.get(ctx, tx, tenant, id)
	if err != nil {
		return err
	}
	return now.Handled()
}

// Discard implements deadletters.Store.
func (s *Store) Discard(ctx context.Context, by auditlog.Actor, id deadletters.ID, reason string) (l deadletters.Letter, err error) {
	err = s.db.Tx(ctx, func(tx pgx.Tx) error {
		now, err := s.db.DecisionTime(ctx, tx)
		if err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		err = s.handle(ctx, tx, id, dbsqlc.DeadLetterHandleParams{
			ID:            dbsqlc.UUID(id),
			TenantID:      by.TenantID,
			State:         string(deadletters.Discarded),
			HandledAt:     &now,
			HandledBy:     &by.Name,
			HandledReason: &reason,
		})
		if err != nil {
			return err
		}
		if l, err = s.get(ctx, tx, by.TenantID, id); err != nil {
			return err
		}
		return s.db.Audited(ctx, tx, auditlog.Change{
			Act:    auditlog.Act{By: by, Action: auditlog.Discard},
			Object: l.Object(),
			Before: map[string]any{"state": string(deadletters.Open)},
			After:  map[string]any{"state": string(deadletters.Discarded), "reason": reason},
		})
	})
	return l, err
}

func letterOf(row *dbsqlc.DeadLetter) deadletters.Letter {
	return deadletters.Letter{
		ID:            deadletters.ID(row.ID),
		TenantID:      row.TenantID,
		EndpointID:    endpoints.ID(row.EndpointID),
		Call:          row.Call,
		ScheduledFor:  row.ScheduledFor,
		CreatedAt:     row.CreatedAt,
		Attempt:       int(row.Attempt),
		InfraAttempt:  int(row.InfraAttempt),
		Status:        runs.Status(row.Status),
		Reason:        runs.Reason(row.ReasonCode),
		StatusCode:    int(pg.OrZero(row.StatusCode)),
		Error:         pg.OrZero(row.Error),
		ContentType:   pg.OrZero(row.ContentType),
		Body:          row.Body,
		Sealed:        secrets.Sealed{KeyID: row.SealedUnder, Data: row.Request},
		State:         deadletters.State(row.State),
		HandledAt:     pg.OrZero(row.HandledAt),
		HandledBy:     pg.OrZero(row.HandledBy),
		HandledReason: pg.OrZero(row.HandledReason),
		ReplaySlot:    pg.OrZero[time.Time](row.ReplaySlot),
		ReplayCall:    calls.ID(pg.OrZero(row.ReplayCall)),
	}
}
