package items

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/dispatch/request"
	"rubato/internal/errs"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
	"rubato/internal/zombie"
)

// Suspensions suspends runs after the answer 202 of their targets, and ends them without a worker.
// No worker holds a suspended run, so that it needs no slot, heartbeat or connection.
type Suspensions struct {
	db *endpointstore.States
}

var (
	_ dispatch.Suspensions   = (*Suspensions)(nil)
	_ dispatch.CallbackStore = (*Suspensions)(nil)
)

// NewSuspensions returns the store of suspended runs.
func NewSuspensions(db *endpointstore.States) *Suspensions { return &Suspensions{db: db} }

// Suspend implements dispatch.Suspensions.
func (s *Suspensions) Suspend(ctx context.Context, a dispatch.Suspension) (suspended bool, err error) {
	params := dbsqlc.ScheduleSuspendParams{
		RunID:      a.Run.RunID,
		EndpointID: a.Run.EndpointID,
		Token:      a.Run.Token,
		WorkerID:   a.Worker,
		WaitMs:     a.Wait.Milliseconds(),
		Now:        s.db.Now(),
	}
	if params.Exchange, err = json.Marshal(a.Exchange); err != nil {
		return false, fmt.Errorf("encoding the answer of run %s: %w", runs.ID(a.Run.RunID), err)
	}
	if a.StatusURL != "" {
		params.StatusUrl, params.PollMs = new(pg.Storable(a.StatusURL)), new(a.Poll.Milliseconds())
	}
	run := runs.Run{ID: a.Run.RunID, ScheduledFor: runs.ID(a.Run.RunID).Slot()}
	err = s.db.WithPartitions(ctx, func() []time.Time { return history.RunDays([]runs.Run{run}) }, func() error {
		return s.db.Tx(ctx, func(tx pgx.Tx) error {
			_, err := s.db.Q.ScheduleSuspend(ctx, tx, params)
			if suspended = err == nil; pg.IsMissing(err) {
				suspended, err = s.db.Q.SuspensionStored(ctx, tx, dbsqlc.SuspensionStoredParams{RunID: a.Run.RunID, WorkerID: a.Worker})
				return err
			}
			if err != nil {
				return fmt.Errorf("suspending run %s: %w", run.ID, err)
			}
			return history.AddEvent(ctx, tx, s.db.DB, run, runs.Event{
				Kind:       runs.EventSuspended,
				WorkerID:   a.Worker,
				ClaimToken: a.Run.Token,
				StatusCode: a.Exchange.StatusCode,
				Why:        a.StatusURL,
			})
		})
	})
	return suspended && err == nil, err
}

// Reported implements dispatch.CallbackStore.
func (s *Suspensions) Reported(ctx context.Context, held claims.FencedRun) (run dispatch.SuspendedRun, now time.Time, err error) {
	row, err := s.db.Q.EndpointReported(ctx, s.db.Pool, dbsqlc.EndpointReportedParams{EndpointID: held.EndpointID, Now: s.db.Now()})
	if pg.IsMissing(err) {
		return run, now, errs.New(errs.NotFound, "not_found", "there is no such endpoint")
	}
	if err != nil {
		return run, now, fmt.Errorf("reading the endpoint of a reported run: %w", pg.Translate(err))
	}
	run = dispatch.SuspendedRun{
		Run: runs.Run{
			ID:           held.RunID,
			EndpointID:   held.EndpointID,
			TenantID:     row.TenantID,
			ScheduledFor: runs.ID(held.RunID).Slot(),
			ClaimToken:   held.Token,
		},
		SecretsVersion: row.SecretsVersion,
	}
	targets, err := s.targets(ctx, map[[16]byte]int64{held.EndpointID: row.Version})
	if err != nil {
		return run, now, err
	}
	if run.Target = targets[held.EndpointID]; run.Target == nil {
		return run, now, errs.New(errs.Unavailable, "", "the endpoint of the run is being edited; report again")
	}
	return run, row.Now, nil
}

// targets returns the targets of endpoints at versions. An endpoint that was edited meanwhile, or
// whose stored configuration is unusable, is missing.
func (s *Suspensions) targets(ctx context.Context, versions map[[16]byte]int64) (map[[16]byte]*request.Target, error) {
	loaded, err := s.db.Load(ctx, s.db.Pool, versions)
	if err != nil {
		return nil, pg.Translate(err)
	}
	targets := make(map[[16]byte]*request.Target, len(loaded))
	for id, c := range loaded {
		if c.Fault == nil {
			targets[id] = &c.Target
		}
	}
	return targets, nil
}

