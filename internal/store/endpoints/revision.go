package endpoints

import (
	"context"
	"fmt"
	"slices"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

// A change of one endpoint is interactive, so it takes three round trips: one locks and reads, one
// writes, and one commits.

// Revision is a change of one endpoint with its author.
type Revision struct {
	Act    auditlog.Act
	ID     endpoints.ID
	Change func(*endpoints.Endpoint, time.Time) (*endpoints.Recorded, error)

	// Rows read by lock.
	Now  time.Time
	rows []*dbsqlc.Endpoint // empty: the tenant has no such endpoint
	Stored

	Changed *endpoints.Endpoint // the endpoint after the change; nil before it
}

// Change implements endpoints.Store.
func (s *Store) Change(
	ctx context.Context, act auditlog.Act, id endpoints.ID, change func(*endpoints.Endpoint, time.Time) (*endpoints.Recorded, error),
) (*endpoints.Endpoint, error) {
	r := &Revision{
		Act:    act,
		ID:     id,
		Change: change,
	}
	once := func() error {
		return s.db.TxAfter(ctx, s.lock(ctx, r), func(tx pg.OpenTx) error { return s.revise(ctx, tx, r) })
	}
	if err := s.db.WithPartitions(ctx, r.Days, once); err != nil {
		return nil, err
	}
	s.Returning(ctx, r)
	return r.Changed, nil
}

// ChangeIn carries out a revision inside a larger transaction. Missed due times whose history
// partition does not exist yet remain in Unrecorded: see [pg.DB.WithPartitions]. The caller calls
// Returning after the commit.
func (s *Store) ChangeIn(ctx context.Context, tx pg.OpenTx, r *Revision) error {
	if err := pg.Pipeline(ctx, tx, s.lock(ctx, r)...); err != nil {
		return fmt.Errorf("locking the schedule of endpoint %s: %w", r.ID, err)
	}
	return s.revise(ctx, tx, r)
}

// Days returns the days of history of the missed due times that the change found, and of the
// one-off run that it added.
func (r *Revision) Days() []time.Time {
	days := history.SkipDays(r.Changed)
	if r.Changed != nil && r.Changed.State.OneOffs.Added != nil {
		days = append(days, pg.DayOf(r.Changed.State.OneOffs.Added.Slot))
	}
	return days
}

// lock returns the statements that lock the row of an endpoint against starts and finishes and then
// read it. Each statement sees the commits that the previous ones waited for.
func (s *Store) lock(ctx context.Context, r *Revision) []pg.Statement {
	ids := [][16]byte{r.ID}
	return []pg.Statement{
		func(q dbsqlc.DBTX) (err error) {
			r.Schedules, err = s.db.Q.ScheduleLock(ctx, q, ids)
			return err
		},
		s.db.Clock(ctx, &r.Now),
		func(q dbsqlc.DBTX) (err error) {
			r.rows, err = s.db.Q.EndpointFind(ctx, q, dbsqlc.EndpointFindParams{ID: r.ID, TenantID: r.Act.By.TenantID})
			return err
		},
		func(q dbsqlc.DBTX) (err error) {
			r.Hints, err = s.db.Q.HintGetMany(ctx, q, ids)
			return err
		},
		s.db.OneOffs(ctx, &r.Stored, ids),
	}
}

// revise makes the change of a locked endpoint and writes its result.
func (s *Store) revise(ctx context.Context, tx pg.OpenTx, r *Revision) (err error) {
	if r.Changed, err = s.assembleOne(ctx, tx, r); err != nil {
		return err
	}
	if err := s.passRuns(ctx, tx, r); err != nil {
		return err
	}
	before, shown := *r.Changed, r.Changed.Redacted()
	planned, err := r.Change(r.Changed, r.Now)
	if err != nil {
		return err
	}
	var passed history.Records
	if err := s.db.withdrawWaiting(ctx, tx, r.Changed, r.Now, &passed); err != nil {
		return err
	}
	writes, err := s.writes(ctx, r, &before, planned, passed)
	if err != nil {
		return err
	}
	dropped, err := s.db.Dropped(ctx, tx, r.Changed, r.Now)
	if err != nil {
		return err
	}
	writes = append(writes, dropped...)
	made := auditlog.Change{
		Act:    r.Act,
		Object: r.Changed.Object(),
		Before: shown,
		After:  r.Changed.Redacted(),
	}
	if entry, noted := pg.AuditRow(made, s.db.Now()); noted {
		if before.Version != r.Changed.Version {
			entry.EndpointID = (*dbsqlc.UUID)(&r.ID)
		}
		writes = append(writes, func(q dbsqlc.DBTX) error { return s.db.Q.AuditInsert(ctx, q, entry) })
	}
	if err := pg.Pipeline(ctx, tx, writes...); err != nil {
		return fmt.Errorf("writing a change of endpoint %s: %w", r.ID, err)
	}
	if item := r.Changed.State.OneOffs.Added; item != nil && !item.Override.Empty() {
		return s.db.CheckReferences(ctx, tx, r.Changed.TenantID, item.Override.References(r.Changed.Spec))
	}
	if before.Version == r.Changed.Version {
		return nil
	}
	// After the row of the endpoint, because the row may wait for a change with the same key, and
	// a waiting transaction must hold no lock on a secret.
	return s.db.checkStored(ctx, tx, r.Changed.TenantID, referral{&before, r.Changed})
}

// assembleOne builds the endpoint from the rows of lock.
func (s *Store) assembleOne(ctx context.Context, tx pg.OpenTx, r *Revision) (*endpoints.Endpoint, error) {
	if len(r.rows) == 0 {
		return nil, pg.NoEndpoint(r.ID)
	}
	e := endpointOf(r.rows[0])
	if e.Fault != nil && r.Act.Action != auditlog.Archive { // Archiving needs no configuration and is the remedy.
		return nil, e.Fault
	}
	if len(r.Schedules) == 0 || r.Schedules[0].Archived {
		return e, nil
	}
	s.db.know(r.rows[0])
	found, _, err := s.db.Assemble(ctx, tx, r.Stored, nil)
	if err != nil {
		return nil, err
	}
	e.State, e.Cron = found[r.ID].State, found[r.ID].Cron
	return e, nil
}

// passRuns moves the instant of a change, and the slot of an added one-off run, past the due times
// of existing runs, because a run planned there would have the ID of such a run. A collision
// happens in the last millisecond before a due time whose run has started early, and after the
// database's clock was set back.
func (s *Store) passRuns(ctx context.Context, tx pg.OpenTx, r *Revision) (err error) {
	if r.Now, err = s.freeSlot(ctx, tx, r, r.Now); err != nil || r.Act.Action != auditlog.RunNow {
		return err
	}
	q := &r.Changed.State.OneOffs
	slot := q.NextSlot(r.Now)
	if !slot.Equal(r.Now) { // An equal slot is already free.
		if slot, err = s.freeSlot(ctx, tx, r, slot); err != nil {
			return err
		}
	}
	q.LastSlot = slot.Add(-time.Millisecond)
	return nil
}

// freeSlot returns the first millisecond at or after an instant that is the due time of no run.
func (s *Store) freeSlot(ctx context.Context, tx pg.OpenTx, r *Revision, at time.Time) (time.Time, error) {
	running := r.Changed.State.Running
	if at.After(r.Changed.State.LastSlot) && (running == nil || !running.Slot.Equal(at)) {
		return at, nil
	}
	taken, err := s.db.Q.RunSlots(ctx, tx, dbsqlc.RunSlotsParams{
		EndpointID: r.ID,
		FromID:     runs.FirstID(at),
		BeforeID:   runs.FirstID(at.Add(time.Second)),
	})
	if err != nil {
		return at, fmt.Errorf("finding runs of endpoint %s at the same instant: %w", r.ID, err)
	}
	if running != nil {
		taken = append(taken, running.Slot)
	}
	for slices.ContainsFunc(taken, at.Equal) {
		at = at.Add(time.Millisecond)
	}
	return at, nil
}

// writes returns the statements that store a change, without its audit entry and its secret
// references.
func (s *Store) writes(
	ctx context.Context, r *Revision, before *endpoints.Endpoint, planned *endpoints.Recorded, passed history.Records,
) ([]pg.Statement, error) {
	after := r.Changed
	list := s.db.OneOffWrites(ctx, after, r.Act.By.Name)
	passed.AddSkips(after, r.Now)
	if len(passed.Rows.Ids) > 0 {
		list = append(list, passed.Writes(ctx, s.db.DB)...)
	}
	list = append(list, s.planWrite(ctx, after, planned != nil))
	for _, h := range after.Held {
		word := HoldRow(after.ID, h)
		list = append(list, func(q dbsqlc.DBTX) error { return s.db.Q.PlannerHoldSet(ctx, q, word) })
	}
	list = append(list, s.noiseWrites(ctx, r.Now, r.Act.By, after)...)
	if planned != nil && !after.Archived() {
		decision, err := decisionRow(after, *planned)
		if err != nil {
			return nil, err
		}
		list = append(list, func(q dbsqlc.DBTX) error { return s.db.Q.DecisionInsert(ctx, q, decision) })
	}
	var events history.Events
	events.Add(after.TenantID, r.Now, history.EventsOf(before, after))
	list = append(list, events.Writes(ctx, s.db.DB)...)
	if anew := s.specWrites(ctx, r.Now, before, after); len(anew) > 0 {
		list = append(append(list, func(q dbsqlc.DBTX) error { return s.db.Q.PlanCustom(ctx, q) }), anew...)
	}
	return list, nil
}

// specWrites returns the statements that store configuration and hints of a change. They come last
// and are planned each time, because a generic plan from a small table would scan all names of a
// tenant or all hints.
func (s *Store) specWrites(ctx context.Context, now time.Time, before, after *endpoints.Endpoint) []pg.Statement {
	list := s.hintWrites(ctx, now, before, after)
	if before.Version == after.Version {
		return list
	}
	row := updateOf(after, before.Version)
	return append(list, func(q dbsqlc.DBTX) error {
		rows, err := s.db.Q.EndpointUpdate(ctx, q, row)
		return OneRow(rows, err, "updating", after.ID)
	}, func(q dbsqlc.DBTX) error { return s.db.Q.ScheduleSyncDetached(ctx, q, [][16]byte{after.ID}) })
}

// planWrite returns the statement that puts a new plan in force, or only records the change during
// a live run.
func (s *Store) planWrite(ctx context.Context, e *endpoints.Endpoint, planned bool) pg.Statement {
	switch {
	case e.Archived():
		return func(q dbsqlc.DBTX) error {
			return s.db.Q.ScheduleDelete(ctx, q, e.ID)
		}
	case planned:
		return func(q dbsqlc.DBTX) error { return s.db.Replan(ctx, q, e) }
	}
	return func(q dbsqlc.DBTX) error { return s.db.Record(ctx, q, e) }
}

// hintWrites returns the statements that end withdrawn and replaced hints and insert new ones.
func (s *Store) hintWrites(ctx context.Context, now time.Time, before, after *endpoints.Endpoint) []pg.Statement {
	var list []pg.Statement
	for _, h := range []struct {
		kind       string
		old, fresh *endpoints.Hint
	}{
		{history.HintInterval, before.State.IntervalHint, after.State.IntervalHint},
		{history.HintOneShot, before.State.OneShotHint, after.State.OneShotHint},
	} {
		if h.old == h.fresh {
			continue
		}
		if h.old != nil {
			end := dbsqlc.HintEndParams{
				EndpointID: after.ID,
				Kind:       h.kind,
				EndedAt:    now,
			}
			list = append(list, func(q dbsqlc.DBTX) error { return s.db.Q.HintEnd(ctx, q, end) })
		}
		if h.fresh != nil {
			row := HintRow(after.ID, h.kind, h.fresh)
			list = append(list, func(q dbsqlc.DBTX) error { return s.db.Q.HintInsert(ctx, q, row) })
		}
	}
	return list
}

// maxAhead bounds the time from the commit of a start to its due time; see ScheduleStart.
const maxAhead = 50 * time.Millisecond

// Returning runs after the commit of a change. It notifies workers of earlier due times, and it
// waits for the due time of a run whose start was committed just before the change. Therefore no
// run starts after the change has returned that it should have prevented.
func (s *Store) Returning(ctx context.Context, r *Revision) {
	s.db.Wake(ctx, r.Changed.State.Due.At, r.Now)
	running := r.Changed.State.Running
	if running == nil || !running.StartedAt.After(r.Now) {
		return
	}
	timer := time.NewTimer(min(running.StartedAt.Sub(r.Now), maxAhead))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
