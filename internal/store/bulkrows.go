package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
)

// bulk gathers what many endpoints' creation or change writes, so that each table takes one statement.
type bulk struct {
	schedules dbsqlc.ScheduleInsertManyParams
	edits     edits
	decisions dbsqlc.DecisionInsertManyParams
	history   history // due times that passed without a run
	events    events
	trail     trail
	referrals []referral
	soonest   time.Time // the earliest due time that was planned
}

// edits are changes of stored endpoints.
type edits struct {
	now    time.Time
	tenant [16]byte

	stay    rewrites
	move    map[string]*rewrites // by the key that it takes, one endpoint each; the empty one is taken by any number
	replans dbsqlc.ScheduleReplanManyParams
	records dbsqlc.ScheduleRecordManyParams
}

// rewrites are endpoints as they are to be, each with its version before.
type rewrites struct {
	rows     dbsqlc.EndpointInsertManyParams
	versions []int64
}

// created takes in the schedule of an endpoint that was inserted, and what is told of it.
func (b *bulk) created(n endpoints.New, now time.Time) error {
	e, p, due := n.Endpoint, &b.schedules, n.Planned.Due
	p.TenantID = e.TenantID // All of a bulk are of one tenant.
	p.EndpointIds = append(p.EndpointIds, e.ID)
	p.PlannedAt = append(p.PlannedAt, due.At)
	p.Slot = append(p.Slot, due.Slot)
	p.LockMs = append(p.LockMs, lockMs(e.Spec))
	p.Source = append(p.Source, string(due.Source))
	p.Anchor = append(p.Anchor, e.State.Anchor)
	b.events.add(e.TenantID, now, newsOf(nil, e))
	b.trail.add(e.Object(), nil, e.Redacted())
	b.referrals = append(b.referrals, referral{after: e})
	return b.decided(e, n.Planned)
}

// changed takes in an edit, and the plan that follows from it; nil where a run is live.
func (b *bulk) changed(before, after *endpoints.Endpoint, planned *endpoints.Recorded) error {
	c := &b.edits
	c.rewrite(before, after)
	b.events.add(c.tenant, c.now, newsOf(before, after))
	b.trail.add(after.Object(), before.Redacted(), after.Redacted())
	b.history.addSkips(after, c.now)
	b.referrals = append(b.referrals, referral{before, after})
	if planned == nil {
		c.records.EndpointIds = append(c.records.EndpointIds, after.ID)
		c.records.Version = append(c.records.Version, after.Version)
		c.records.LockMs = append(c.records.LockMs, lockMs(after.Spec))
		c.records.AccountedUntil = append(c.records.AccountedUntil, after.State.AccountedUntil)
		c.records.RetryAfter = append(c.records.RetryAfter, after.State.RetryAfter)
		return nil
	}
	r, due := &c.replans, planned.Due
	r.EndpointIds = append(r.EndpointIds, after.ID)
	r.PlannedAt = append(r.PlannedAt, due.At)
	r.Slot = append(r.Slot, due.Slot)
	r.Attempt = append(r.Attempt, int16(due.Attempt))                //nolint:gosec // At most 10.
	r.InfraAttempt = append(r.InfraAttempt, int16(due.InfraAttempt)) //nolint:gosec // At most 3.
	r.Source = append(r.Source, string(due.Source))
	r.Version = append(r.Version, after.Version)
	r.LockMs = append(r.LockMs, lockMs(after.Spec))
	r.AccountedUntil = append(r.AccountedUntil, after.State.AccountedUntil)
	r.RetryAfter = append(r.RetryAfter, after.State.RetryAfter)
	return b.decided(after, *planned)
}

// decided takes in a decision for the ledger.
func (b *bulk) decided(e *endpoints.Endpoint, r endpoints.Recorded) error {
	steps, input, err := encoded(e, r)
	if err != nil {
		return err
	}
	d := &b.decisions
	d.EndpointIds = append(d.EndpointIds, e.ID)
	d.DecidedAt = append(d.DecidedAt, r.At)
	d.Causes = append(d.Causes, string(r.Cause))
	d.Authors = append(d.Authors, r.Author)
	d.Versions = append(d.Versions, r.Version)
	d.NextRunAt = append(d.NextRunAt, r.Due.At)
	d.NextSources = append(d.NextSources, string(r.Due.Source))
	d.NextSteps = append(d.NextSteps, string(steps))
	d.Inputs = append(d.Inputs, string(input))
	if b.soonest.IsZero() || r.Due.At.Before(b.soonest) {
		b.soonest = r.Due.At
	}
	return nil
}

