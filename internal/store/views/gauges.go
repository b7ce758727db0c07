package views

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/stats"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
	"rubato/internal/telemetry"
)

const (
	// gaugeRows bounds the count of due endpoints. A larger backlog is reported as this number,
	// because counting more takes time and changes no alert.
	gaugeRows = 10_000
)

// Gauges reads the metrics of the database. It implements telemetry.DatabaseReader.
type Gauges struct {
	db  *pg.DB
	due pg.LowWaterMark
}

var _ telemetry.DatabaseReader = (*Gauges)(nil)

// NewGauges returns the reader of the database's metrics.
func NewGauges(db *pg.DB) *Gauges { return &Gauges{db: db} }

// ReadDatabase implements telemetry.DatabaseReader. It reads one snapshot. It takes milliseconds
// regardless of the number of endpoints, because its counts are bounded.
func (g *Gauges) ReadDatabase(ctx context.Context) (state telemetry.DatabaseState, err error) {
	err = g.db.Snapshot(ctx, func(tx pgx.Tx) error {
		schedule, err := g.db.DueGauge(ctx, tx, &g.due, gaugeRows)
		if err != nil {
			return err
		}
		workers, err := g.db.Q.WorkerGauge(ctx, tx, dbsqlc.WorkerGaugeParams{Now: g.db.Now(), SilentMs: stats.SilentAfter.Milliseconds()})
		if err != nil {
			return fmt.Errorf("counting workers: %w", err)
		}
		hosts, err := g.db.Q.HostGauge(ctx, tx, gaugeRows)
		if err != nil {
			return fmt.Errorf("counting open hosts and dead letters: %w", err)
		}
		held, err := g.db.Q.SnapshotGauge(ctx, tx)
		if err != nil {
			return fmt.Errorf("looking for the oldest snapshot: %w", err)
		}
		state = telemetry.DatabaseState{
			Due:       schedule.Due,
			OldestDue: seconds(schedule.OldestSeconds),
			Workers:   map[string]int64{},
			Hosts: map[string]int64{
				"open":      hosts.Open,
				"half_open": hosts.HalfOpen,
				"limited":   hosts.Limited,
			},
			DeadLetters: hosts.DeadLetters,
		}
		if len(held) > 0 {
			state.OldestSnapshot, state.SnapshotHolder = seconds(held[0].Seconds), holderOf(held[0])
		}
		for _, row := range workers {
			state.Workers[row.State] = row.Workers
		}
		return nil
	})
	return state, err
}

func holderOf(row *dbsqlc.SnapshotGaugeRow) telemetry.SnapshotHolder {
	h := telemetry.SnapshotHolder{
		PID:         row.Pid,
		User:        row.UserName,
		Application: row.ApplicationName,
		Client:      row.Client,
		State:       row.State,
		Since:       row.Since,
		Command:     row.Command,
		QueryID:     row.QueryID,
		Prepared:    row.Prepared,
	}
	if row.QueryStart != nil {
		h.QueryStart = *row.QueryStart
	}
	return h
}

func seconds(s float64) time.Duration { return max(0, time.Duration(s*float64(time.Second))) }
