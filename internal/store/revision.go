package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
)

// A change of one endpoint is interactive, so it takes three round trips: one locks and reads, one
// writes, and one commits.

// revision is a change of one endpoint with its author.
type revision struct {
	act    auditlog.Act
	id     endpoints.ID
	change func(*endpoints.Endpoint, time.Time) (*endpoints.Recorded, error)

	// Rows read by lock.
	now  time.Time
	rows []*dbsqlc.Endpoint // empty: the tenant has no such endpoint
	stored

	changed *endpoints.Endpoint // the endpoint after the change; nil before it
}

// Change implements endpoints.Store.
func (s *Endpoints) Change(
	ctx context.Context, act auditlog.Act, id endpoints.ID, change func(*endpoints.Endpoint, time.Time) (*endpoints.Recorded, error),
) (*endpoints.Endpoint, error) {
	r := &revision{act: act, id: id, change: change}
	once := func() error {
		return s.db.txAfter(ctx, s.lock(ctx, r), func(tx opened) error { return s.revise(ctx, tx, r) })
	}
	if err := s.db.withPartitions(ctx, r.days, once); err != nil {
		return nil, err
	}
	s.returning(ctx, r)
	return r.changed, nil
}

// changeIn carries out a revision inside a larger transaction. Missed due times whose history
// partition does not exist yet remain in Unrecorded: see withPartitions. The caller calls returning
// after the commit.
func (s *Endpoints) changeIn(ctx context.Context, tx opened, r *revision) error {
	if err := pipeline(ctx, tx, s.lock(ctx, r)...); err != nil {
		return fmt.Errorf("locking the schedule of endpoint %s: %w", r.id, err)
	}
	return s.revise(ctx, tx, r)
}

// days returns the days of history of the missed due times that the change found.
func (r *revision) days() []time.Time { return skipDays(r.changed) }

// lock returns the statements that lock the row of an endpoint against starts and finishes and then
// read it. Each statement sees the commits that the previous ones waited for.
func (s *Endpoints) lock(ctx context.Context, r *revision) []statement {
	ids := [][16]byte{r.id}
	return []statement{
		func(q dbsqlc.DBTX) (err error) {
			r.schedules, err = s.db.q.ScheduleLock(ctx, q, ids)
			return err
		},
		s.db.clock(ctx, &r.now),
		func(q dbsqlc.DBTX) (err error) {
			r.rows, err = s.db.q.EndpointFind(ctx, q, dbsqlc.EndpointFindParams{ID: r.id, TenantID: r.act.By.TenantID})
			return err
		},
		func(q dbsqlc.DBTX) (err error) {
			r.hints, err = s.db.q.HintGetMany(ctx, q, ids)
			return err
		},
		s.db.oneOffs(ctx, &r.stored, ids),
	}
}

// revise makes the change of a locked endpoint and writes its result.
func (s *Endpoints) revise(ctx context.Context, tx opened, r *revision) (err error) {
	if r.changed, err = s.assembleOne(ctx, tx, r); err != nil {
		return err
	}
	if err := s.passRuns(ctx, tx, r); err != nil {
		return err
	}
	before, shown := *r.changed, r.changed.Redacted()
	planned, err := r.change(r.changed, r.now)
	if err != nil {
		return err
	}
	var passed history
	if r.changed.State.OneOffs.Withdrawn || r.changed.Archived() {
		if err := s.db.withdraw(ctx, tx, r.changed, r.now, &passed); err != nil {
			return err
		}
	}
	writes, err := s.writes(ctx, r, &before, planned, passed)
	if err != nil {
		return err
	}
	made := auditlog.Change{Act: r.act, Object: r.changed.Object(), Before: shown, After: r.changed.Redacted()}
	if entry, noted := auditRow(made, s.db.now()); noted {
		if before.Version != r.changed.Version {
			entry.EndpointID = (*dbsqlc.UUID)(&r.id)
		}
		writes = append(writes, func(q dbsqlc.DBTX) error { return s.db.q.AuditInsert(ctx, q, entry) })
	}
	if err := pipeline(ctx, tx, writes...); err != nil {
		return fmt.Errorf("writing a change of endpoint %s: %w", r.id, err)
	}
	if item := r.changed.State.OneOffs.Added; item != nil && !item.Override.Empty() {
		return s.db.checkReferences(ctx, tx, r.changed.TenantID, item.Override.References(r.changed.Spec))
	}
	if before.Version == r.changed.Version {
		return nil
	}
	// After the row of the endpoint, because the row may wait for a change with the same key, and
	// a waiting transaction must hold no lock on a secret.
	return s.db.refer(ctx, tx, r.changed.TenantID, referral{&before, r.changed})
}

