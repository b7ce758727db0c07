package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
)

// batch is runs whose rows are locked, on their way into the history, with what they lead to. A finish and a settlement write
// their runs in this same way: the statements of reads, then settle.
type batch struct {
	db      *DB
	worker  [16]byte      // who keeps what comes due close by
	keep    dispatch.Keep // what may still stay with the worker
	lockTTL time.Duration
	runs    []runs.Run
	fault   error // why nothing can be decided about the runs, which are recorded all the same; nil: it can

	optimistic bool // the rows are not locked: what stands in the way ends in errStale

	now   time.Time // of the decisions
	found map[[16]byte]*endpoints.Endpoint

	stored
	*columns

	events  events
	kept    []claims.Claim
	decided []governor.Source
	skipped []endpoints.Skip
	answers validators
	stops   []stopped
	queued  []statement // of one-off items

	archived [][16]byte // endpoints whose rows go with the end of their run
	alarms   alarms
}

// newBatch returns a batch of runs; whoever is done with it releases its columns.
func newBatch(db *DB, list []runs.Run) *batch {
	return &batch{db: db, runs: list, columns: takeColumns(len(list))}
}

// reads returns the statements that lock the schedules of endpoints and read what decisions about them need. Their order counts:
// what is read after the lock is what the previous holder of a row committed.
func (b *batch) reads(ctx context.Context, ids [][16]byte) []statement {
	return []statement{
		func(q dbsqlc.DBTX) (err error) {
			b.schedules, err = b.db.q.ScheduleLock(ctx, q, ids)
			return err
		},
		b.db.clock(ctx, &b.now),
		func(q dbsqlc.DBTX) (err error) {
			b.hints, err = b.db.q.HintGetMany(ctx, q, ids)
			return err
		},
		b.db.oneOffs(ctx, &b.stored, ids),
	}
}

// settle decides what follows each run and writes everything.
func (b *batch) settle(ctx context.Context, tx pgx.Tx) error {
	if b.fault != nil {
		b.hints = nil // They may be what it panics over.
	}
	if len(b.runs) == 0 {
		return nil
	}
	b.schedules = slices.DeleteFunc(b.schedules, func(row *dbsqlc.Schedule) bool { return row.Archived })
	found, faults, err := b.db.assemble(ctx, tx, b.stored, b.endpoints)
	if err != nil {
		return err
	}
	b.found = found
	if b.optimistic && (len(faults) > 0 || len(found) < len(b.runs)) {
		return errStale
	}
	for _, row := range b.schedules {
		b.rows[row.EndpointID] = row
	}
	for _, run := range b.runs {
		e := found[run.EndpointID]
		if e == nil { // Archived meanwhile: the run is history, and nothing follows.
			b.history.add(run, 0, 0, nil)
			b.archived = append(b.archived, run.EndpointID)
			continue
		}
		e.State.Running = nil
		if err := b.decide(ctx, tx, e, run, faults[run.EndpointID]); err != nil {
			return err
		}
	}
	if err := b.write(ctx, tx); err != nil {
		return err
	}
	return b.stop(ctx, tx)
}

// decide plans what follows one run.
func (b *batch) decide(ctx context.Context, tx pgx.Tx, e *endpoints.Endpoint, run runs.Run, fault error) error {
	oneShot, was := e.State.OneShotHint, ended{run: run, failures: e.State.FailureCount, due: e.State.Due}
	if last := e.State.LastRun; last != nil {
		was.free = last.FinishedAt
	}
	var decided endpoints.Recorded
	var err error
	if b.fault == nil {
		if panicked := b.db.contain(func() { decided, err = e.AfterRun(b.now, finishedOf(run)) }); panicked != nil {
			err = errPanicked
		}
	}
	if fault = errors.Join(fault, err, b.fault); fault != nil {
		if b.optimistic {
			return errStale
		}
		b.history.add(run, e.Version, e.State.FailureCount, nil)
		return b.db.quarantine(ctx, tx, e, b.now, fault)
	}
	if oneShot != nil && e.State.OneShotHint == nil {
		if err := b.db.q.HintEnd(ctx, tx, dbsqlc.HintEndParams{EndpointID: e.ID, Kind: hintOneShot, EndedAt: b.now}); err != nil {
			return fmt.Errorf("consuming the one-shot hint of endpoint %s: %w", e.ID, err)
		}
		b.events.add(e.TenantID, b.now, hintNews(e.ID, hintOneShot, oneShot, nil))
	}
	b.history.add(run, e.Version, e.State.FailureCount, &decided)
	b.history.addSkips(e, b.now)
	b.skipped = append(b.skipped, e.Unrecorded...)
	b.decided = append(b.decided, decided.Due.Source)
	b.answers.add(run)
	b.queued = append(b.queued, b.db.oneOffWrites(ctx, e, "")...)
	if run.Outcome.Stop != "" {
		b.stops = append(b.stops, stopped{e, run.Outcome.Stop})
	}
	if book := b.db.book.Load(); book.About(e.TenantID) {
		b.alarms.judge(book, e, was)
	}
	b.plan(e, run.Outcome.Stop == "")
	return nil
}

