package items

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

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

// Detach implements dispatch.Executions. It moves the run in flight of an endpoint into a row of
// its own and plans the next due time of the endpoint, in one transaction. The run keeps its ID,
// fencing token and lock.
func (s *Executions) Detach(ctx context.Context, d dispatch.Detaching) (item [16]byte, ours bool, err error) {
	held := d.Run
	var spent []spending.Key
	var skipped []time.Time
	days := func() []time.Time { return skipped }
	err = s.db.WithPartitions(ctx, days, func() error {
		return s.db.HotTx(ctx, func(tx pgx.Tx) error {
			b := newBatch(s.db, tx, nil)
			defer b.release()
			var rows []*dbsqlc.ScheduleListDetachedRow
			list := func(q dbsqlc.DBTX) (err error) {
				rows, err = s.db.Q.ScheduleListDetached(ctx, q, dbsqlc.ScheduleListDetachedParams{OwnerID: held.EndpointID, MaxRows: endpoints.MaxDetached})
				return err
			}
			if err := pg.Pipeline(ctx, tx, append(b.reads(ctx, [][16]byte{held.EndpointID}), list)...); err != nil {
				return fmt.Errorf("locking the row of run %s: %w", runs.ID(held.RunID), err)
			}
			if item, ours = detached(rows, d); ours {
				return nil
			}
			if len(b.Schedules) == 0 || !holds(b.Schedules[0], d) {
				return nil
			}
			if ours = true; b.Schedules[0].Archived { // The run goes on, and its end deletes the row.
				return nil
			}
			item, err = b.detach(ctx, d)
			skipped, spent = history.DaysOf(b.skipped), b.spent
			return err
		})
	})
	if err != nil {
		return item, false, fmt.Errorf("detaching run %s: %w", runs.ID(held.RunID), err)
	}
	for _, key := range spent {
		s.db.Spent.Add(key, 1)
	}
	return item, ours, nil
}

// holds reports whether a worker holds a run in flight under a fencing token.
func holds(row *dbsqlc.Schedule, d dispatch.Detaching) bool {
	return pg.OrZero(row.RunID) == d.Run.RunID && row.ClaimToken == d.Run.Token && pg.OrZero(row.ClaimedBy) == d.Worker
}

// detached finds the row of a run that was detached before, because the response to an earlier
// attempt was lost. With the most detached runs it returns no row and ours: the run holds the row
// of its endpoint.
func detached(rows []*dbsqlc.ScheduleListDetachedRow, d dispatch.Detaching) (item [16]byte, ours bool) {
	for _, row := range rows {
		if pg.OrZero(row.RunID) == d.Run.RunID && row.ClaimToken == d.Run.Token {
			return row.EndpointID, pg.OrZero(row.ClaimedBy) == d.Worker
		}
	}
	return item, len(rows) == endpoints.MaxDetached
}

// detach inserts the row of the detached run and replans its endpoint. The caller has locked the
// row of the endpoint. If the configuration is unusable, the run stays, and its finish quarantines
// the endpoint.
func (b *batch) detach(ctx context.Context, d dispatch.Detaching) (item [16]byte, err error) {
	found, faults, err := b.db.Assemble(ctx, b.tx, b.Stored, nil)
	e := found[d.Run.EndpointID]
	if err != nil || faults[d.Run.EndpointID] != nil {
		return item, err
	}
	started := d.StartedAt
	if began := *b.Schedules[0].StartedAt; started.Before(began) {
		started = began
	}
	planned, err := e.Detach(b.now, started)
	if err != nil {
		return item, fmt.Errorf("planning endpoint %s beside its run: %w", e.ID, err)
	}
	item = endpoints.NewID()
	b.spend(e, runs.Run{Source: string(planned.From.Due.Source)})
	b.history.AddSkips(e, b.now)
	b.skipped = e.Unrecorded
	writes := []pg.Statement{
		func(q dbsqlc.DBTX) error {
			return b.db.Q.ScheduleDetach(ctx, q, dbsqlc.ScheduleDetachParams{ItemID: item, EndpointID: e.ID})
		},
	}
	if hint := e.State.OneShotHint; planned.From.OneShotHint != hint {
		writes = append(writes, func(q dbsqlc.DBTX) error {
			return b.db.Q.HintEnd(ctx, q, dbsqlc.HintEndParams{EndpointID: e.ID, Kind: history.HintOneShot, EndedAt: b.now})
		})
		b.events.Add(e.TenantID, b.now, history.HintEvents(e.ID, history.HintOneShot, planned.From.OneShotHint, hint))
	}
	writes = append(writes, b.events.Writes(ctx, b.db.DB)...)
	if len(b.skipped) > 0 {
		writes = append(writes, b.history.Writes(ctx, b.db.DB)...)
	}
	return item, pg.Pipeline(ctx, b.tx, append(writes, b.replan(ctx, e, planned)...)...)
}

// replan returns the statements that put a decision outside a finish in force and record it.
func (b *batch) replan(ctx context.Context, e *endpoints.Endpoint, planned endpoints.Recorded) []pg.Statement {
	due := e.State.Due.At.UnixMilli()
	return []pg.Statement{
		func(q dbsqlc.DBTX) error { return b.db.Replan(ctx, q, e) },
		func(q dbsqlc.DBTX) error { return b.db.Decided(ctx, q, e, planned) },
		func(q dbsqlc.DBTX) error { return b.db.Q.ScheduleNotify(ctx, q, due) },
	}
}

