// Package fleet stores the orders of operators to workers.
package fleet

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
	"rubato/internal/stats"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// Store stores orders to workers.
type Store struct {
	db *pg.DB
}

// New returns the store of orders.
func New(db *pg.DB) *Store { return &Store{db: db} }

// Drain orders a worker to drain, or withdraws the order. It returns the worker afterwards, and
// notifies it at commit. An unknown worker is an [errs.NotFound], a stopped one an [errs.Conflict].
func (s *Store) Drain(ctx context.Context, by auditlog.Actor, worker [16]byte, drain bool) (after stats.Worker, err error) {
	err = s.db.Tx(ctx, func(tx pgx.Tx) error {
		before, err := s.lock(ctx, tx, worker, drain)
		if err != nil {
			return err
		}
		if err := s.db.Q.WorkerDrain(ctx, tx, dbsqlc.WorkerDrainParams{
			ID:     worker,
			Drain:  drain,
			Author: by.Name,
			Now:    s.db.Now(),
		}); err != nil {
			return fmt.Errorf("ordering worker %s to drain (%t): %w", stats.WorkerName(worker), drain, err)
		}
		row, err := s.row(ctx, tx, worker)
		if err != nil {
			return err
		}
		after = workerOf(row)
		if err := s.db.Q.WorkerNotify(ctx, tx, worker); err != nil {
			return fmt.Errorf("notifying worker %s: %w", stats.WorkerName(worker), err)
		}
		return s.db.Audited(ctx, tx, change(by, before, row))
	})
	return after, err
}

// lock locks the row of a worker that has not stopped.
func (s *Store) lock(ctx context.Context, tx pgx.Tx, worker [16]byte, drain bool) (*dbsqlc.WorkerLockRow, error) {
	row, err := s.row(ctx, tx, worker)
	switch {
	case pg.IsMissing(err):
		return nil, errs.New(errs.NotFound, "not_found", "there is no worker "+stats.WorkerName(worker)+"; GET /v1/workers lists them")
	case err != nil:
		return nil, err
	case row.Worker.State == string(stats.Inactive):
		verb := "resumed"
		if drain {
			verb = "drained"
		}
		return nil, errs.New(errs.Conflict, "worker_stopped", "worker "+stats.WorkerName(worker)+" has stopped and cannot be "+verb)
	default:
		return row, nil
	}
}

func (s *Store) row(ctx context.Context, tx pgx.Tx, worker [16]byte) (*dbsqlc.WorkerLockRow, error) {
	row, err := s.db.Q.WorkerLock(ctx, tx, dbsqlc.WorkerLockParams{
		ID:       worker,
		Now:      s.db.Now(),
		SilentMs: stats.SilentAfter.Milliseconds(),
	})
	if err != nil {
		return nil, fmt.Errorf("locking worker %s: %w", uuid.UUID(worker), err)
	}
	return row, nil
}

// change returns the entry of the audit log about an order.
func change(by auditlog.Actor, before, after *dbsqlc.WorkerLockRow) auditlog.Change {
	c := auditlog.Change{
		Act:    auditlog.Act{By: by, Action: auditlog.Resume},
		Object: auditlog.Object{Kind: auditlog.Worker, ID: stats.WorkerName(after.Worker.ID)},
		Before: order(before.Worker),
		After:  order(after.Worker),
	}
	if after.Worker.DrainRequestedAt != nil {
		c.Action = auditlog.Drain
	}
	return c
}

// order returns the order to a worker as the audit log shows it.
func order(w dbsqlc.Worker) map[string]any {
	return map[string]any{"name": w.Name, "drain": w.DrainRequestedAt != nil}
}

func workerOf(row *dbsqlc.WorkerLockRow) stats.Worker {
	return stats.Worker{
		ID:           row.Worker.ID,
		Name:         row.Worker.Name,
		Version:      row.Worker.Version,
		State:        stats.WorkerState(row.ShownState),
		Slots:        int(row.Worker.Slots),
		Busy:         int(row.Worker.Busy),
		StartedAt:    row.Worker.StartedAt,
		HeartbeatAt:  row.Worker.HeartbeatAt,
		Tags:         row.Worker.Tags,
		Capabilities: row.Worker.Capabilities,
		Exclusive:    row.Worker.Exclusive,
	}
}