// Extend implements dispatch.CallbackStore.
func (s *Suspensions) Extend(ctx context.Context, run dispatch.SuspendedRun) (until time.Time, extended bool, err error) {
	until, err = s.db.Q.SuspendedExtend(ctx, s.db.Pool, dbsqlc.SuspendedExtendParams{
		EndpointID: run.EndpointID,
		RunID:      run.ID,
		Token:      run.ClaimToken,
		Now:        s.db.Now(),
	})
	switch {
	case pg.IsMissing(err):
		return time.Time{}, false, nil
	case err != nil:
		return time.Time{}, false, fmt.Errorf("extending the wait of run %s: %w", run.ID, pg.Translate(err))
	}
	return until, true, nil
}

// Late implements dispatch.CallbackStore.
func (s *Suspensions) Late(ctx context.Context, run dispatch.SuspendedRun, outcome runs.Outcome) (ended bool, err error) {
	err = s.db.Tx(ctx, func(tx pgx.Tx) error {
		_, err := s.db.Q.RunGetLive(ctx, tx, dbsqlc.RunGetLiveParams{RunID: run.ID, TenantID: run.TenantID})
		if ended = pg.IsMissing(err); !ended {
			return err
		}
		_, err = s.db.Q.RunGet(ctx, tx, dbsqlc.RunGetParams{
			ID:           run.ID,
			ScheduledFor: run.ScheduledFor,
			TenantID:     run.TenantID,
		})
		if pg.IsMissing(err) { // Its record was deleted with its day, and there is no place for an event.
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading run %s: %w", run.ID, err)
		}
		n, err := s.db.Q.RunLateReports(ctx, tx, dbsqlc.RunLateReportsParams{RunID: run.ID, ScheduledFor: run.ScheduledFor})
		if err != nil || n >= dispatch.MaxLateReports {
			return err
		}
		return history.AddEvent(ctx, tx, s.db.DB, run.Run, runs.Event{
			Kind:       runs.EventLateResult,
			ClaimToken: run.ClaimToken,
			Status:     outcome.Status,
			Reason:     outcome.Reason,
			StatusCode: outcome.StatusCode,
		})
	})
	return ended && err == nil, pg.Translate(err)
}

// ClaimPolls implements dispatch.Suspensions.
func (s *Suspensions) ClaimPolls(ctx context.Context, served claims.TagSets, lease time.Duration, limit int) ([]dispatch.SuspendedRun, error) {
	params := dbsqlc.SuspensionClaimPollsParams{
		Now:     s.db.Now(),
		LeaseMs: lease.Milliseconds(),
		MaxRows: int32(limit),
	}
	if !served.Exclusive {
		params.TagSetIds = append(params.TagSetIds, 0)
	}
	for _, set := range served.List {
		params.TagSetIds = append(params.TagSetIds, set.ID)
	}
	rows, err := s.db.Q.SuspensionClaimPolls(ctx, s.db.Pool, params)
	if err != nil {
		return nil, fmt.Errorf("claiming up to %d status URLs: %w", limit, pg.Translate(err))
	}
	versions := make(map[[16]byte]int64, len(rows))
	for _, row := range rows {
		versions[history.LiveRunOf(&row.LiveRun).EndpointID] = row.Version
	}
	targets, err := s.targets(ctx, versions)
	if err != nil {
		return nil, err
	}
	list := make([]dispatch.SuspendedRun, 0, len(rows))
	for _, row := range rows {
		run := history.LiveRunOf(&row.LiveRun)
		if target := targets[run.EndpointID]; target != nil { // Otherwise it is claimed again after the lease.
			list = append(list, dispatch.SuspendedRun{
				Run:            run,
				Target:         target,
				SecretsVersion: row.SecretsVersion,
				StatusURL:      row.StatusUrl,
				Polls:          int(row.Polls),
			})
		}
	}
	return list, nil
}

// PollLater implements dispatch.Suspensions.
func (s *Suspensions) PollLater(ctx context.Context, run runs.ID, wait time.Duration) error {
	err := s.db.Q.SuspensionPollLater(ctx, s.db.Pool, dbsqlc.SuspensionPollLaterParams{
		RunID:  run,
		WaitMs: wait.Milliseconds(),
		Now:    s.db.Now(),
	})
	return pg.Translate(err)
}

// End implements dispatch.Suspensions and dispatch.CallbackStore.
func (s *Suspensions) End(ctx context.Context, run dispatch.SuspendedRun, outcome runs.Outcome) (ended bool, err error) {
	return endSuspended(ctx, s.db, suspendedEnd{
		held:    run.Held(),
		outcome: outcome,
	})
}