// lockOwner locks the row of a detached run's endpoint before that of the run, because changes of
// the endpoint lock them in this order.
func lockOwner(ctx context.Context, tx pgx.Tx, db *endpointstore.States, run runs.Run) error {
	if run.ItemID == [16]byte{} {
		return nil
	}
	if _, err := db.Q.ScheduleLock(ctx, tx, [][16]byte{run.EndpointID}); err != nil {
		return fmt.Errorf("locking the endpoint of detached run %s: %w", run.ID, err)
	}
	return nil
}

// rowsOf returns the keys of the rows that the end of a run changes: its own, and that of the
// endpoint of a detached run.
func rowsOf(run runs.Run) [][16]byte {
	if run.ItemID == [16]byte{} {
		return [][16]byte{run.EndpointID}
	}
	return [][16]byte{run.ItemID, run.EndpointID}
}

// result is the end of a detached run for its endpoint.
type result struct {
	run runs.Run
	// item is the detached run in the form of a call.
	item *endpoints.Endpoint
	// decided is the decision for another attempt.
	decided *endpoints.Recorded
}

// endDetached ends a detached run, or plans its next attempt. The history names its endpoint.
func (b *batch) endDetached(ctx context.Context, r result) error {
	owner := b.found[r.run.EndpointID] // Nil: it was archived meanwhile.
	failures := 0
	if owner != nil {
		was := noticestore.FinishedRun{
			Run:      r.run,
			Failures: owner.State.FailureCount,
			Due:      r.item.State.Due,
		}
		if err := b.take(ctx, owner, r); err != nil {
			return err
		}
		failures = owner.State.FailureCount
		if book := b.db.Rules.Load(); book.About(owner.TenantID) {
			told := *owner
			told.GivenUp = r.item.GivenUp
			b.alarms.Judge(book, &told, was)
		}
		endpointstore.AddChainStarts(&b.starts, r.item.ChainStarts, r.run)
	}
	b.history.Add(r.run, r.item.Version, failures, nil)
	b.answers.add(r.run)
	if !r.item.Ended {
		b.decided = append(b.decided, r.decided.Due.Source)
		b.plan(r.item, true)
		return nil
	}
	b.delete(r.item, r.run)
	if r.item.GivenUp {
		b.givenUp = append(b.givenUp, endpointstore.GivenUp{Run: r.run, Endpoint: owner})
	}
	return nil
}

// lend gives a detached run what its endpoint knows about further attempts: none during a pause or
// if the answer asks to stop, and none before the minimum interval.
func (b *batch) lend(e *endpoints.Endpoint, run runs.Run) {
	if !e.Call.Detached() {
		return
	}
	if owner := b.found[e.Call.Owner]; owner != nil {
		e.State.PausedUntil, e.State.LastCall = owner.State.PausedUntil, owner.State.LastCall
	}
	if run.Outcome.Stop != "" {
		e.State.PausedUntil = governor.Indefinite
	}
}

// take applies a finished attempt of a detached run to its endpoint. The caller has locked the row
// of the endpoint. If a run of this batch holds that row, the finish of that run writes it.
func (b *batch) take(ctx context.Context, e *endpoints.Endpoint, r result) error {
	run, held := r.run, e.State.Running != nil
	planned, err := e.Result(b.now, history.FinishedOf(run), !r.item.Ended)
	switch {
	case err != nil && held: // The finish of the run that holds the row quarantines the endpoint.
		return nil
	case err != nil:
		return b.db.Quarantine(ctx, b.tx, e, b.now, err)
	}
	b.history.AddSkips(e, b.now)
	b.skipped = append(b.skipped, e.Unrecorded...)
	b.askStop(e, run)
	dropped, err := b.db.Dropped(ctx, b.tx, e, b.now)
	if err != nil {
		return err
	}
	b.queued = append(b.queued, dropped...)
	if slices.ContainsFunc(b.runs, func(r runs.Run) bool { return r.RowID() == e.ID }) {
		return nil
	}
	last := dbsqlc.ScheduleLastRunParams{
		EndpointID:       e.ID,
		LastRunSlot:      &run.ScheduledFor,
		LastAttempt:      new(int16(run.Attempt)),
		LastInfraAttempt: int16(run.InfraAttempt),
		LastStatus:       new(string(run.Outcome.Status)),
		LastStartedAt:    &e.State.LastRun.StartedAt,
		LastFinishedAt:   &e.State.LastRun.FinishedAt,
	}
	b.queued = append(b.queued, func(q dbsqlc.DBTX) error { return b.db.Q.ScheduleLastRun(ctx, q, last) })
	at := *e // A later run of the batch may change the endpoint again.
	if planned == nil {
		b.queued = append(b.queued, func(q dbsqlc.DBTX) error { return b.db.Record(ctx, q, &at) })
		return nil
	}
	b.queued = append(b.queued, b.replan(ctx, &at, *planned)...)
	e.State.Token++
	return nil
}

// detachedFirst moves detached runs before those that hold the rows of their endpoints, because a
// finish of the endpoint writes what they changed.
func (b *batch) detachedFirst() {
	held := func(r runs.Run) int {
		if r.ItemID == [16]byte{} {
			return 1
		}
		return 0
	}
	if slices.ContainsFunc(b.runs, func(r runs.Run) bool { return held(r) == 0 }) {
		b.runs = slices.Clone(b.runs)
		slices.SortStableFunc(b.runs, func(x, y runs.Run) int { return held(x) - held(y) })
	}
}
