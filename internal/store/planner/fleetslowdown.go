package planner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/planner"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// Bounds of one read of the fleet's slowdown.
const (
	sampleEndpoints = 60
	sampleFinished  = 100              // newest rows of finished_runs, with up to 50 runs each
	sampleLifetime  = 10 * time.Second // lifetime of the result, because every endpoint asks if this installation itself is slow
)

// fleetSample caches the slowdown of the fleet.
type fleetSample struct {
	mu    sync.Mutex
	at    time.Time
	found planner.FleetSlowdown
	seen  planner.FleetSlowdownMemory
}

// strained reports whether the endpoint or a sibling is slower than usual, which makes the fleet's
// slowdown relevant.
func strained(m planner.Inputs) bool {
	return planner.SlowdownOf(m.Runs).Present() ||
		slices.ContainsFunc(m.Siblings, func(f planner.SiblingHistory) bool { return planner.SlowdownOf(f.Runs).Present() })
}

// look returns how many endpoints of the installation are strained at once.
func (c *fleetSample) look(ctx context.Context, db *pg.DB, tx pgx.Tx, now time.Time) (planner.FleetSlowdown, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := now.Sub(c.at); age >= 0 && age < sampleLifetime {
		return c.found, nil
	}
	rows, err := db.Q.PlannerFleetLatencies(ctx, tx, dbsqlc.PlannerFleetLatenciesParams{
		MaxFinished:  sampleFinished,
		MaxEndpoints: sampleEndpoints,
		MaxRuns:      planner.SlowdownSample,
		Since:        now.Add(-24 * time.Hour),
	})
	if err != nil {
		return planner.FleetSlowdown{}, fmt.Errorf("looking for endpoints that are slow at once: %w", err)
	}
	sample := make([]planner.Peer, len(rows))
	for i, row := range rows {
		sample[i].Host = pg.HostOf(row.URL)
		for _, us := range row.Latencies {
			sample[i].Latencies = append(sample[i].Latencies, time.Duration(us)*time.Microsecond)
		}
	}
	c.at, c.found = now, c.seen.Observe(now, planner.FleetSlowdownOf(sample))
	return c.found, nil
}