// assembleOne builds the endpoint from the rows of lock.
func (s *Endpoints) assembleOne(ctx context.Context, tx opened, r *revision) (*endpoints.Endpoint, error) {
	if len(r.rows) == 0 {
		return nil, noEndpoint(r.id)
	}
	e := endpointOf(r.rows[0])
	if e.Fault != nil && r.act.Action != auditlog.Archive { // Archiving needs no configuration and is the remedy.
		return nil, e.Fault
	}
	if len(r.schedules) == 0 || r.schedules[0].Archived {
		return e, nil
	}
	s.db.know(r.rows[0])
	found, _, err := s.db.assemble(ctx, tx, r.stored, nil)
	if err != nil {
		return nil, err
	}
	e.State, e.Cron = found[r.id].State, found[r.id].Cron
	return e, nil
}

// passRuns moves the instant of a change, and the slot of an added one-off run, past the due times
// of existing runs, because a run planned there would have the ID of such a run. A collision
// happens in the last millisecond before a due time whose run has started early, and after the
// database's clock was set back.
func (s *Endpoints) passRuns(ctx context.Context, tx opened, r *revision) (err error) {
	if r.now, err = s.freeSlot(ctx, tx, r, r.now); err != nil || r.act.Action != auditlog.RunNow {
		return err
	}
	q := &r.changed.State.OneOffs
	slot := q.NextSlot(r.now)
	if !slot.Equal(r.now) { // An equal slot is already free.
		if slot, err = s.freeSlot(ctx, tx, r, slot); err != nil {
			return err
		}
	}
	q.LastSlot = slot.Add(-time.Millisecond)
	return nil
}