// plan adds the next due time of an endpoint to the update. It may stay with the worker unless the endpoint is about to be stopped.
func (b *batch) plan(e *endpoints.Endpoint, keep bool) {
	s, n, row := e.State, &b.next, b.rows[e.ID]
	n.Places = append(n.Places, row.Place)
	n.Tokens = append(n.Tokens, row.ClaimToken)
	n.Revisions = append(n.Revisions, row.Revision)
	n.Hinted = append(n.Hinted, s.Hinted())
	n.EndpointIds = append(n.EndpointIds, e.ID)
	n.PlannedAt = append(n.PlannedAt, s.Due.At)
	n.Slot = append(n.Slot, s.Due.Slot)
	n.Attempt = append(n.Attempt, int16(s.Due.Attempt))                //nolint:gosec // At most 10.
	n.InfraAttempt = append(n.InfraAttempt, int16(s.Due.InfraAttempt)) //nolint:gosec // At most 3.
	n.Source = append(n.Source, string(s.Due.Source))
	n.Anchor = append(n.Anchor, s.Anchor)
	n.FailureCount = append(n.FailureCount, int32(s.FailureCount)) //nolint:gosec // Counts runs.
	n.ManualAt = append(n.ManualAt, manualAt(&e.State))
	n.RetryAfter = append(n.RetryAfter, s.RetryAfter)
	n.LastSlot = append(n.LastSlot, s.LastSlot)
	n.LastAttempt = append(n.LastAttempt, int16(s.LastRun.Attempt))                //nolint:gosec // At most 10.
	n.LastInfraAttempt = append(n.LastInfraAttempt, int16(s.LastRun.InfraAttempt)) //nolint:gosec // At most 3.
	n.LastStatus = append(n.LastStatus, s.LastRun.Status)
	n.LastStartedAt = append(n.LastStartedAt, s.LastRun.StartedAt)
	n.LastFinishedAt = append(n.LastFinishedAt, s.LastRun.FinishedAt)
	n.LastCallAt = append(n.LastCallAt, s.LastCall)
	n.AccountedUntil = append(n.AccountedUntil, s.AccountedUntil)
	keep = keep && b.keep.Most > 0 && s.Due.At.Before(b.now.Add(b.keep.Within))
	if keep {
		b.keep.Most--
	}
	n.Keep = append(n.Keep, keep)
}

// write writes schedules and history, in one round trip.
func (b *batch) write(ctx context.Context, tx pgx.Tx) error {
	b.next.WorkerID, b.next.Now, b.next.At = b.worker, b.now, b.db.now()
	b.next.Locked = !b.optimistic
	b.next.LockTtlMs = int32(b.lockTTL.Milliseconds()) //nolint:gosec // Minutes at most.
	var rows []*dbsqlc.ScheduleFinishRow
	plan := func(q dbsqlc.DBTX) (err error) {
		rows, err = b.db.q.ScheduleFinish(ctx, q, b.next)
		return err
	}
	statements := slices.Concat([]statement{plan}, b.history.writes(ctx, b.db), b.events.writes(ctx, b.db), b.answers.writes(ctx, b.db), b.alarms.writes(ctx, b.db, b.now), b.queued)
	if len(b.archived) > 0 {
		statements = append(statements, func(q dbsqlc.DBTX) error { return b.db.q.ScheduleDeleteArchived(ctx, q, b.archived) })
	}
	if err := pipeline(ctx, tx, statements...); err != nil {
		return fmt.Errorf("planning %d endpoints and recording %d runs: %w", len(b.next.EndpointIds), len(b.runs), err)
	}
	if len(rows) < len(b.next.EndpointIds) && b.optimistic {
		return errStale
	}
	if len(rows) != len(b.next.EndpointIds) {
		return fmt.Errorf("planning %d endpoints changed %d rows", len(b.next.EndpointIds), len(rows))
	}
	for _, row := range rows {
		if row.ClaimedBy != nil {
			b.kept = append(b.kept, claimOf(b.found[row.EndpointID], row))
		}
	}
	return nil
}

func claimOf(e *endpoints.Endpoint, row *dbsqlc.ScheduleFinishRow) claims.Claim {
	due := e.State.Due
	return claims.Claim{
		EndpointID: e.ID, Place: place(row.Place), Token: row.ClaimToken, Slot: due.Slot, PlannedAt: due.At, Attempt: due.Attempt,
		InfraAttempt: due.InfraAttempt, Source: string(due.Source), Version: e.Version, LockedUntil: row.DueAt, Hinted: e.State.Hinted(),
	}
}

func finishedOf(run runs.Run) endpoints.Finished {
	o := run.Outcome
	f := endpoints.Finished{
		Slot: run.ScheduledFor, Attempt: run.Attempt, InfraAttempt: run.InfraAttempt, Source: governor.Source(run.Source),
		StartedAt: run.StartedAt, FinishedAt: run.FinishedAt, Status: string(o.Status),
		Retryable: o.Retryable(), MaybeSent: o.MaybeSent, RetryAfter: o.RetryAfter, Unanswered: o.StatusCode == 0,
		Interrupted: o.Interrupted(), Reason: string(o.Reason),
	}
	switch {
	case o.Status == runs.Succeeded:
		f.Verdict = endpoints.Success
	case o.CountsAsFailure():
		f.Verdict = endpoints.Failure
	}
	return f
}
