package items

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"rubato/internal/errs"
	"rubato/internal/feed"
	"rubato/internal/store/dbsqlc"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/pg"
	"rubato/internal/zombie"
)

// standstill is the longest pause of a leading sweeper before another sweeper is elected.
const standstill = 5 * time.Second

// Sweeps finds and settles work of dead workers. It implements zombie.Store.
type Sweeps struct {
	db         *endpointstore.States
	standstill time.Duration
	// locks is the mark of the ends of locks.
	locks pg.LowWaterMark

	decisions, hints atomic.Int64 // cursors of the walks through old rows
}

var _ zombie.Store = (*Sweeps)(nil)

// NewSweeps returns the store of the sweeper.
func NewSweeps(db *endpointstore.States) *Sweeps { return &Sweeps{db: db, standstill: standstill} }

// Lead implements zombie.Turns. It holds a transaction-level advisory lock, so that the lock ends
// with the process or its connection.
func (s *Sweeps) Lead(ctx context.Context, lead func(context.Context) error) (alone bool, err error) {
	err = s.tx(ctx, func(tx pgx.Tx) (err error) {
		if alone, err = s.db.Q.SweepLock(ctx, tx); err != nil || !alone {
			return err
		}
		// If the sweeper hangs, its connection is idle, and the timeout frees the lock. SET also closes
		// the portal of the statement before it. Until then that would keep its snapshot, and with it
		// vacuum from removing any row version, for as long as the sweeper leads.
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = %d", s.standstill.Milliseconds())); err != nil {
			return fmt.Errorf("bounding how long the sweeper's connection is idle: %w", err)
		}
		s.locks.Reset() // The database may be another one, with older locks, after a failover.
		return s.whileHeld(ctx, tx, lead)
	})
	return alone, err
}

// whileHeld runs lead while the connection with the lock stays open. The sweeps of lead use other
// connections, so that their commits survive a loss of the lock. Pings keep the connection from
// being idle; they take no snapshot. If a ping fails or takes too long, the context of lead ends
// before the database grants the lock to another sweeper.
func (s *Sweeps) whileHeld(ctx context.Context, tx pgx.Tx, lead func(context.Context) error) error {
	leading, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		var err error
		if fault := s.db.Contain(func() { err = lead(leading) }); fault != nil {
			err = fault
		}
		done <- err
	}()
	stir := time.NewTicker(s.standstill / 5)
	defer stir.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-stir.C:
			limited, stop := context.WithTimeout(leading, s.standstill*3/5)
			err := tx.Conn().Ping(limited)
			stop()
			if err != nil {
				cancel()
				return errors.Join(fmt.Errorf("holding the sweeper's lock: %w", err), <-done)
			}
		}
	}
}

// Clock implements zombie.Turns.
func (s *Sweeps) Clock(ctx context.Context) (time.Time, error) {
	now, err := s.db.Q.Clock(ctx, s.db.Sweeps, s.db.Now())
	return now, pg.Translate(err)
}

// tx runs act in one transaction on a connection of the sweeper's own.
func (s *Sweeps) tx(ctx context.Context, act func(tx pgx.Tx) error) error {
	return pg.Translate(pgx.BeginFunc(ctx, s.db.Sweeps, act))
}

// TakeOver implements zombie.Workers.
func (s *Sweeps) TakeOver(ctx context.Context, q zombie.TakeOverFilter) (freed int, err error) {
	workers, err := s.db.Q.WorkerListSilent(ctx, s.db.Sweeps, dbsqlc.WorkerListSilentParams{Now: s.db.Now(), SilentMs: q.For.Milliseconds()})
	if err != nil {
		return 0, pg.Translate(err)
	}
	for _, id := range workers {
		n, err := s.takeOver(ctx, id, q)
		freed += n
		if err != nil {
			return freed, fmt.Errorf("taking over from worker %x: %w", id, err)
		}
	}
	return freed, nil
}

