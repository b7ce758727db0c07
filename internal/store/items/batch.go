package items

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
	"rubato/internal/spending"
	"rubato/internal/store/dbsqlc"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/history"
	noticestore "rubato/internal/store/notices"
	"rubato/internal/store/pg"
)

// batch records finished runs in the history and plans the next due time of each endpoint, in one
// transaction. A finish and a settlement by the sweeper share it: first the statements of reads,
// then settle.
//
// One goroutine owns a batch. It lives for one transaction and is built anew for a retry.
type batch struct {
	db *endpointstore.States
	// tx is the transaction with the locked rows. nil: the finish is optimistic. Its rows are not
	// locked, its writes are one pipeline, and all that needs more returns errStale.
	tx pgx.Tx
	// worker claims the endpoints that keep lets it hold on to.
	worker [16]byte
	// keep bounds the endpoints that stay claimed by the worker because they are due soon.
	keep    dispatch.Keep
	lockTTL time.Duration
	runs    []runs.Run
	// fault is set if decisions about the runs panicked. Then the runs are recorded and no decision
	// is made.
	fault error

	// now is the database's time of the decisions.
	now   time.Time
	found map[[16]byte]*endpoints.Endpoint

	endpointstore.Stored
	*columns

	events  history.Events
	kept    []claims.Claim
	decided []governor.Source
	skipped []endpoints.Skip
	answers validators
	noise   noiseRows
	// spent are the shared budgets of the runs, one entry per run.
	spent []spending.Key
	stops []stopped
	// givenUp are the runs that become dead letters.
	givenUp []endpointstore.GivenUp
	// starts are the chains that the runs start.
	starts dbsqlc.ChainStartInsertParams
	// queued are the statements that update one-off items, and insert dead letters and starts of
	// chains.
	queued []pg.Statement

	// archived are endpoints that were archived during their run. Their schedule rows are deleted.
	archived [][16]byte
	// ended are the calls and detached runs that have had their last attempt. Their schedule rows are
	// deleted.
	ended  dbsqlc.CallEndParams
	alarms noticestore.EpisodeChanges
}

// newBatch returns a batch of runs in a transaction, or an optimistic one for a nil tx. The caller
// must release its columns when the transaction is over.
func newBatch(db *endpointstore.States, tx pgx.Tx, list []runs.Run) *batch {
	return &batch{
		db:      db,
		tx:      tx,
		runs:    list,
		columns: takeColumns(len(list)),
	}
}

// reads returns the statements that lock the schedules of endpoints and read the inputs of the
// decisions. Their order matters: each statement has its own snapshot, therefore statements after
// the lock see the commit of the previous lock holder.
func (b *batch) reads(ctx context.Context, ids [][16]byte) []pg.Statement {
	return []pg.Statement{
		func(q dbsqlc.DBTX) (err error) {
			b.Schedules, err = b.db.Q.ScheduleLock(ctx, q, ids)
			return err
		},
		b.db.Clock(ctx, &b.now),
		func(q dbsqlc.DBTX) (err error) {
			b.Hints, err = b.db.Q.HintGetMany(ctx, q, ids)
			return err
		},
		b.db.OneOffs(ctx, &b.Stored, ids),
	}
}

// optimistic reports whether the rows are not locked.
func (b *batch) optimistic() bool { return b.tx == nil }

// reader returns the connection for reads beside the rows of the batch. Each statement has a
// snapshot of its own, in a transaction as well.
func (b *batch) reader() dbsqlc.DBTX {
	if b.optimistic() {
		return b.db.Hot
	}
	return b.tx
}

