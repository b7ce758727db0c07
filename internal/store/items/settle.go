package items

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
	"rubato/internal/zombie"
)

// never is a valve that stays closed.
const never = 100 * 365 * 24 * time.Hour

// valve returns the time in milliseconds that a lock must have expired for until silence counts as
// proof in any case.
func valve(signal zombie.Signal) int64 {
	if signal.Valve <= 0 {
		return never.Milliseconds()
	}
	return signal.Valve.Milliseconds()
}

// ListLost implements zombie.Runs.
func (s *Sweeps) ListLost(ctx context.Context, q zombie.Search) ([]zombie.Lost, error) {
	rows, err := s.db.Q.RunListLost(ctx, s.db.Sweeps, dbsqlc.RunListLostParams{
		Now:               s.db.Now(),
		FromAt:            s.locks.From(),
		ByDeadline:        q.ByDeadline,
		DistrustDeadlines: q.Signal.ClockStepped,
		DistrustSilence:   !q.Signal.TrustSilence,
		StaleAfterMs:      q.Signal.StaleAfter.Milliseconds(),
		ValveMs:           valve(q.Signal),
		ExceptIds:         pg.NotNull(q.Except),
		MaxRows:           int32(q.Limit),
	})
	if err != nil {
		return nil, pg.Translate(err)
	}
	list := make([]zombie.Lost, len(rows))
	for i, row := range rows {
		list[i] = zombie.Lost{Run: history.LiveRunOf(&row.LiveRun), Reason: zombie.Reason(row.Signal)}
	}
	return list, nil
}

// Settle implements zombie.Runs. It leaves the run unchanged if its lock was extended, its worker
// updated its presence, or it finished meanwhile.
func (s *Sweeps) Settle(ctx context.Context, signal zombie.Signal, run runs.Run) (settled bool, err error) {
	lost := dbsqlc.RunLockLostParams{
		EndpointID:        run.RowID(),
		RunID:             run.ID,
		Token:             run.ClaimToken,
		Now:               s.db.Now(),
		DistrustDeadlines: signal.ClockStepped,
		DistrustSilence:   !signal.TrustSilence,
		StaleAfterMs:      signal.StaleAfter.Milliseconds(),
		ValveMs:           valve(signal),
	}
	var skipped []time.Time
	days := func() []time.Time { return append(history.RunDays([]runs.Run{run}), skipped...) }
	err = isolated(s.db, 1, func(fault error) error {
		return s.db.WithPartitions(ctx, days, func() error {
			return s.tx(ctx, func(tx pgx.Tx) (err error) {
				settled, skipped, err = s.settleOne(ctx, tx, settlement{
					run:   run,
					lost:  lost,
					fault: fault,
				})
				return err
			})
		})
	})
	return settled && err == nil, err
}

// settlement is a run to settle with its conditions.
type settlement struct {
	run   runs.Run
	lost  dbsqlc.RunLockLostParams
	fault error // the reason why no decision is possible; nil: it is
}

// settleOne settles a run if it is still lost, and returns the days of the due times that it
// skipped.
func (s *Sweeps) settleOne(ctx context.Context, tx pgx.Tx, l settlement) (settled bool, skipped []time.Time, err error) {
	run := l.run
	if err := lockOwner(ctx, tx, s.db, run); err != nil {
		return false, nil, err
	}
	why, err := s.evidence(ctx, tx, run)
	if err != nil {
		return false, nil, err
	}
	still, err := s.db.Q.RunLockLost(ctx, tx, l.lost)
	if err != nil || len(still) == 0 {
		return false, nil, err
	}
	if run.FinishedAt, err = s.db.DecisionTime(ctx, tx); err != nil {
		return true, nil, err
	}
	if err := s.settled(ctx, tx, run, why); err != nil {
		return true, nil, err
	}
	l.run = run
	skipped, err = settleLocked(ctx, tx, s.db, l)
	return true, skipped, err
}

// settleLocked ends a run without its worker, by the same code as a finish. The caller has locked
// its row and set its outcome and end. It returns the days of the due times that the run skipped.
func settleLocked(ctx context.Context, tx pgx.Tx, db *endpointstore.States, l settlement) (skipped []time.Time, err error) {
	b := newBatch(db, tx, []runs.Run{l.run})
	defer b.release()
	b.fault = l.fault
	if err := pg.Pipeline(ctx, tx, b.reads(ctx, rowsOf(l.run))...); err != nil {
		return nil, err
	}
	err = b.settle(ctx)
	return history.DaysOf(b.skipped), err
}

// CountLive implements zombie.Runs.
func (s *Sweeps) CountLive(ctx context.Context, staleAfter time.Duration) (zombie.LiveCounts, error) {
	row, err := s.db.Q.RunCountSilent(ctx, s.db.Sweeps, dbsqlc.RunCountSilentParams{
		Now:          s.db.Now(),
		FromAt:       s.locks.From(),
		StaleAfterMs: staleAfter.Milliseconds(),
	})
	return zombie.LiveCounts{Live: int(row.Live), Silent: int(row.Silent)}, pg.Translate(err)
}