// freeSlot returns the first millisecond at or after an instant that is the due time of no run.
func (s *Endpoints) freeSlot(ctx context.Context, tx opened, r *revision, at time.Time) (time.Time, error) {
	running := r.changed.State.Running
	if at.After(r.changed.State.LastSlot) && (running == nil || !running.Slot.Equal(at)) {
		return at, nil
	}
	taken, err := s.db.q.RunSlots(ctx, tx, dbsqlc.RunSlotsParams{
		EndpointID: r.id, FromID: runs.FirstID(at), BeforeID: runs.FirstID(at.Add(time.Second)),
	})
	if err != nil {
		return at, fmt.Errorf("finding runs of endpoint %s at the same instant: %w", r.id, err)
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
func (s *Endpoints) writes(
	ctx context.Context, r *revision, before *endpoints.Endpoint, planned *endpoints.Recorded, passed history,
) ([]statement, error) {
	after := r.changed
	list := s.db.oneOffWrites(ctx, after, r.act.By.Name)
	passed.addSkips(after, r.now)
	if len(passed.rows.Ids) > 0 {
		list = append(list, passed.writes(ctx, s.db.DB)...)
	}
	list = append(list, s.planWrite(ctx, after, planned != nil))
	for _, h := range after.Held {
		word := holdRow(after.ID, h)
		list = append(list, func(q dbsqlc.DBTX) error { return s.db.q.PlannerHoldSet(ctx, q, word) })
	}
	if planned != nil && !after.Archived() {
		decision, err := decisionRow(after, *planned)
		if err != nil {
			return nil, err
		}
		list = append(list, func(q dbsqlc.DBTX) error { return s.db.q.DecisionInsert(ctx, q, decision) })
	}
	var news events
	news.add(after.TenantID, r.now, newsOf(before, after))
	list = append(list, news.writes(ctx, s.db.DB)...)
	if anew := s.specWrites(ctx, r.now, before, after); len(anew) > 0 {
		list = append(append(list, func(q dbsqlc.DBTX) error { return s.db.q.PlanForValues(ctx, q) }), anew...)
	}
	return list, nil
}

// specWrites returns the statements that store configuration and hints of a change. They come last
// and are planned each time, because a generic plan from a small table would scan all names of a
// tenant or all hints.
func (s *Endpoints) specWrites(ctx context.Context, now time.Time, before, after *endpoints.Endpoint) []statement {
	list := s.hintWrites(ctx, now, before, after)
	if before.Version == after.Version {
		return list
	}
	row := updateOf(after, before.Version)
	return append(list, func(q dbsqlc.DBTX) error {
		rows, err := s.db.q.EndpointUpdate(ctx, q, row)
		return oneRow(rows, err, "updating", after.ID)
	})
}

// planWrite returns the statement that puts a new plan in force, or only records the change during
// a live run.
func (s *Endpoints) planWrite(ctx context.Context, e *endpoints.Endpoint, planned bool) statement {
	switch {
	case e.Archived():
		return func(q dbsqlc.DBTX) error {
			return s.db.q.ScheduleDelete(ctx, q, e.ID)
		}
	case planned:
		return func(q dbsqlc.DBTX) error { return s.db.replan(ctx, q, e) }
	}
	record := dbsqlc.ScheduleRecordParams{
		EndpointID: e.ID, Version: e.Version, LockMs: lockMs(e.Spec), FailureCount: int32(e.State.FailureCount),
		PausedUntil: optional(e.State.PausedUntil), PauseReason: optionalText(e.State.PauseReason),
		ManualAt: optional(manualAt(&e.State)), RetryAfter: optional(e.State.RetryAfter),
		AccountedUntil: optional(e.State.AccountedUntil), Hinted: e.State.Hinted(),
	}
	return func(q dbsqlc.DBTX) error {
		rows, err := s.db.q.ScheduleRecord(ctx, q, record)
		return oneRow(rows, err, "recording a change", e.ID)
	}
}

// hintWrites returns the statements that end withdrawn and replaced hints and insert new ones.
func (s *Endpoints) hintWrites(ctx context.Context, now time.Time, before, after *endpoints.Endpoint) []statement {
	var list []statement
	for _, h := range []struct {
		kind       string
		old, fresh *endpoints.Hint
	}{
		{hintInterval, before.State.IntervalHint, after.State.IntervalHint},
		{hintOneShot, before.State.OneShotHint, after.State.OneShotHint},
	} {
		if h.old == h.fresh {
			continue
		}
		if h.old != nil {
			end := dbsqlc.HintEndParams{EndpointID: after.ID, Kind: h.kind, EndedAt: now}
			list = append(list, func(q dbsqlc.DBTX) error { return s.db.q.HintEnd(ctx, q, end) })
		}
		if h.fresh != nil {
			row := hintRow(after.ID, h.kind, h.fresh)
			list = append(list, func(q dbsqlc.DBTX) error { return s.db.q.HintInsert(ctx, q, row) })
		}
	}
	return list
}

// maxAhead bounds the time from the commit of a start to its due time; see ScheduleStart.
const maxAhead = 50 * time.Millisecond

// returning runs after the commit of a change. It notifies workers of earlier due times, and it
// waits for the due time of a run whose start was committed just before the change. Therefore no
// run starts after the change has returned that it should have prevented.
func (s *Endpoints) returning(ctx context.Context, r *revision) {
	s.db.wake(ctx, r.changed.State.Due.At, r.now)
	running := r.changed.State.Running
	if running == nil || !running.StartedAt.After(r.now) {
		return
	}
	timer := time.NewTimer(min(running.StartedAt.Sub(r.now), maxAhead))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