// settle makes the decision after each run and writes runs, schedules and events.
func (b *batch) settle(ctx context.Context) error {
	if b.fault != nil {
		b.Hints = nil // A hint may be the cause of the panic.
	}
	if len(b.runs) == 0 {
		return nil
	}
	faults, err := b.assemble(ctx)
	if err != nil {
		return err
	}
	b.detachedFirst()
	for _, run := range b.runs {
		e := b.found[run.RowID()]
		if e == nil { // Archived during the run: record the run and plan nothing.
			b.history.Add(run, 0, 0, nil)
			b.givenUp = append(b.givenUp, endpointstore.GivenUp{Run: run})
			b.archived = append(b.archived, run.RowID())
			continue
		}
		e.State.Running = nil
		if err := b.decide(ctx, e, run, faults[run.RowID()]); err != nil {
			return err
		}
	}
	if len(b.starts.RunIds) > 0 {
		b.queued = append(b.queued, func(q dbsqlc.DBTX) error { return b.db.Q.ChainStartInsert(ctx, q, b.starts) })
	}
	if b.optimistic() && len(b.stops) > 0 {
		return errStale
	}
	letters, err := b.db.DeadLetters(ctx, b.reader(), b.now, b.givenUp)
	if err != nil {
		return err
	}
	b.queued = append(b.queued, letters...)
	if err := b.write(ctx); err != nil {
		return err
	}
	return b.stop(ctx)
}

// assemble finds the endpoints of the runs, and returns the faults of those that no decision can be
// made about. An optimistic batch has neither such faults nor archived endpoints.
func (b *batch) assemble(ctx context.Context) (map[[16]byte]error, error) {
	b.Schedules = slices.DeleteFunc(b.Schedules, func(row *dbsqlc.Schedule) bool { return row.Archived })
	found, faults, err := b.db.Assemble(ctx, b.reader(), b.Stored, b.endpoints)
	if err != nil {
		return nil, err
	}
	if b.optimistic() && (len(faults) > 0 || len(found) < len(b.runs)) {
		return nil, errStale
	}
	b.found = found
	for _, row := range b.Schedules {
		b.rows[row.EndpointID] = row
	}
	return faults, nil
}

// decide makes the decision after one run. If the decision fails, the endpoint is quarantined, and
// its run is recorded all the same.
func (b *batch) decide(ctx context.Context, e *endpoints.Endpoint, run runs.Run, fault error) error {
	oneShot, was := e.State.OneShotHint, noticestore.FinishedRun{
		Run:      run,
		Failures: e.State.FailureCount,
		Due:      e.State.Due,
	}
	if last := e.State.LastRun; last != nil {
		was.Free = last.FinishedAt
	}
	from := b.from(e)
	b.lend(e, run)
	var decided endpoints.Recorded
	var err error
	if b.fault == nil {
		if panicked := b.db.Contain(func() { decided, err = e.AfterRun(b.now, history.FinishedOf(run)) }); panicked != nil {
			err = endpointstore.ErrPanicked
		}
	}
	if fault = errors.Join(fault, err, b.fault); fault != nil {
		if b.optimistic() {
			return errStale
		}
		if e.Call != nil { // No person could mend it.
			return b.endCall(ctx, e, run, nil)
		}
		b.history.Add(run, e.Version, e.State.FailureCount, nil)
		return b.db.Quarantine(ctx, b.tx, e, b.now, fault)
	}
	if e.Call != nil {
		return b.endCall(ctx, e, run, &decided)
	}
	if oneShot != nil && e.State.OneShotHint != oneShot {
		b.queued = append(b.queued, func(q dbsqlc.DBTX) error {
			return b.db.Q.HintEnd(ctx, q, dbsqlc.HintEndParams{
				EndpointID: e.ID,
				Kind:       history.HintOneShot,
				EndedAt:    b.now,
			})
		})
		b.events.Add(e.TenantID, b.now, history.HintEvents(e.ID, history.HintOneShot, oneShot, nil))
	}
	decided.From = from
	if !e.Steered() {
		decided.Shared = nil // Its price had no effect.
	}
	b.history.Add(run, e.Version, e.State.FailureCount, &decided)
	b.history.AddSkips(e, b.now)
	b.skipped = append(b.skipped, e.Unrecorded...)
	b.decided = append(b.decided, decided.Due.Source)
	b.spend(e, run)
	b.answers.add(run)
	b.noise.add(run)
	b.plannedLook(ctx, e, oneShot)
	b.queued = append(b.queued, b.db.OneOffWrites(ctx, e, "")...)
	if e.GivenUp {
		b.givenUp = append(b.givenUp, endpointstore.GivenUp{Run: run, Endpoint: e})
	}
	endpointstore.AddChainStarts(&b.starts, e.ChainStarts, run)
	b.askStop(e, run)
	if book := b.db.Rules.Load(); book.About(e.TenantID) {
		b.alarms.Judge(book, e, was)
	}
	b.plan(e, !b.stopping(e))
	return nil
}

