package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
)

// Finish implements dispatch.Executions.
func (s *Executions) Finish(ctx context.Context, f dispatch.Finish) (done dispatch.Finished, err error) {
	var skipped []time.Time
	days := func() []time.Time { return append(runDays(f.Runs), skipped...) }
	finish := func() error {
		return s.db.tx(ctx, func(tx pgx.Tx) error {
			ours, gone, err := s.end(ctx, tx, f.Runs)
			if err != nil {
				return err
			}
			b := &batch{db: s.db, worker: f.Worker, keep: f.Keep, lockTTL: f.LockTTL, runs: ours}
			err = b.settle(ctx, tx)
			skipped = daysOf(b.skipped)
			if err != nil {
				return err
			}
			done = dispatch.Finished{Kept: b.kept, Decided: b.decided, Skipped: b.skipped}
			return s.recall(ctx, tx, gone, &done)
		})
	}
	return done, s.db.withPartitions(ctx, days, finish)
}

// end takes the live rows of runs away, and tells which runs were still the caller's to finish and which were gone.
func (s *Executions) end(ctx context.Context, tx pgx.Tx, list []runs.Run) (ours, gone []runs.Run, err error) {
	params := dbsqlc.LiveRunFinishParams{}
	for _, run := range list {
		params.RunIds = append(params.RunIds, run.ID)
		params.Tokens = append(params.Tokens, run.ClaimToken)
	}
	rows, err := s.db.q.LiveRunFinish(ctx, tx, params)
	if err != nil {
		return nil, nil, fmt.Errorf("ending %d live runs: %w", len(list), err)
	}
	claimed := make(map[runs.ID]time.Time, len(rows))
	for _, row := range rows {
		claimed[row.RunID] = row.ClaimedAt
	}
	for _, run := range list {
		at, live := claimed[run.ID]
		if live {
			run.ClaimedAt = at
			ours = append(ours, run)
			continue
		}
		gone = append(gone, run)
	}
	return ours, gone, nil
}

// batch is runs whose live rows are gone, on their way into the history, with what they lead to. A finish and a settlement write
// their runs in this same way.
type batch struct {
	db      *DB
	worker  [16]byte      // who keeps what comes due close by
	keep    time.Duration // how close; zero: nothing is kept
	lockTTL time.Duration
	runs    []runs.Run

	next    dbsqlc.ScheduleFinishParams
	history history
	events  events
	plans   map[[16]byte]*endpoints.Endpoint
	kept    []claims.Claim
	decided []governor.Source
	skipped []endpoints.Skip
}

// settle decides what follows each run and writes everything.
func (b *batch) settle(ctx context.Context, tx pgx.Tx) error {
	if len(b.runs) == 0 {
		return nil
	}
	ids := make([][16]byte, len(b.runs))
	for i, run := range b.runs {
		ids[i] = run.EndpointID
	}
	if err := b.db.q.ScheduleLock(ctx, tx, ids); err != nil {
		return fmt.Errorf("locking %d schedules: %w", len(ids), err)
	}
	now, err := b.db.decisionTime(ctx, tx)
	if err != nil {
		return fmt.Errorf("reading the database's time: %w", err)
	}
	found, faults, err := b.db.states(ctx, tx, ids)
	if err != nil {
		return err
	}
	b.plans = make(map[[16]byte]*endpoints.Endpoint, len(found))
	for _, run := range b.runs {
		e := found[run.EndpointID]
		if e == nil { // Archived meanwhile: the run is history, and nothing follows.
			b.history.add(run, 0, 0, nil)
			continue
		}
		if err := b.decide(ctx, tx, e, run, now, faults[run.EndpointID]); err != nil {
			return err
		}
	}
	return b.write(ctx, tx, now)
}