// takeOver frees the claims of one worker if the worker is still silent. It lists them before it
// locks any row, because a locked row blocks starts.
func (s *Sweeps) takeOver(ctx context.Context, id [16]byte, q zombie.TakeOverFilter) (freed int, err error) {
	claimed, err := s.db.Q.ScheduleListClaimed(ctx, s.db.Sweeps, dbsqlc.ScheduleListClaimedParams{
		WorkerID: id,
		Now:      s.db.Now(),
		ReachMs:  q.Reach.Milliseconds(),
	})
	if err != nil {
		return 0, pg.Translate(err)
	}
	err = s.tx(ctx, func(tx pgx.Tx) error {
		if _, err := s.db.Q.ScheduleLock(ctx, tx, claimed); err != nil {
			return fmt.Errorf("locking %d schedules: %w", len(claimed), err)
		}
		still, err := s.db.Q.WorkerMarkFreed(ctx, tx, dbsqlc.WorkerMarkFreedParams{
			ID:       id,
			Now:      s.db.Now(),
			SilentMs: q.For.Milliseconds(),
		})
		if err != nil || still == 0 { // Its presence was updated meanwhile.
			return err
		}
		rows, err := s.db.Q.ScheduleTakeOver(ctx, tx, dbsqlc.ScheduleTakeOverParams{WorkerID: id, EndpointIds: claimed})
		freed = int(rows)
		return s.wake(ctx, tx, rows, err)
	})
	if err != nil {
		return 0, err
	}
	return freed, nil
}

// wake notifies workers at the commit that claims are free.
func (s *Sweeps) wake(ctx context.Context, tx pgx.Tx, freed int64, err error) error {
	if err != nil || freed == 0 {
		return err
	}
	return s.db.Q.ScheduleNotify(ctx, tx, 0)
}

// Retire implements zombie.Workers.
func (s *Sweeps) Retire(ctx context.Context, silent time.Duration) (int, error) {
	rows, err := s.db.Q.WorkerRetire(ctx, s.db.Sweeps, dbsqlc.WorkerRetireParams{Now: s.db.Now(), SilentMs: silent.Milliseconds()})
	return int(rows), pg.Translate(err)
}

// KeepHistory implements zombie.History.
func (s *Sweeps) KeepHistory(ctx context.Context, r zombie.Retention) (dropped int, err error) {
	now, err := s.db.Q.Clock(ctx, s.db.Sweeps, s.db.Now())
	if err != nil {
		return 0, pg.Translate(err)
	}
	for ahead := range r.DaysAhead + 1 {
		if err := s.db.Q.HistoryCreateDay(ctx, s.db.Sweeps, dbsqlc.HistoryCreateDayParams{Day: now.AddDate(0, 0, ahead), Now: &now}); err != nil {
			return 0, fmt.Errorf("creating history partitions %d days ahead: %w", ahead, pg.Translate(err))
		}
	}
	dropped, err = s.dropOld(ctx, now, r) // Last, because it may wait for readers of the history.
	return dropped, errors.Join(
		err, s.forgetEvents(ctx, now.Add(-feed.Window)), s.forgetAudit(ctx, now, r.Audit), s.forgetWorkers(ctx, r.Runs), s.forgetTagSets(ctx),
		s.forgetLedger(ctx, now.Add(-r.Runs)), s.forgetLetters(ctx, now, r.Letters), s.forgetCalls(ctx, now.Add(-r.Runs)),
		s.forgetChainRuns(ctx, now.Add(-r.Runs)),
	)
}

// dropOld drops the days of history past their retention, and stops at the first table that a
// reader has locked.
func (s *Sweeps) dropOld(ctx context.Context, now time.Time, r zombie.Retention) (dropped int, err error) {
	for parent, keep := range map[string]time.Duration{"runs": r.Runs, "run_events": r.Runs, "run_requests": r.Runs, "run_bodies": r.Bodies} {
		n, err := s.dropDays(ctx, parent, now.Add(-keep))
		if err != nil {
			return dropped, fmt.Errorf("dropping old days of %s: %w", parent, err)
		}
		dropped += n
	}
	return dropped, nil
}

// forgetWorkers removes workers that stopped longer ago than the retention of runs.
func (s *Sweeps) forgetWorkers(ctx context.Context, gone time.Duration) error {
	_, err := s.db.Q.WorkerDropBefore(ctx, s.db.Sweeps, dbsqlc.WorkerDropBeforeParams{Now: s.db.Now(), GoneMs: gone.Milliseconds()})
	return pg.Translate(err)
}

// forgetTagSets removes the tag sets that no endpoint uses any more.
func (s *Sweeps) forgetTagSets(ctx context.Context) error {
	_, err := s.db.Q.TagSetDropUnused(ctx, s.db.Sweeps, s.db.Now())
	return pg.Translate(err)
}