// spend counts a run against the budget that its endpoint shares.
func (b *batch) spend(e *endpoints.Endpoint, run runs.Run) {
	if e.Shared != nil && run.Outcome.Status != runs.Skipped && governor.Source(run.Source) != governor.SourceManual {
		b.spent = append(b.spent, spending.Key{TenantID: e.TenantID, Name: e.Shared.Key})
	}
}

// from returns the state before a finish for its record, and nil if the record does not need it. An
// optimistic finish decides from the state that the decision before left, because a change since
// then would have been a conflict. The first finish of a day records its state too, so that a
// replay can begin there. On the day of the registration it begins at that.
func (b *batch) from(e *endpoints.Endpoint) *endpoints.State {
	last := e.State.LastRun
	if b.optimistic() && (last == nil || pg.DayOf(last.FinishedAt).Equal(pg.DayOf(b.now))) {
		return nil
	}
	state := e.State
	return &state
}

// plannedLook inserts the one-shot hint that the decision set, if any: a close look of the search
// for noise.
func (b *batch) plannedLook(ctx context.Context, e *endpoints.Endpoint, before *endpoints.Hint) {
	look := e.State.OneShotHint
	if look == nil || look == before {
		return
	}
	b.events.Add(e.TenantID, b.now, history.HintEvents(e.ID, history.HintOneShot, nil, look))
	b.queued = append(b.queued, func(q dbsqlc.DBTX) error {
		return b.db.Q.HintInsert(ctx, q, endpointstore.HintRow(e.ID, history.HintOneShot, look))
	})
}

// plan adds the next due time of an endpoint to the schedule update. The worker keeps the claim if
// keep is set, the endpoint is due within keep.Within, the worker serves its tags, and the limit
// keep.Most is not used up.
func (b *batch) plan(e *endpoints.Endpoint, keep bool) {
	s, n, row := e.State, &b.next, b.rows[e.ID]
	n.CTIDs = append(n.CTIDs, row.CTID)
	n.Tokens = append(n.Tokens, row.ClaimToken)
	n.Revisions = append(n.Revisions, row.Revision)
	n.Hinted = append(n.Hinted, s.Hinted())
	n.Priorities = append(n.Priorities, int16(e.Priority()))
	n.EndpointIds = append(n.EndpointIds, e.ID)
	n.PlannedAt = append(n.PlannedAt, s.Due.At)
	n.Slot = append(n.Slot, s.Due.Slot)
	n.Attempt = append(n.Attempt, int16(s.Due.Attempt))
	n.InfraAttempt = append(n.InfraAttempt, int16(s.Due.InfraAttempt))
	n.Source = append(n.Source, string(s.Due.Source))
	n.Anchor = append(n.Anchor, s.Anchor)
	n.FailureCount = append(n.FailureCount, int32(s.FailureCount))
	n.RunsDone = append(n.RunsDone, int32(s.RunsDone))
	n.EndedAt = append(n.EndedAt, s.EndedAt)
	n.ManualAt = append(n.ManualAt, endpointstore.ManualAt(&e.State))
	n.RetryAfter = append(n.RetryAfter, s.RetryAfter)
	n.TargetNext = append(n.TargetNext, s.TargetNext)
	n.FreshUntil = append(n.FreshUntil, s.FreshUntil)
	n.LastSlot = append(n.LastSlot, s.LastSlot)
	n.LastRunSlot = append(n.LastRunSlot, s.LastRun.Slot)
	n.LastAttempt = append(n.LastAttempt, int16(s.LastRun.Attempt))
	n.LastInfraAttempt = append(n.LastInfraAttempt, int16(s.LastRun.InfraAttempt))
	n.LastStatus = append(n.LastStatus, s.LastRun.Status)
	n.LastStartedAt = append(n.LastStartedAt, s.LastRun.StartedAt)
	n.LastFinishedAt = append(n.LastFinishedAt, s.LastRun.FinishedAt)
	n.LastCallAt = append(n.LastCallAt, s.LastCall)
	n.AccountedUntil = append(n.AccountedUntil, s.AccountedUntil)
	n.Tempo = append(n.Tempo, s.Tempo.Encode())
	keep = keep && b.keep.Most > 0 && b.keep.TagSets.Keeps(row.TagSetID) && s.Due.At.Before(b.now.Add(b.keep.Within))
	if keep {
		b.keep.Most--
	}
	n.Keep = append(n.Keep, keep)
}