// decide plans what follows one run.
func (b *batch) decide(ctx context.Context, tx pgx.Tx, e *endpoints.Endpoint, run runs.Run, now time.Time, fault error) error {
	oneShot := e.State.OneShotHint
	decided, err := e.AfterRun(now, finishedOf(run))
	if fault = errors.Join(fault, err); fault != nil {
		b.history.add(run, e.Version, e.State.FailureCount, nil)
		return b.db.quarantine(ctx, tx, e, now, fault)
	}
	if oneShot != nil && e.State.OneShotHint == nil {
		if err := b.db.q.HintEnd(ctx, tx, dbsqlc.HintEndParams{EndpointID: e.ID, Kind: hintOneShot, EndedAt: now}); err != nil {
			return fmt.Errorf("consuming the one-shot hint of endpoint %s: %w", e.ID, err)
		}
		b.events.add(e.TenantID, now, hintNews(e.ID, hintOneShot, oneShot, nil))
	}
	b.history.add(run, e.Version, e.State.FailureCount, &decided)
	b.history.addSkips(e, now)
	b.skipped = append(b.skipped, e.Unrecorded...)
	b.decided = append(b.decided, decided.Due.Source)
	b.plan(e, now)
	return nil
}

// plan adds the next due time of an endpoint to the update.
func (b *batch) plan(e *endpoints.Endpoint, now time.Time) {
	s, n := e.State, &b.next
	n.EndpointIds = append(n.EndpointIds, e.ID)
	n.PlannedAt = append(n.PlannedAt, s.Due.At)
	n.Slot = append(n.Slot, s.Due.Slot)
	n.Attempt = append(n.Attempt, int16(s.Due.Attempt)) //nolint:gosec // At most 10.
	n.Source = append(n.Source, string(s.Due.Source))
	n.Anchor = append(n.Anchor, s.Anchor)
	n.FailureCount = append(n.FailureCount, int32(s.FailureCount)) //nolint:gosec // Counts runs.
	n.ManualAt = append(n.ManualAt, s.ManualAt)
	n.RetryAfter = append(n.RetryAfter, s.RetryAfter)
	n.LastSlot = append(n.LastSlot, s.LastSlot)
	n.LastAttempt = append(n.LastAttempt, int16(s.LastRun.Attempt)) //nolint:gosec // At most 10.
	n.LastStatus = append(n.LastStatus, s.LastRun.Status)
	n.LastStartedAt = append(n.LastStartedAt, s.LastRun.StartedAt)
	n.LastFinishedAt = append(n.LastFinishedAt, s.LastRun.FinishedAt)
	n.AccountedUntil = append(n.AccountedUntil, s.AccountedUntil)
	n.Keep = append(n.Keep, b.keep > 0 && s.Due.At.Before(now.Add(b.keep)))
	b.plans[e.ID] = e
}

// write writes schedules and history.
func (b *batch) write(ctx context.Context, tx pgx.Tx, now time.Time) error {
	b.next.WorkerID, b.next.Now = b.worker, now
	b.next.LockTtlMs = int32(b.lockTTL.Milliseconds()) //nolint:gosec // Minutes at most.
	rows, err := b.db.q.ScheduleFinish(ctx, tx, b.next)
	if err != nil {
		return fmt.Errorf("planning %d endpoints: %w", len(b.next.EndpointIds), err)
	}
	if len(rows) != len(b.next.EndpointIds) {
		return fmt.Errorf("planning %d endpoints changed %d rows", len(b.next.EndpointIds), len(rows))
	}
	for _, row := range rows {
		if row.ClaimedBy != nil {
			b.kept = append(b.kept, claimOf(b.plans[row.EndpointID], row))
		}
	}
	if err := b.events.write(ctx, tx, b.db); err != nil {
		return err
	}
	return b.history.write(ctx, tx, b.db)
}

func claimOf(e *endpoints.Endpoint, row dbsqlc.ScheduleFinishRow) claims.Claim {
	due := e.State.Due
	return claims.Claim{
		EndpointID: e.ID, Token: row.ClaimToken, Slot: due.Slot, PlannedAt: due.At, Attempt: due.Attempt,
		Source: string(due.Source), Version: e.Version, LockedUntil: row.DueAt,
	}
}

func finishedOf(run runs.Run) endpoints.Finished {
	o := run.Outcome
	f := endpoints.Finished{
		Slot: run.ScheduledFor, Attempt: run.Attempt, Manual: run.Source == string(governor.SourceManual),
		StartedAt: run.StartedAt, FinishedAt: run.FinishedAt, Status: string(o.Status),
		Retryable: o.Retryable(), MaybeSent: o.MaybeSent, RetryAfter: o.RetryAfter,
	}
	switch {
	case o.Status == runs.Succeeded:
		f.Verdict = endpoints.Success
	case o.CountsAsFailure():
		f.Verdict = endpoints.Failure
	}
	return f
}