// write writes what was gathered of an act.
func (b *bulk) write(ctx context.Context, tx opened, db *DB, act auditlog.Act) error {
	if len(b.schedules.EndpointIds) > 0 {
		if err := db.q.ScheduleInsertMany(ctx, tx, b.schedules); err != nil {
			return fmt.Errorf("inserting %d schedules: %w", len(b.schedules.EndpointIds), err)
		}
	}
	if err := b.edits.write(ctx, tx, db); err != nil {
		return err
	}
	if err := db.refer(ctx, tx, act.By.TenantID, b.referrals...); err != nil {
		return err
	}
	if err := b.told(ctx, tx, db, act); err != nil {
		return err
	}
	if len(b.decisions.EndpointIds) == 0 {
		return nil
	}
	if err := db.q.DecisionInsertMany(ctx, tx, b.decisions); err != nil {
		return fmt.Errorf("recording %d decisions: %w", len(b.decisions.EndpointIds), err)
	}
	return nil
}

// told writes what others may read of the act: skipped due times, events, the audit log.
func (b *bulk) told(ctx context.Context, tx opened, db *DB, act auditlog.Act) error {
	if len(b.history.rows.Ids) > 0 {
		if err := pipeline(ctx, tx, b.history.writes(ctx, db)...); err != nil {
			return fmt.Errorf("recording %d ranges of skipped due times: %w", len(b.history.rows.Ids), err)
		}
	}
	if err := b.events.write(ctx, tx, db); err != nil {
		return err
	}
	return b.trail.write(ctx, tx, db, act)
}

// rewrite takes in what an endpoint is to be.
func (c *edits) rewrite(before, after *endpoints.Endpoint) {
	into := &c.stay
	if key := after.Spec.Key; key != before.Spec.Key {
		if c.move == nil {
			c.move = map[string]*rewrites{}
		}
		if into = c.move[key]; into == nil {
			into = &rewrites{}
			c.move[key] = into
		}
	}
	addEndpoint(&into.rows, after)
	into.versions = append(into.versions, before.Version)
}

// update writes what endpoints are to be. Whoever takes a key waits for others that are about to take it, so keys are taken in order, as new
// endpoints take them: two batches cannot wait for each other. Within a statement nothing keeps rows in order, so each key has its own.
func (c *edits) update(ctx context.Context, tx opened, db *DB) error {
	list := append(make([]*rewrites, 0, 1+len(c.move)), &c.stay)
	for _, key := range slices.Sorted(maps.Keys(c.move)) {
		list = append(list, c.move[key])
	}
	var updates []statement
	for _, w := range list {
		if len(w.versions) == 0 {
			continue
		}
		updates = append(updates, func(q dbsqlc.DBTX) error {
			rows, err := db.q.EndpointUpdateMany(ctx, q, dbsqlc.EndpointUpdateManyParams{
				TenantID: c.tenant, Now: c.now, Ids: w.rows.Ids, OldVersions: w.versions, Specs: w.rows.Specs,
			})
			return manyRows(rows, len(w.versions), err, "updating")
		})
	}
	return pipeline(ctx, tx, updates...)
}

func (c *edits) write(ctx context.Context, tx opened, db *DB) error {
	if err := c.update(ctx, tx, db); err != nil {
		return err
	}
	if len(c.replans.EndpointIds) > 0 {
		rows, err := db.q.ScheduleReplanMany(ctx, tx, c.replans)
		if err := manyRows(rows, len(c.replans.EndpointIds), err, "replanning"); err != nil {
			return err
		}
	}
	if len(c.records.EndpointIds) > 0 {
		rows, err := db.q.ScheduleRecordMany(ctx, tx, c.records)
		return manyRows(rows, len(c.records.EndpointIds), err, "recording changes of")
	}
	return nil
}

func manyRows(rows int64, want int, err error, act string) error {
	if err != nil {
		return fmt.Errorf("%s %d endpoints: %w", act, want, err)
	}
	if rows != int64(want) {
		return fmt.Errorf("%s %d endpoints changed %d rows", act, want, rows)
	}
	return nil
}

// addEndpoint adds an endpoint to those of a statement.
func addEndpoint(c *dbsqlc.EndpointInsertManyParams, e *endpoints.Endpoint) {
	c.Ids = append(c.Ids, e.ID)
	c.Specs = append(c.Specs, string(documentOf(&e.Spec)))
}
