// Package views reads across the tables for people and monitors: pages of the console, the event
// feed, statistics, gauges and the audit log.
package views

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/runs"
	"rubato/internal/stats"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

const (
	consoleIncidents = 12
	consoleChanges   = 200
	consoleSparkDays = 2 * 24 * time.Hour
	// consoleProofTime is the window of guarantee statistics and of incidents.
	consoleProofTime = 24 * time.Hour
)

// Console reads the data of the console's pages. Every method is limited to one tenant. Methods
// with several statements read one snapshot of the database.
type Console struct {
	db *pg.DB
}

// NewConsole returns the reader of the console's data.
func NewConsole(db *pg.DB) *Console { return &Console{db: db} }

// Activity returns a tenant's runs of a period in buckets of length step, and its incidents.
func (c *Console) Activity(ctx context.Context, tenant [16]byte, over, step time.Duration) (o stats.Activity, err error) {
	err = c.db.Snapshot(ctx, func(tx pgx.Tx) error {
		if o.At, err = c.db.DecisionTime(ctx, tx); err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		o.Step = step
		o.Endpoints, err = c.db.Q.ConsoleEndpointCount(ctx, tx, dbsqlc.ConsoleEndpointCountParams{TenantID: tenant, MaxRows: stats.MaxEndpoints})
		if err != nil {
			return fmt.Errorf("counting endpoints: %w", err)
		}
		from := o.At.Add(-over).Truncate(step)
		if o.Buckets, err = c.buckets(ctx, tx, dbsqlc.ConsoleBucketsParams{
			StepMs:   step.Milliseconds(),
			FromAt:   from,
			TenantID: tenant,
			MaxRows:  stats.MaxRuns,
		}); err != nil {
			return err
		}
		o.Incidents, o.Lost, err = c.incidents(ctx, tx, tenant, o.At.Add(-consoleProofTime))
		return err
	})
	return o, err
}

func (c *Console) buckets(ctx context.Context, tx pgx.Tx, p dbsqlc.ConsoleBucketsParams) ([]stats.Bucket, error) {
	rows, err := c.db.Q.ConsoleBuckets(ctx, tx, p)
	if err != nil {
		return nil, fmt.Errorf("counting runs by time: %w", err)
	}
	list := make([]stats.Bucket, len(rows))
	for i, row := range rows {
		list[i] = stats.Bucket{
			At:        row.At,
			Succeeded: row.Succeeded,
			Failed:    row.Failed,
			Lost:      row.Lost,
			Other:     row.Other,
			LagP50:    millis(row.LagP50Ms),
			LagP99:    millis(row.LagP99Ms),
		}
	}
	return list, nil
}

func (c *Console) incidents(ctx context.Context, tx pgx.Tx, tenant [16]byte, from time.Time) (list []stats.Incident, lost int64, err error) {
	rows, err := c.db.Q.ConsoleIncidents(ctx, tx, incidentParams(tenant, from))
	if err != nil {
		return nil, 0, fmt.Errorf("looking for incidents: %w", err)
	}
	list = make([]stats.Incident, len(rows))
	for i, row := range rows {
		lost = row.Lost
		list[i] = stats.Incident{
			RunID:      row.ID,
			EndpointID: row.EndpointID,
			Name:       row.Name,
			Status:     row.Status,
			Reason:     row.ReasonCode,
			At:         row.FinishedAt,
			StatusCode: int(pg.OrZero(row.StatusCode)),
			Error:      pg.OrZero(row.Error),
			Runs:       row.Runs,
			More:       row.Cut,
		}
	}
	return list, lost, nil
}

func incidentParams(tenant [16]byte, from time.Time) dbsqlc.ConsoleIncidentsParams {
	return dbsqlc.ConsoleIncidentsParams{
		TenantID:     tenant,
		FromID:       runs.FirstID(from),
		FromAt:       from,
		MaxRows:      stats.MaxBadRuns,
		MaxIncidents: consoleIncidents,
	}
}

// Sparks returns up to each of the newest runs per endpoint, oldest first. It looks back two days.
func (c *Console) Sparks(ctx context.Context, tenant [16]byte, ids [][16]byte, each int) (sparks map[[16]byte][]stats.RunSample, err error) {
	sparks = make(map[[16]byte][]stats.RunSample, len(ids))
	err = c.db.Snapshot(ctx, func(tx pgx.Tx) error {
		now, err := c.db.DecisionTime(ctx, tx)
		if err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		rows, err := c.db.Q.ConsoleSparklines(ctx, tx, dbsqlc.ConsoleSparklinesParams{
			TenantID:    tenant,
			EndpointIds: ids,
			FromAt:      now.Add(-consoleSparkDays),
			PerEndpoint: int32(each),
		})
		if err != nil {
			return fmt.Errorf("reading the newest runs of %d endpoints: %w", len(ids), err)
		}
		for _, row := range rows {
			sparks[row.EndpointID] = append(sparks[row.EndpointID], stats.RunSample{
				Status:       row.Status,
				ScheduledFor: row.ScheduledFor,
				StartedAt:    row.StartedAt,
				FinishedAt:   row.FinishedAt,
			})
		}
		return nil
	})
	return sparks, err
}

