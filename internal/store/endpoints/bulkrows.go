package endpoints

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

// bulk collects the rows that the creation or change of many endpoints writes, so that each table
// takes one statement.
type bulk struct {
	schedules dbsqlc.ScheduleInsertManyParams
	edits     edits
	decisions dbsqlc.DecisionInsertManyParams
	// history holds the due times that were skipped without a run.
	history   history.Records
	events    history.Events
	audit     pg.AuditBatch
	referrals []referral
	// dropped records the due times with attempts that edits dropped.
	dropped []pg.Statement
	// soonest is the earliest planned due time. Workers are woken for it after the commit.
	soonest time.Time
}

// edits collects the changes of stored endpoints.
type edits struct {
	now    time.Time
	tenant [16]byte

	// stay holds the endpoints that keep their key.
	stay rewrites
	// move holds the endpoints that change their key, by new key. A key has one endpoint; the empty
	// key, which means no key, may have many.
	move    map[string]*rewrites
	replans dbsqlc.ScheduleReplanManyParams
	records dbsqlc.ScheduleRecordManyParams
}

// rewrites are updated endpoints, each with its previous version.
type rewrites struct {
	rows     dbsqlc.EndpointInsertManyParams
	versions []int64
}

// created adds a new endpoint: its schedule, event, audit entry, references and decision.
func (b *bulk) created(n endpoints.New, now time.Time) error {
	e, p, due := n.Endpoint, &b.schedules, n.Planned.Due
	p.TenantID = e.TenantID // A bulk has one tenant.
	p.EndpointIds = append(p.EndpointIds, e.ID)
	p.PlannedAt = append(p.PlannedAt, due.At)
	p.Slot = append(p.Slot, due.Slot)
	p.LockMs = append(p.LockMs, lockMs(e.Spec))
	p.Tags = append(p.Tags, string(tagsOf(e.Spec)))
	p.Priorities = append(p.Priorities, int16(e.Priority()))
	p.Source = append(p.Source, string(due.Source))
	p.Anchor = append(p.Anchor, e.State.Anchor)
	b.events.Add(e.TenantID, now, history.EventsOf(nil, e))
	b.audit.Add(e.Object(), nil, e.Redacted())
	b.referrals = append(b.referrals, referral{after: e})
	return b.decided(e, n.Planned)
}

// changed adds an edited endpoint. planned is its new decision, or nil while a run is live, because
// the finish of that run decides.
func (b *bulk) changed(before, after *endpoints.Endpoint, planned *endpoints.Recorded) error {
	c := &b.edits
	c.rewrite(before, after)
	b.events.Add(c.tenant, c.now, history.EventsOf(before, after))
	b.audit.Add(after.Object(), before.Redacted(), after.Redacted())
	b.history.AddSkips(after, c.now)
	b.referrals = append(b.referrals, referral{before, after})
	if planned == nil {
		c.records.EndpointIds = append(c.records.EndpointIds, after.ID)
		c.records.Version = append(c.records.Version, after.Version)
		c.records.LockMs = append(c.records.LockMs, lockMs(after.Spec))
		c.records.Tags = append(c.records.Tags, string(tagsOf(after.Spec)))
		c.records.AccountedUntil = append(c.records.AccountedUntil, after.State.AccountedUntil)
		c.records.RetryAfter = append(c.records.RetryAfter, after.State.RetryAfter)
		c.records.TargetNext = append(c.records.TargetNext, after.State.TargetNext)
		c.records.FreshUntil = append(c.records.FreshUntil, after.State.FreshUntil)
		return nil
	}
	r, due := &c.replans, planned.Due
	r.EndpointIds = append(r.EndpointIds, after.ID)
	r.PlannedAt = append(r.PlannedAt, due.At)
	r.Slot = append(r.Slot, due.Slot)
	r.Attempt = append(r.Attempt, int16(due.Attempt))
	r.InfraAttempt = append(r.InfraAttempt, int16(due.InfraAttempt))
	r.Source = append(r.Source, string(due.Source))
	r.Version = append(r.Version, after.Version)
	r.LockMs = append(r.LockMs, lockMs(after.Spec))
	r.Tags = append(r.Tags, string(tagsOf(after.Spec)))
	r.Priorities = append(r.Priorities, int16(after.Priority()))
	r.FailureCount = append(r.FailureCount, int32(after.State.FailureCount))
	r.RunsDone = append(r.RunsDone, int32(after.State.RunsDone))
	r.EndedAt = append(r.EndedAt, after.State.EndedAt)
	r.AccountedUntil = append(r.AccountedUntil, after.State.AccountedUntil)
	r.RetryAfter = append(r.RetryAfter, after.State.RetryAfter)
	r.TargetNext = append(r.TargetNext, after.State.TargetNext)
	r.FreshUntil = append(r.FreshUntil, after.State.FreshUntil)
	return b.decided(after, *planned)
}

