package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/feed"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/zombie"
)

// Sweeps finds and mends what dead workers left. It implements zombie.Store.
type Sweeps struct {
	db *DB
}

var _ zombie.Store = (*Sweeps)(nil)

// NewSweeps returns the store of the sweeper.
func NewSweeps(db *DB) *Sweeps { return &Sweeps{db: db} }

// Alone implements zombie.Store.
func (s *Sweeps) Alone(ctx context.Context, sweep func(context.Context) error) (bool, error) {
	var alone bool
	err := s.db.tx(ctx, func(tx pgx.Tx) error {
		lock, err := s.db.q.SweepLock(ctx, tx)
		alone = lock.Alone
		if err != nil || !alone {
			return err
		}
		return sweep(ctx) // On other connections: what one sweep commits stays, whatever becomes of the lock.
	})
	return alone, err
}

// TakeOver implements zombie.Store.
func (s *Sweeps) TakeOver(ctx context.Context, silent time.Duration) (freed int, err error) {
	workers, err := s.db.q.WorkerListSilent(ctx, s.db.pool, dbsqlc.WorkerListSilentParams{Now: s.db.now(), SilentMs: silent.Milliseconds()})
	if err != nil {
		return 0, translate(err)
	}
	for _, id := range workers {
		err := s.db.tx(ctx, func(tx pgx.Tx) error {
			if err := s.db.q.StartsExclude(ctx, tx); err != nil { // Its last start may be in flight.
				return err
			}
			still, err := s.db.q.WorkerFree(ctx, tx, dbsqlc.WorkerFreeParams{ID: id, Now: s.db.now(), SilentMs: silent.Milliseconds()})
			if err != nil || still == 0 { // It spoke up meanwhile.
				return err
			}
			rows, err := s.db.q.ScheduleTakeOver(ctx, tx, id)
			freed += int(rows)
			if err != nil || rows == 0 {
				return err
			}
			return s.db.q.ScheduleNotify(ctx, tx, 0)
		})
		if err != nil {
			return freed, fmt.Errorf("taking over from worker %x: %w", id, err)
		}
	}
	return freed, nil
}

// ListLost implements zombie.Store.
func (s *Sweeps) ListLost(ctx context.Context, signal zombie.Signal, limit int) ([]runs.Run, error) {
	rows, err := s.db.q.LiveRunListLost(ctx, s.db.pool, dbsqlc.LiveRunListLostParams{
		Now: s.db.now(), DistrustSilence: !signal.TrustSilence, StaleAfterMs: signal.StaleAfter.Milliseconds(), MaxRows: int32(limit), //nolint:gosec // 100.
	})
	if err != nil {
		return nil, translate(err)
	}
	list := make([]runs.Run, len(rows))
	for i, row := range rows {
		list[i] = liveRunOf(row)
	}
	return list, nil
}

// Settle implements zombie.Store.
func (s *Sweeps) Settle(ctx context.Context, signal zombie.Signal, run runs.Run) (settled bool, err error) {
	settle := func() error {
		return s.db.tx(ctx, func(tx pgx.Tx) error {
			rows, err := s.db.q.LiveRunSettle(ctx, tx, dbsqlc.LiveRunSettleParams{
				RunID: run.ID, Token: run.ClaimToken, Now: s.db.now(),
				DistrustSilence: !signal.TrustSilence, StaleAfterMs: signal.StaleAfter.Milliseconds(),
			})
			settled = rows > 0
			if err != nil || !settled { // Its lock was extended, its worker spoke up, or it finished: left alone.
				return err
			}
			if run.FinishedAt, err = s.db.decisionTime(ctx, tx); err != nil {
				return err
			}
			b := &batch{db: s.db, runs: []runs.Run{run}}
			return b.settle(ctx, tx)
		})
	}
	return settled, s.db.withPartitions(ctx, []runs.Run{run}, settle)
}

// KeepHistory implements zombie.Store.
func (s *Sweeps) KeepHistory(ctx context.Context, r zombie.Retention) (dropped int, err error) {
	now, err := s.db.q.Clock(ctx, s.db.pool, s.db.now())
	if err != nil {
		return 0, translate(err)
	}
	for ahead := range r.DaysAhead + 1 {
		if err := s.db.q.HistoryCreateDay(ctx, s.db.pool, now.AddDate(0, 0, ahead)); err != nil {
			return 0, fmt.Errorf("making the history ready %d days ahead: %w", ahead, translate(err))
		}
	}
	for parent, keep := range map[string]time.Duration{"runs": r.Runs, "run_events": r.Runs, "run_bodies": r.Bodies} {
		n, err := s.db.q.HistoryDropBefore(ctx, s.db.pool, dbsqlc.HistoryDropBeforeParams{Parent: parent, Day: now.Add(-keep)})
		if err != nil {
			return dropped, fmt.Errorf("dropping old days of %s: %w", parent, translate(err))
		}
		dropped += int(n)
	}
	if err := s.forgetEvents(ctx, now.Add(-feed.Window)); err != nil {
		return dropped, err
	}
	_, err = s.db.q.WorkerForget(ctx, s.db.pool, dbsqlc.WorkerForgetParams{Now: s.db.now(), GoneMs: r.Runs.Milliseconds()})
	return dropped, translate(err)
}

// forgetEvents removes the events that nobody may resume from any more.
func (s *Sweeps) forgetEvents(ctx context.Context, before time.Time) error {
	for {
		rows, err := s.db.q.EventDropBefore(ctx, s.db.pool, before)
		if err != nil {
			return fmt.Errorf("forgetting old events: %w", translate(err))
		}
		if rows == 0 {
			return nil
		}
	}
}