// ListExpired implements zombie.Runs.
func (s *Sweeps) ListExpired(ctx context.Context, except [][16]byte, limit int) ([]zombie.Lost, error) {
	rows, err := s.db.Q.SuspendedListEnded(ctx, s.db.Sweeps, dbsqlc.SuspendedListEndedParams{
		Now:       s.db.Now(),
		ExceptIds: pg.NotNull(except),
		MaxRows:   int32(limit),
	})
	if err != nil {
		return nil, pg.Translate(err)
	}
	list := make([]zombie.Lost, len(rows))
	for i, row := range rows {
		list[i] = zombie.Lost{Run: history.LiveRunOf(&row.LiveRun), Reason: zombie.Expired}
		if !list[i].Run.CancelRequestedAt.IsZero() {
			list[i].Reason = zombie.Canceled
		}
	}
	return list, nil
}

// Expire implements zombie.Runs.
func (s *Sweeps) Expire(ctx context.Context, run runs.Run) (bool, error) {
	return endSuspended(ctx, s.db, suspendedEnd{
		held: claims.FencedRun{
			EndpointID: run.EndpointID,
			RunID:      run.ID,
			Token:      run.ClaimToken,
		},
		outcome: run.Outcome,
		sweep:   true,
	})
}

// suspendedEnd is the end of a suspended run, by a report or by the sweeper.
type suspendedEnd struct {
	held    claims.FencedRun
	outcome runs.Outcome
	sweep   bool
}

// endSuspended ends a suspended run by the code of a finish. Of concurrent ends exactly one
// succeeds.
func endSuspended(ctx context.Context, db *endpointstore.States, e suspendedEnd) (ended bool, err error) {
	var skipped []time.Time
	days := func() []time.Time { return append([]time.Time{pg.DayOf(runs.ID(e.held.RunID).Slot())}, skipped...) }
	err = isolated(db, 1, func(fault error) error {
		return db.WithPartitions(ctx, days, func() error {
			return db.Tx(ctx, func(tx pgx.Tx) (err error) {
				ended, skipped, err = e.end(ctx, tx, db, fault)
				return err
			})
		})
	})
	return ended && err == nil, err
}

// applies reports whether a run may end so. A report counts until the end of the wait. The sweeper
// ends the others, and those that a user asked to cancel.
func (e suspendedEnd) applies(row *dbsqlc.SuspendedLockRow) bool {
	if e.sweep {
		return row.Over || row.LiveRun.CancelRequestedAt != nil
	}
	return !row.Over
}

// end locks the run, deletes its suspension and writes its record.
func (e suspendedEnd) end(ctx context.Context, tx pgx.Tx, db *endpointstore.States, fault error) (ended bool, skipped []time.Time, err error) {
	// The row of the endpoint first, as in lockOwner. Whether the run was detached is not known yet.
	if _, err := db.Q.ScheduleLock(ctx, tx, [][16]byte{e.held.EndpointID}); err != nil {
		return false, nil, fmt.Errorf("locking the endpoint of suspended run %s: %w", runs.ID(e.held.RunID), err)
	}
	row, err := db.Q.SuspendedLock(ctx, tx, dbsqlc.SuspendedLockParams{
		EndpointID: e.held.EndpointID,
		RunID:      e.held.RunID,
		Token:      e.held.Token,
		Now:        db.Now(),
	})
	if pg.IsMissing(err) || err == nil && !e.applies(row) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, fmt.Errorf("locking suspended run %s: %w", runs.ID(e.held.RunID), err)
	}
	return e.write(ctx, tx, db, settlement{run: history.LiveRunOf(&row.LiveRun), fault: fault})
}

// write records the end of a run that end has locked.
func (e suspendedEnd) write(ctx context.Context, tx pgx.Tx, db *endpointstore.States, l settlement) (ended bool, skipped []time.Time, err error) {
	l.run.Outcome = e.outcome
	kept, err := db.Q.SuspensionDelete(ctx, tx, e.held.RunID)
	if err != nil {
		return false, nil, fmt.Errorf("deleting the suspension of run %s: %w", l.run.ID, err)
	}
	var answer dispatch.Exchange
	if err := json.Unmarshal(kept.Exchange, &answer); err != nil {
		return false, nil, fmt.Errorf("decoding the answer of run %s: %w", l.run.ID, err)
	}
	l.run.WorkerID = kept.WorkerID
	if o := &l.run.Outcome; o.Phases == (runs.Phases{}) { // It does not come from a status URL.
		o.StatusCode, o.Phases = answer.StatusCode, answer.Phases
	}
	if l.run.FinishedAt, err = db.DecisionTime(ctx, tx); err != nil {
		return false, nil, err
	}
	skipped, err = settleLocked(ctx, tx, db, l)
	return err == nil, skipped, err
}