// decided adds a decision to the ledger.
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
	d.Tokens = append(d.Tokens, e.State.Token)
	d.Bases = append(d.Bases, string(history.ChangeBasis(&r)))
	if b.soonest.IsZero() || r.Due.At.Before(b.soonest) {
		b.soonest = r.Due.At
	}
	return nil
}

// write writes the collected rows of an act.
func (b *bulk) write(ctx context.Context, tx pg.OpenTx, db *States, act auditlog.Act) error {
	if len(b.schedules.EndpointIds) > 0 {
		if err := db.Q.ScheduleInsertMany(ctx, tx, b.schedules); err != nil {
			return fmt.Errorf("inserting %d schedules: %w", len(b.schedules.EndpointIds), err)
		}
	}
	if err := b.edits.write(ctx, tx, db); err != nil {
		return err
	}
	if err := db.checkStored(ctx, tx, act.By.TenantID, b.referrals...); err != nil {
		return err
	}
	if err := b.writeRecords(ctx, tx, db, act); err != nil {
		return err
	}
	if err := pg.Pipeline(ctx, tx, b.dropped...); err != nil {
		return fmt.Errorf("recording due times with dropped attempts: %w", err)
	}
	if len(b.decisions.EndpointIds) == 0 {
		return nil
	}
	if err := db.Q.DecisionInsertMany(ctx, tx, b.decisions); err != nil {
		return fmt.Errorf("recording %d decisions: %w", len(b.decisions.EndpointIds), err)
	}
	return nil
}

// writeRecords writes the records of the act: skipped due times, events and audit entries.
func (b *bulk) writeRecords(ctx context.Context, tx pg.OpenTx, db *States, act auditlog.Act) error {
	if len(b.history.Rows.Ids) > 0 {
		if err := pg.Pipeline(ctx, tx, b.history.Writes(ctx, db.DB)...); err != nil {
			return fmt.Errorf("recording %d ranges of skipped due times: %w", len(b.history.Rows.Ids), err)
		}
	}
	if err := b.events.Write(ctx, tx, db.DB); err != nil {
		return err
	}
	return b.audit.Write(ctx, tx, db.DB, act)
}

// rewrite adds the new state of an endpoint.
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

// update updates the endpoints. A transaction that takes a key waits for other transactions with
// the same key. Therefore keys are taken in sorted order, as inserts do, so that two batches cannot
// deadlock. Each key has a statement of its own, because the order of rows within one statement is
// undefined.
func (c *edits) update(ctx context.Context, tx pg.OpenTx, db *States) error {
	list := append(make([]*rewrites, 0, 1+len(c.move)), &c.stay)
	for _, key := range slices.Sorted(maps.Keys(c.move)) {
		list = append(list, c.move[key])
	}
	var updates []pg.Statement
	for _, w := range list {
		if len(w.versions) == 0 {
			continue
		}
		updates = append(updates, func(q dbsqlc.DBTX) error {
			rows, err := db.Q.EndpointUpdateMany(ctx, q, dbsqlc.EndpointUpdateManyParams{
				TenantID:    c.tenant,
				Now:         c.now,
				Ids:         w.rows.Ids,
				OldVersions: w.versions,
				Specs:       w.rows.Specs,
			})
			return manyRows(rows, len(w.versions), err, "updating")
		})
	}
	return pg.Pipeline(ctx, tx, updates...)
}

func (c *edits) write(ctx context.Context, tx pg.OpenTx, db *States) error {
	if err := c.update(ctx, tx, db); err != nil {
		return err
	}
	if len(c.replans.EndpointIds) > 0 {
		rows, err := db.Q.ScheduleReplanMany(ctx, tx, c.replans)
		if err := manyRows(rows, len(c.replans.EndpointIds), err, "replanning"); err != nil {
			return err
		}
	}
	if len(c.records.EndpointIds) > 0 {
		rows, err := db.Q.ScheduleRecordMany(ctx, tx, c.records)
		if err := manyRows(rows, len(c.records.EndpointIds), err, "recording changes of"); err != nil {
			return err
		}
	}
	return db.Q.ScheduleSyncDetached(ctx, tx, slices.Concat(c.replans.EndpointIds, c.records.EndpointIds))
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

// addEndpoint adds an endpoint to the parameters of an insert.
func addEndpoint(c *dbsqlc.EndpointInsertManyParams, e *endpoints.Endpoint) {
	c.Ids = append(c.Ids, e.ID)
	c.Specs = append(c.Specs, string(documentOf(&e.Spec)))
}
