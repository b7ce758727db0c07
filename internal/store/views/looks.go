package views

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/stats"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/tempo"
)

// Looks implements stats.Reader.
func (s *Stats) Looks(ctx context.Context, tenant, endpoint [16]byte, since time.Time, step time.Duration) (l stats.Looks, err error) {
	l.From = since
	err = s.db.List(ctx, func(tx pgx.Tx) error {
		if l.At, err = s.db.DecisionTime(ctx, tx); err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		rows, err := s.db.Q.EndpointLooks(ctx, tx, dbsqlc.EndpointLooksParams{
			TenantID:   tenant,
			EndpointID: endpoint,
			FromID:     runs.FirstID(since),
			FromAt:     since,
			StepMs:     step.Milliseconds(),
			MaxRows:    stats.MaxLooks,
		})
		if err != nil {
			return fmt.Errorf("counting the changes that runs of an endpoint found: %w", err)
		}
		for _, row := range rows {
			l.Groups = append(l.Groups, stats.LookGroup{
				At:       row.At,
				Compared: row.Compared,
				Looks: tempo.Looks{
					Gap:     millis(row.GapMs),
					Changed: row.Changed,
					Count:   row.Runs,
				},
			})
		}
		if l.Prices, err = s.prices(ctx, tx, dbsqlc.EndpointLastStepsParams{
			TenantID:   tenant,
			EndpointID: endpoint,
			FromAt:     since,
		}, l.At, step); err != nil {
			return err
		}
		l.Pauses, err = s.pauses(ctx, tx, dbsqlc.EndpointPausesParams{
			TenantID:   tenant,
			EndpointID: endpoint,
			FromID:     runs.FirstID(since),
			FromAt:     since,
		}, l.At)
		return err
	})
	return l, err
}

func (s *Stats) pauses(ctx context.Context, tx pgx.Tx, p dbsqlc.EndpointPausesParams, now time.Time) ([][2]time.Time, error) {
	rows, err := s.db.Q.EndpointPauses(ctx, tx, p)
	if err != nil {
		return nil, fmt.Errorf("reading the pauses of an endpoint: %w", err)
	}
	decisions := make([][2]time.Time, len(rows))
	for i, row := range rows {
		decisions[i] = [2]time.Time{row.At, row.Until}
	}
	return stats.Pauses(decisions, p.FromAt, now), nil
}

// prices returns the price at the end of each step since p.FromAt.
func (s *Stats) prices(ctx context.Context, tx pgx.Tx, p dbsqlc.EndpointLastStepsParams, now time.Time, step time.Duration) (map[time.Time]float64, error) {
	for at := p.FromAt; at.Before(now); at = at.Add(step) {
		p.Numbers = append(p.Numbers, int64(len(p.Numbers)))
		p.FromIds, p.ToIds = append(p.FromIds, runs.FirstID(at)), append(p.ToIds, runs.FirstID(at.Add(step)))
	}
	rows, err := s.db.Q.EndpointLastSteps(ctx, tx, p)
	if err != nil {
		return nil, fmt.Errorf("reading the prices of an endpoint's runs: %w", err)
	}
	prices := map[time.Time]float64{}
	for _, row := range rows {
		var steps []governor.Step
		if err := json.Unmarshal(row.NextSteps, &steps); err != nil {
			return nil, fmt.Errorf("reading the steps of a decision: %w", err)
		}
		for _, s := range steps {
			if s.Rule == governor.RuleChangeRate {
				prices[p.FromAt.Add(time.Duration(row.Number)*step).UTC()] = s.Price
			}
		}
	}
	return prices, nil
}

// Savings compares a tenant's newest runs with those of their baseline intervals.
func (c *Console) Savings(ctx context.Context, tenant [16]byte) (s stats.Savings, err error) {
	err = c.db.List(ctx, func(tx pgx.Tx) error {
		if s.At, err = c.db.DecisionTime(ctx, tx); err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		row, err := c.db.Q.ConsoleSavings(ctx, tx, dbsqlc.ConsoleSavingsParams{
			TenantID: tenant,
			FromAt:   s.At.Add(-consoleProofTime),
			MaxRows:  stats.MaxRuns,
		})
		if err != nil {
			return fmt.Errorf("comparing runs with their baselines: %w", err)
		}
		s.Since, s.Cut, s.Endpoints = row.Since, row.Cut, row.Endpoints
		s.Runs, s.BaselineRuns, s.Changes = row.Runs, row.BaselineRuns, row.Changes
		return nil
	})
	return s, err
}