// History returns the decisions and hints of an endpoint over a period. For an endpoint of another
// tenant both are empty.
func (c *Console) History(ctx context.Context, tenant, endpoint [16]byte, over time.Duration) (h stats.History, err error) {
	err = c.db.Snapshot(ctx, func(tx pgx.Tx) error {
		if h.At, err = c.db.DecisionTime(ctx, tx); err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		from := h.At.Add(-over)
		if h.Changes, err = c.changes(ctx, tx, dbsqlc.ConsoleDecisionsParams{
			EndpointID: endpoint,
			TenantID:   tenant,
			FromAt:     from,
			MaxRows:    consoleChanges,
		}); err != nil {
			return err
		}
		h.Hints, err = c.hints(ctx, tx, dbsqlc.ConsoleHintsParams{
			EndpointID: endpoint,
			TenantID:   tenant,
			FromAt:     from,
			MaxRows:    consoleChanges,
		})
		return err
	})
	return h, err
}

func (c *Console) changes(ctx context.Context, tx pgx.Tx, p dbsqlc.ConsoleDecisionsParams) ([]stats.Change, error) {
	rows, err := c.db.Q.ConsoleDecisions(ctx, tx, p)
	if err != nil {
		return nil, fmt.Errorf("reading the decisions about an endpoint: %w", err)
	}
	list := make([]stats.Change, len(rows))
	for i, row := range rows {
		var input history.LedgerEntry
		if err := json.Unmarshal(row.Input, &input); err != nil {
			return nil, fmt.Errorf("reading the input of a decision: %w", err)
		}
		list[i] = stats.Change{
			At:          row.DecidedAt,
			Cause:       row.Cause,
			Author:      row.Author,
			NextRunAt:   row.NextRunAt,
			Source:      row.NextSource,
			PausedUntil: pg.OrZero(input.PausedUntil),
		}
	}
	return list, nil
}

func (c *Console) hints(ctx context.Context, tx pgx.Tx, p dbsqlc.ConsoleHintsParams) ([]stats.Hint, error) {
	rows, err := c.db.Q.ConsoleHints(ctx, tx, p)
	if err != nil {
		return nil, fmt.Errorf("reading the hints of an endpoint: %w", err)
	}
	list := make([]stats.Hint, len(rows))
	for i, row := range rows {
		list[i] = stats.Hint{
			Kind:      row.Kind,
			Interval:  pg.Millis(pg.OrZero(row.IntervalMs)),
			RunAt:     pg.OrZero(row.RunAt),
			CreatedAt: row.CreatedAt,
			EndedAt:   row.ExpiresAt,
			Reason:    row.Reason,
			Author:    row.Author,
		}
		if row.EndedAt != nil && row.EndedAt.Before(row.ExpiresAt) {
			list[i].EndedAt = *row.EndedAt
		}
	}
	return list, nil
}

// Proof returns statistics about the guarantees over a tenant's newest runs, at most one day back.
func (c *Console) Proof(ctx context.Context, tenant [16]byte) (p stats.GuaranteeStats, err error) {
	err = c.db.Snapshot(ctx, func(tx pgx.Tx) error {
		now, err := c.db.DecisionTime(ctx, tx)
		if err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		from := now.Add(-consoleProofTime)
		row, err := c.db.Q.ConsoleGuarantees(ctx, tx, dbsqlc.ConsoleGuaranteesParams{
			FromAt:   from,
			TenantID: tenant,
			MaxRows:  stats.MaxRuns,
		})
		if err != nil {
			return fmt.Errorf("checking the guarantees of the newest runs: %w", err)
		}
		p = stats.GuaranteeStats{
			At:          now,
			Since:       row.Since,
			Runs:        row.Runs,
			Early:       row.Early,
			Doubled:     row.Doubled,
			Overlapping: row.Overlapping,
			Lost:        row.Lost,
			LagP50:      millis(row.LagP50Ms),
			LagP99:      millis(row.LagP99Ms),
		}
		if p.SkippedDue, err = c.db.Q.ConsoleSkipped(ctx, tx, dbsqlc.ConsoleSkippedParams{
			TenantID: tenant,
			FromAt:   from,
			MaxRows:  stats.MaxRuns,
		}); err != nil {
			return fmt.Errorf("counting skipped due times: %w", err)
		}
		if p.Stuck, err = c.db.Q.ConsoleStuck(ctx, tx, dbsqlc.ConsoleStuckParams{TenantID: tenant, Now: now}); err != nil {
			return fmt.Errorf("counting stuck runs: %w", err)
		}
		return nil
	})
	return p, err
}

func millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// DecisionBasis returns the stored basis of an endpoint's next decision. It is zero if the endpoint
// is archived or of another tenant.
func (c *Console) DecisionBasis(ctx context.Context, tenant, endpoint [16]byte) (stats.DecisionBasis, error) {
	row, err := c.db.Q.ConsoleDecisionInputs(ctx, c.db.Pool, dbsqlc.ConsoleDecisionInputsParams{EndpointID: endpoint, TenantID: tenant})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return stats.DecisionBasis{}, fmt.Errorf("reading the basis of an endpoint's next decision: %w", pg.Translate(err))
	}
	return stats.DecisionBasis{
		Anchor:     pg.OrZero(row.Anchor),
		RetryAfter: pg.OrZero(row.RetryAfter),
		TargetNext: pg.OrZero(row.TargetNext),
		FreshUntil: pg.OrZero(row.FreshUntil),
	}, nil
}

// Names returns the names of some endpoints of a tenant.
func (c *Console) Names(ctx context.Context, tenant [16]byte, ids [][16]byte) (map[[16]byte]string, error) {
	rows, err := c.db.Q.ConsoleNames(ctx, c.db.Pool, dbsqlc.ConsoleNamesParams{Ids: ids, TenantID: tenant})
	if err != nil {
		return nil, fmt.Errorf("reading the names of %d endpoints: %w", len(ids), pg.Translate(err))
	}
	names := make(map[[16]byte]string, len(rows))
	for _, row := range rows {
		names[row.ID] = row.Name
	}
	return names, nil
}