// dropWait bounds the wait of a partition drop for readers of the history. It is short because
// every insert of a run queues behind the drop, and a backup reads for hours.
const dropWait = 500 * time.Millisecond

// dropDays drops the partitions of one history table that lie before the day of an instant.
func (s *Sweeps) dropDays(ctx context.Context, parent string, before time.Time) (int, error) {
	var dropped int32
	err := pg.PipelineOn(ctx, s.db.Sweeps,
		func(q dbsqlc.DBTX) error { return s.db.Q.SetLockTimeout(ctx, q, dropWait.Milliseconds()) },
		func(q dbsqlc.DBTX) (err error) {
			dropped, err = s.db.Q.HistoryDropBefore(ctx, q, dbsqlc.HistoryDropBeforeParams{Parent: parent, Day: before})
			return err
		})
	if pg, found := errors.AsType[*pgconn.PgError](err); found && pg.Code == "55P03" {
		return 0, errs.Wrap(err, errs.Unavailable, "a long transaction reads the history; the partitions are dropped after its end")
	}
	return int(dropped), pg.Translate(err)
}

// forgetEvents removes the events past the retention of the stream.
func (s *Sweeps) forgetEvents(ctx context.Context, before time.Time) error {
	for _, forget := range []func(context.Context, dbsqlc.DBTX, time.Time) (int64, error){s.db.Q.EventDropBefore, s.db.Q.FinishedRunsDropBefore} {
		for more := true; more; {
			rows, err := forget(ctx, s.db.Sweeps, before)
			if err != nil {
				return fmt.Errorf("forgetting old events: %w", pg.Translate(err))
			}
			more = rows > 0
		}
	}
	return nil
}

// forgetAudit removes audit entries past their retention, and endpoint versions replaced before
// then, one batch at a time. A retention of zero keeps both.
func (s *Sweeps) forgetAudit(ctx context.Context, now time.Time, keep time.Duration) error {
	for more := keep > 0; more; {
		dropped, err := s.db.Q.AuditDropBefore(ctx, s.db.Sweeps, now.Add(-keep))
		if err != nil {
			return fmt.Errorf("removing old entries of the audit log: %w", pg.Translate(err))
		}
		versions, err := s.db.Q.EndpointVersionDropBefore(ctx, s.db.Sweeps, now.Add(-keep))
		if err != nil {
			return fmt.Errorf("removing old versions of endpoints: %w", pg.Translate(err))
		}
		more = dropped > 0 || versions > 0
	}
	return nil
}

const (
	// ledgerPage is the number of rows per step of the ledger walk.
	ledgerPage = 1000
	// ledgerSteps bounds the steps of one pass.
	ledgerSteps = 20
)

// forgetLedger removes decisions outside a finish, and hints, that are as old as the oldest
// retained run. Some old rows stay, so each pass resumes at the cursor of the previous pass and
// restarts after it has reached recent rows.
func (s *Sweeps) forgetLedger(ctx context.Context, before time.Time) error {
	decisions := func(after int64) (old, last, dropped int64, err error) {
		page, err := s.db.Q.DecisionDropBefore(ctx, s.db.Sweeps, dbsqlc.DecisionDropBeforeParams{
			After:   after,
			MaxRows: ledgerPage,
			Before:  before,
		})
		return page.Old, page.Last, page.Dropped, err
	}
	hints := func(after int64) (old, last, dropped int64, err error) {
		page, err := s.db.Q.HintDropBefore(ctx, s.db.Sweeps, dbsqlc.HintDropBeforeParams{
			After:   after,
			MaxRows: ledgerPage,
			Before:  before,
		})
		return page.Old, page.Last, page.Dropped, err
	}
	if err := walkLedger(&s.decisions, decisions); err != nil {
		return fmt.Errorf("removing old decisions: %w", pg.Translate(err))
	}
	if err := walkLedger(&s.hints, hints); err != nil {
		return fmt.Errorf("removing old hints: %w", pg.Translate(err))
	}
	return nil
}

// walkLedger walks from a cursor until a step finds recent rows or removes none.
func walkLedger(at *atomic.Int64, step func(after int64) (old, last, dropped int64, err error)) error {
	for range ledgerSteps {
		old, last, dropped, err := step(at.Load())
		if err != nil {
			return err
		}
		if old < ledgerPage {
			at.Store(0)
			return nil
		}
		at.Store(last)
		if dropped == 0 { // All rows of the step stay, so the next pass continues.
			return nil
		}
	}
	return nil
}
