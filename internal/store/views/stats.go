package views

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/runs"
	"rubato/internal/stats"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// Stats reads health, due endpoints and workers. It implements stats.Reader.
type Stats struct {
	db *pg.DB
}

var _ stats.Reader = (*Stats)(nil)

// NewStats returns the reader of statistics.
func NewStats(db *pg.DB) *Stats { return &Stats{db: db} }

// Health implements stats.Reader.
func (s *Stats) Health(ctx context.Context, tenant, endpoint [16]byte) (list []stats.Health, err error) {
	windows := stats.Windows()
	err = s.db.List(ctx, func(tx pgx.Tx) error {
		now, err := s.db.DecisionTime(ctx, tx)
		if err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		from := now.Add(-windows[len(windows)-1])
		rows, err := s.db.Q.EndpointHealth(ctx, tx, dbsqlc.EndpointHealthParams{
			TenantID:   tenant,
			EndpointID: endpoint,
			Now:        &now,
			FromID:     runs.FirstID(from),
			FromAt:     from,
			WindowsMs:  milliseconds(windows),
			MaxRows:    stats.HealthRuns,
		})
		if err != nil {
			return fmt.Errorf("summing up the runs of an endpoint: %w", err)
		}
		for _, row := range rows {
			list = append(list, stats.Health{
				Window:    pg.Millis(row.WindowMs),
				Runs:      row.Runs,
				Succeeded: row.Succeeded,
				Failed:    row.Failed,
				Skipped:   row.Skipped,
				Latency:   spread(row.P50Us, row.P95Us, row.P99Us),
			})
		}
		return nil
	})
	return list, err
}

// Overview implements stats.Reader.
func (s *Stats) Overview(ctx context.Context, tenant [16]byte) (o stats.Overview, err error) {
	err = s.db.List(ctx, func(tx pgx.Tx) error {
		gauge, err := s.db.Q.TenantGauge(ctx, tx, dbsqlc.TenantGaugeParams{
			TenantID: tenant,
			Now:      s.db.Now(),
			MaxRows:  stats.DueRows,
		})
		if err != nil {
			return fmt.Errorf("counting what is due and running: %w", err)
		}
		o = stats.Overview{
			At:        gauge.At,
			Due:       gauge.Due,
			OldestDue: seconds(gauge.OldestSeconds),
			Running:   gauge.Running,
			Statuses:  map[string]int64{},
		}
		from := gauge.At.Add(-stats.OverviewSpan)
		rows, err := s.db.Q.TenantRuns(ctx, tx, dbsqlc.TenantRunsParams{
			TenantID: tenant,
			FromID:   runs.FirstID(from),
			FromAt:   from,
			MaxRows:  stats.OverviewRuns,
		})
		if err != nil {
			return fmt.Errorf("summing up the newest runs: %w", err)
		}
		for _, row := range rows {
			if row.Status != "" {
				o.Statuses[row.Status] = row.Runs
				continue
			}
			o.Runs, o.Since = row.Runs, row.Since
			o.StartLag, o.Latency = spread(row.LagP50Us, row.LagP95Us, row.LagP99Us), spread(row.P50Us, row.P95Us, row.P99Us)
		}
		return nil
	})
	return o, err
}

// Workers implements stats.Reader.
func (s *Stats) Workers(ctx context.Context) (list []stats.Worker, at time.Time, err error) {
	err = s.db.Snapshot(ctx, func(tx pgx.Tx) error {
		rows, err := s.db.Q.WorkerList(ctx, tx, dbsqlc.WorkerListParams{
			Now:      s.db.Now(),
			SilentMs: stats.SilentAfter.Milliseconds(),
			MaxRows:  stats.MaxWorkers,
		})
		if err != nil {
			return fmt.Errorf("listing workers: %w", err)
		}
		if at, err = s.db.DecisionTime(ctx, tx); err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		for _, row := range rows {
			list = append(list, stats.Worker{
				ID:           row.ID,
				Name:         row.Name,
				Version:      row.Version,
				State:        stats.WorkerState(row.State),
				Slots:        int(row.Slots),
				Busy:         int(row.Busy),
				StartedAt:    row.StartedAt,
				HeartbeatAt:  row.HeartbeatAt,
				Tags:         row.Tags,
				Capabilities: row.Capabilities,
				Exclusive:    row.Exclusive,
			})
		}
		return nil
	})
	return list, at, err
}

func milliseconds(spans []time.Duration) []int64 {
	list := make([]int64, len(spans))
	for i, span := range spans {
		list[i] = span.Milliseconds()
	}
	return list
}

func spread(p50, p95, p99 int64) stats.Percentiles {
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	return stats.Percentiles{
		P50: us(p50),
		P95: us(p95),
		P99: us(p99),
	}
}
