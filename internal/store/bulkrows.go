package store

import (
	"context"
	"fmt"
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

	rows     dbsqlc.EndpointInsertManyParams
	versions []int64 // before the edit
	replans  dbsqlc.ScheduleReplanManyParams
	records  dbsqlc.ScheduleRecordManyParams
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
	addColumns(&c.rows, after)
	c.versions = append(c.versions, before.Version)
	b.events.add(c.tenant, c.now, newsOf(before, after))
	b.trail.add(after.Object(), before.Redacted(), after.Redacted())
	b.history.addSkips(after, c.now)
	b.referrals = append(b.referrals, referral{before, after})
	if planned == nil {
		c.records.EndpointIds = append(c.records.EndpointIds, after.ID)
		c.records.Version = append(c.records.Version, after.Version)
		c.records.LockMs = append(c.records.LockMs, lockMs(after.Spec))
		c.records.AccountedUntil = append(c.records.AccountedUntil, after.State.AccountedUntil)
		return nil
	}
	r, due := &c.replans, planned.Due
	r.EndpointIds = append(r.EndpointIds, after.ID)
	r.PlannedAt = append(r.PlannedAt, due.At)
	r.Slot = append(r.Slot, due.Slot)
	r.Attempt = append(r.Attempt, int16(due.Attempt)) //nolint:gosec // At most 10.
	r.Source = append(r.Source, string(due.Source))
	r.Version = append(r.Version, after.Version)
	r.LockMs = append(r.LockMs, lockMs(after.Spec))
	r.AccountedUntil = append(r.AccountedUntil, after.State.AccountedUntil)
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
	d.Causes = append(d.Causes, r.Cause)
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

func (c *edits) write(ctx context.Context, tx opened, db *DB) error {
	if len(c.versions) == 0 {
		return nil
	}
	rows, err := db.q.EndpointUpdateMany(ctx, tx, updatesOf(c.rows, c.versions, c.now, c.tenant))
	if err := manyRows(rows, len(c.versions), err, "updating"); err != nil {
		return err
	}
	if len(c.replans.EndpointIds) > 0 {
		rows, err = db.q.ScheduleReplanMany(ctx, tx, c.replans)
		if err := manyRows(rows, len(c.replans.EndpointIds), err, "replanning"); err != nil {
			return err
		}
	}
	if len(c.records.EndpointIds) > 0 {
		rows, err = db.q.ScheduleRecordMany(ctx, tx, c.records)
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

// addColumns adds an endpoint's configuration to columns.
func addColumns(c *dbsqlc.EndpointInsertManyParams, e *endpoints.Endpoint) {
	row := rowOf(e)
	c.Ids = append(c.Ids, row.ID)
	c.Keys = append(c.Keys, e.Spec.Key)
	c.Names = append(c.Names, row.Name)
	c.Descriptions = append(c.Descriptions, row.Description)
	c.Labels = append(c.Labels, string(row.Labels))
	c.Urls = append(c.Urls, row.URL)
	c.Methods = append(c.Methods, row.Method)
	c.Headers = append(c.Headers, string(row.Headers))
	c.Bodies = append(c.Bodies, row.Body)
	c.BaselineCrons = append(c.BaselineCrons, row.BaselineCron)
	c.BaselineIntervalMs = append(c.BaselineIntervalMs, row.BaselineIntervalMs)
	c.Timezones = append(c.Timezones, row.Timezone)
	c.DstGaps = append(c.DstGaps, row.DstGap)
	c.DstOverlaps = append(c.DstOverlaps, row.DstOverlap)
	c.StartAt = append(c.StartAt, e.Spec.StartAt)
	c.CatchUps = append(c.CatchUps, row.CatchUp)
	c.MinIntervalMs = append(c.MinIntervalMs, row.MinIntervalMs)
	c.MaxIntervalMs = append(c.MaxIntervalMs, row.MaxIntervalMs)
	c.JitterMs = append(c.JitterMs, row.JitterMs)
	c.TimeoutMs = append(c.TimeoutMs, row.TimeoutMs)
	c.MaxExecutionTimeMs = append(c.MaxExecutionTimeMs, row.MaxExecutionTimeMs)
	c.MaxResponseKb = append(c.MaxResponseKb, row.MaxResponseKb)
	c.FollowRedirects = append(c.FollowRedirects, row.FollowRedirects)
	c.Successes = append(c.Successes, row.Success)
	c.RetryMaxAttempts = append(c.RetryMaxAttempts, row.RetryMaxAttempts)
	c.RetryBackoffMs = append(c.RetryBackoffMs, row.RetryBackoffMs)
	c.RetryMaxBackoffMs = append(c.RetryMaxBackoffMs, row.RetryMaxBackoffMs)
	c.Idempotent = append(c.Idempotent, row.Idempotent)
	c.Deliveries = append(c.Deliveries, string(row.Delivery))
	c.Planners = append(c.Planners, row.Planner)
}

// updatesOf makes the parameters of an update out of columns; sqlc knows only that their types are the same.
func updatesOf(c dbsqlc.EndpointInsertManyParams, versions []int64, now time.Time, tenant [16]byte) dbsqlc.EndpointUpdateManyParams {
	return dbsqlc.EndpointUpdateManyParams{
		TenantID: tenant, Now: now, OldVersions: versions,
		Ids: c.Ids, Keys: c.Keys, Names: c.Names, Descriptions: c.Descriptions, Labels: c.Labels, Urls: c.Urls, Methods: c.Methods,
		Headers: c.Headers, Bodies: c.Bodies, BaselineCrons: c.BaselineCrons, BaselineIntervalMs: c.BaselineIntervalMs,
		Timezones: c.Timezones, DstGaps: c.DstGaps, DstOverlaps: c.DstOverlaps, StartAt: c.StartAt, CatchUps: c.CatchUps,
		MinIntervalMs: c.MinIntervalMs, MaxIntervalMs: c.MaxIntervalMs, JitterMs: c.JitterMs, TimeoutMs: c.TimeoutMs,
		MaxExecutionTimeMs: c.MaxExecutionTimeMs, MaxResponseKb: c.MaxResponseKb, FollowRedirects: c.FollowRedirects,
		Successes: c.Successes, RetryMaxAttempts: c.RetryMaxAttempts, RetryBackoffMs: c.RetryBackoffMs,
		RetryMaxBackoffMs: c.RetryMaxBackoffMs, Idempotent: c.Idempotent,
		Deliveries: c.Deliveries, Planners: c.Planners,
	}
}
