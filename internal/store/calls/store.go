package calls

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/calls"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// Store implements calls.Store. Concurrent requests share one transaction, because a commit costs
// more than an insert.
type Store struct {
	db *pg.DB

	// mu guards the fields below.
	mu      sync.Mutex
	pending []*sending
	// inserting means that a goroutine inserts the pending calls.
	inserting bool
	// open are the numbers of open calls of tenants.
	open map[[16]byte]*counted
}

var _ calls.Store = (*Store)(nil)

// New returns the store of calls.
func New(db *pg.DB) *Store { return &Store{db: db, open: map[[16]byte]*counted{}} }

// counted is a number of open calls.
type counted struct {
	number int64
	// at is when the last count began.
	at time.Time
}

// countEvery is the time between two counts of the open calls of a tenant. A count of many calls
// takes milliseconds.
const countEvery = time.Second

// checkQuota returns an error if the tenant has too many open calls. One request counts them, and
// the others use the number of the last count meanwhile.
func (s *Store) checkQuota(ctx context.Context, tenant [16]byte) error {
	now := time.Now()
	s.mu.Lock()
	known := s.open[tenant]
	if known == nil {
		known = &counted{}
		s.open[tenant] = known
	}
	number, old := known.number, now.Sub(known.at) >= countEvery
	if old {
		known.at = now
	}
	s.mu.Unlock()
	if old {
		var err error
		if number, err = s.db.Q.CallCountOpen(ctx, s.db.Pool, dbsqlc.CallCountOpenParams{TenantID: &tenant, MaxRows: calls.MaxOpen}); err != nil {
			return fmt.Errorf("counting open calls: %w", pg.Translate(err))
		}
		s.mu.Lock()
		known.number = number
		s.mu.Unlock()
	}
	if number >= calls.MaxOpen {
		return calls.ErrTooMany()
	}
	return nil
}

// Get implements calls.Store.
func (s *Store) Get(ctx context.Context, tenant [16]byte, id calls.ID) (*calls.Call, error) {
	return Find(ctx, s.db, s.db.Pool, tenant, id)
}

// Find returns a call. The error is an [errs.NotFound] if there is none.
func Find(ctx context.Context, db *pg.DB, q dbsqlc.DBTX, tenant [16]byte, id calls.ID) (*calls.Call, error) {
	rows, err := db.Q.CallList(ctx, q, dbsqlc.CallListParams{
		TenantID: tenant,
		ID:       pg.Given(id),
		MaxRows:  1,
	})
	if err != nil {
		return nil, fmt.Errorf("reading call %s: %w", id, pg.Translate(err))
	}
	if len(rows) == 0 {
		return nil, errs.New(errs.NotFound, "not_found", fmt.Sprintf("there is no call %s", id))
	}
	return callOf(tenant, rows[0])
}

// List implements calls.Store.
func (s *Store) List(ctx context.Context, f calls.Filter) (list []*calls.Call, err error) {
	err = s.db.List(ctx, func(tx pgx.Tx) error {
		rows, err := s.db.Q.CallList(ctx, tx, dbsqlc.CallListParams{
			TenantID: f.TenantID,
			Open:     f.Open,
			Before:   pg.Given(f.Before),
			MaxRows:  int32(f.Limit),
		})
		if err != nil {
			return fmt.Errorf("listing calls: %w", err)
		}
		for _, row := range rows {
			c, err := callOf(f.TenantID, row)
			if err != nil {
				return err
			}
			list = append(list, c)
		}
		return nil
	})
	return list, err
}

func callOf(tenant [16]byte, row *dbsqlc.CallListRow) (*calls.Call, error) {
	c := &calls.Call{
		ID:        calls.ID(row.ID),
		TenantID:  tenant,
		CreatedAt: row.CreatedAt,
		Author:    row.CreatedBy,
		NotBefore: row.NotBefore,
		Deadline:  pg.OrZero(row.DeadlineAt),
		Callback:  pg.OrZero(row.CallbackUrl),
		SentKey:   pg.OrZero(row.SentKey),
		DueFor:    pg.OrZero(row.DueFor),
	}
	if err := c.Spec.UnmarshalJSON(row.Spec); err != nil {
		return nil, fmt.Errorf("decoding call %s: %w", c.ID, err)
	}
	switch {
	case row.RunID != nil:
		c.State, c.RunID = runs.Running, *row.RunID
	case row.Open:
		c.State, c.RunID = runs.Waiting, runs.ID(row.LastID)
	default:
		c.State, c.RunID = runs.Status(row.LastStatus), runs.ID(row.LastID)
	}
	return c, nil
}

// Cancel implements calls.Store. The canceled call is recorded as a run that was not sent. If the
// call was not yet due, the due time of that run is the instant of the cancel. With the due time of
// the call, the record would lie in the future: it would head every list and every statistic of the
// newest runs, and retention would keep it until long after that day.
func (s *Store) Cancel(ctx context.Context, by auditlog.Actor, id calls.ID) error {
	var due endpoints.Due
	days := func() []time.Time { return []time.Time{pg.DayOf(due.Slot)} }
	return s.db.WithPartitions(ctx, days, func() error {
		return s.db.Tx(ctx, func(tx pgx.Tx) error {
			locked, err := s.db.Q.ScheduleLock(ctx, tx, [][16]byte{id})
			if err != nil {
				return fmt.Errorf("locking call %s: %w", id, err)
			}
			if len(locked) == 0 || !locked[0].Call || pg.OrZero(locked[0].TenantID) != by.TenantID {
				return errs.New(errs.Conflict, "call_ended", "the call has ended, so it cannot be canceled")
			}
			row := locked[0]
			if row.RunID != nil {
				return errs.New(errs.Conflict, "call_running", fmt.Sprintf("the call runs; cancel its run %s instead", runs.ID(*row.RunID)))
			}
			now, err := s.db.DecisionTime(ctx, tx)
			if err != nil {
				return fmt.Errorf("reading the database's time: %w", err)
			}
			due = DueOf(row)
			if due.Slot.After(now) {
				due.Slot = now.Truncate(time.Millisecond)
			}
			err = pg.Pipeline(ctx, tx, Drop(ctx, s.db, due, Unsent{
				ID:       endpoints.ID(row.EndpointID),
				TenantID: by.TenantID,
				At:       now,
				Status:   runs.Canceled,
				Reason:   runs.CanceledByUser,
				Why:      by.Name + " canceled the call while it waited",
			})...)
			if err != nil {
				return err
			}
			return s.db.Audited(ctx, tx, auditlog.Change{
				Act:    auditlog.Act{By: by, Action: auditlog.Cancel},
				Object: auditlog.Object{Kind: auditlog.Call, ID: id.String()},
				Before: map[string]any{"state": string(runs.Waiting)},
				After:  map[string]any{"state": string(runs.Canceled)},
			})
		})
	})
}

// DueOf returns the due time of a call.
func DueOf(row *dbsqlc.Schedule) endpoints.Due {
	return endpoints.Due{
		Slot:         row.Slot,
		Attempt:      int(row.Attempt),
		InfraAttempt: int(row.InfraAttempt),
	}
}
