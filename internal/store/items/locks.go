package items

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// MarkLocks implements zombie.Locks.
func (s *Sweeps) MarkLocks(ctx context.Context) error {
	return s.locks.Find(func(from *time.Time) (now, lowest time.Time, err error) {
		row, err := s.db.Q.ScheduleLowestLock(ctx, s.db.Sweeps, dbsqlc.ScheduleLowestLockParams{Now: s.db.Now(), FromAt: from})
		if err != nil {
			return now, lowest, pg.Translate(err)
		}
		return row.Now, row.Lowest, nil
	})
}

// ClampClaims implements zombie.Locks. It shortens claims that end later than ttl from now, which
// happens after the database's clock was set back.
func (s *Sweeps) ClampClaims(ctx context.Context, ttl time.Duration, limit int) (int, error) {
	rows, err := s.db.Q.ScheduleClampLocks(ctx, s.db.Sweeps, dbsqlc.ScheduleClampLocksParams{
		Now:       s.db.Now(),
		LockTtlMs: int32(ttl.Milliseconds()),
		MaxRows:   int32(limit),
	})
	return int(rows), pg.Translate(err)
}

// ClampRuns implements zombie.Locks. It does the same for live runs and for heartbeats.
func (s *Sweeps) ClampRuns(ctx context.Context, ttl time.Duration) (int, error) {
	live, err := s.db.Q.RunClampLocks(ctx, s.db.Sweeps, dbsqlc.RunClampLocksParams{
		Now: s.db.Now(), LockTtlMs: int32(ttl.Milliseconds()),
	})
	if err != nil {
		return 0, fmt.Errorf("clamping the locks of live runs: %w", pg.Translate(err))
	}
	beats, err := s.db.Q.WorkerClampHeartbeats(ctx, s.db.Sweeps, s.db.Now())
	if err != nil {
		return int(live), fmt.Errorf("clamping the heartbeats of workers: %w", pg.Translate(err))
	}
	return int(live + beats), nil
}

// FreeStuck implements zombie.Locks. It lists stuck schedules without a lock, then locks them and
// checks again.
func (s *Sweeps) FreeStuck(ctx context.Context, over time.Duration, limit int) (freed int, err error) {
	found, err := s.db.Q.ScheduleListStuck(ctx, s.db.Sweeps, dbsqlc.ScheduleListStuckParams{
		Now:     s.db.Now(),
		FromAt:  s.locks.From(),
		StuckMs: over.Milliseconds(),
		MaxRows: int32(limit),
	})
	if err != nil || len(found) == 0 {
		return 0, pg.Translate(err)
	}
	err = s.tx(ctx, func(tx pgx.Tx) error {
		if _, err := s.db.Q.ScheduleLock(ctx, tx, found); err != nil {
			return fmt.Errorf("locking %d schedules: %w", len(found), err)
		}
		rows, err := s.db.Q.ScheduleFreeStuck(ctx, tx, dbsqlc.ScheduleFreeStuckParams{
			Now:         s.db.Now(),
			StuckMs:     over.Milliseconds(),
			EndpointIds: found,
		})
		freed = int(rows)
		return s.wake(ctx, tx, rows, err)
	})
	if err != nil {
		return 0, err
	}
	return freed, nil
}