// write updates the schedules and inserts the history in one round trip. If the batch is
// optimistic, that is the transaction, which fails if it changes fewer rows than it has endpoints.
func (b *batch) write(ctx context.Context) error {
	b.next.WorkerID, b.next.Now, b.next.At = b.worker, b.now, b.db.Now()
	b.next.Locked = !b.optimistic()
	b.next.LockTtlMs = int32(b.lockTTL.Milliseconds())
	b.ended.Locked, b.ended.At = b.next.Locked, b.next.At
	var rows []*dbsqlc.ScheduleFinishRow
	var ended []dbsqlc.UUID
	plan := func(q dbsqlc.DBTX) (err error) {
		rows, err = b.db.Q.ScheduleFinish(ctx, q, b.next)
		return err
	}
	statements := slices.Concat(
		[]pg.Statement{plan}, b.history.Writes(ctx, b.db.DB), b.events.Writes(ctx, b.db.DB),
		b.answers.writes(ctx, b.db.DB), b.noise.writes(ctx, b.db.DB), b.alarms.Writes(ctx, b.db.DB, b.now), b.queued,
	)
	if len(b.archived) > 0 {
		statements = append(statements, func(q dbsqlc.DBTX) error { return b.db.Q.ScheduleDeleteArchived(ctx, q, b.archived) })
	}
	if len(b.ended.EndpointIds) > 0 {
		statements = append(statements, func(q dbsqlc.DBTX) (err error) {
			ended, err = b.db.Q.CallEnd(ctx, q, b.ended)
			return err
		})
	}
	if err := b.send(ctx, statements); err != nil {
		return fmt.Errorf("planning %d endpoints and recording %d runs: %w", len(b.next.EndpointIds), len(b.runs), err)
	}
	if len(ended) != len(b.ended.EndpointIds) {
		return fmt.Errorf("ending %d calls changed %d rows", len(b.ended.EndpointIds), len(ended))
	}
	for _, id := range ended {
		b.db.Forget(id)
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

// send runs statements in the transaction of the batch, or as one if it is optimistic.
func (b *batch) send(ctx context.Context, statements []pg.Statement) error {
	if b.optimistic() {
		return pg.PipelineOn(ctx, b.db.Hot, statements...)
	}
	return pg.Pipeline(ctx, b.tx, statements...)
}

func claimOf(e *endpoints.Endpoint, row *dbsqlc.ScheduleFinishRow) claims.Claim {
	due := e.State.Due
	return claims.Claim{
		EndpointID:   e.ID,
		OwnerID:      pg.OrZero(e.Call).Owner,
		CTID:         ctid(row.CTID),
		Token:        row.ClaimToken,
		Slot:         due.Slot,
		PlannedAt:    due.At,
		Attempt:      due.Attempt,
		InfraAttempt: due.InfraAttempt,
		Source:       string(due.Source),
		Version:      e.Version,
		LockedUntil:  row.DueAt,
		Hinted:       e.State.Hinted(),
		Priority:     int(e.Priority()),
	}
}
