// Package stats defines the statistics of the API and the console: health of an endpoint, due and
// live runs, workers, and recent runs. It reads no clock; instants are the database's.
//
// Aggregates read only the newest runs, up to a limit, so that a request costs the same under any
// load. Each result holds the start of the runs that were read.
package stats

import (
	"context"
	"time"

	"rubato/internal/ids"
)

// Limits on the rows that are read, so that a request costs the same for any history.
const (
	HealthRuns   = 100_000 // newest runs in an endpoint's health
	OverviewRuns = 10_000  // newest runs in a tenant's overview
	OverviewSpan = time.Hour
	DueRows      = 10_000 // limit of the count of due endpoints
	MaxWorkers   = 500
	// SilentAfter is the age of a heartbeat from which a worker counts as silent: three heartbeat
	// intervals.
	SilentAfter = 6 * time.Second
)

// Windows returns the windows of an endpoint's health, the shortest first.
func Windows() []time.Duration { return []time.Duration{time.Hour, 4 * time.Hour, 24 * time.Hour} }

// Reader reads statistics.
type Reader interface {
	// Health returns the health of an endpoint over each of [Windows], from its newest [HealthRuns]
	// runs by due time. An unknown endpoint has no runs.
	Health(ctx context.Context, tenant, endpoint [16]byte) ([]Health, error)
	// Looks returns what an endpoint's newest [MaxLooks] runs since an instant found, in steps of
	// time. An unknown endpoint has no runs.
	Looks(ctx context.Context, tenant, endpoint [16]byte, since time.Time, step time.Duration) (Looks, error)
	// Overview returns the overview of a tenant's endpoints.
	Overview(ctx context.Context, tenant [16]byte) (Overview, error)
	// Workers returns the newest [MaxWorkers] known workers, and the database time.
	Workers(ctx context.Context) ([]Worker, time.Time, error)
}

// Health aggregates the runs of one endpoint with due times in a window up to now. Runs that
// infrastructure or a user ended are only in Runs.
type Health struct {
	Window    time.Duration
	Runs      int64 // finished runs without skipped due times
	Succeeded int64
	Failed    int64 // failed or timed out
	// Skipped counts skipped due times; a record that began before the window counts in proportion.
	Skipped int64
	Latency Percentiles
}

// Percentiles are percentiles of durations; all zero without data.
type Percentiles struct {
	P50, P95, P99 time.Duration
}

// Overview summarizes a tenant's endpoints and its newest runs: at most [OverviewRuns] of those due
// within [OverviewSpan].
type Overview struct {
	At        time.Time
	Due       int64         // endpoints waiting to be claimed, at most [DueRows]
	OldestDue time.Duration // wait of the oldest of them
	Running   int64
	Runs      int64     // number of runs in the rest
	Since     time.Time // due time of the oldest run; zero: none
	Statuses  map[string]int64
	StartLag  Percentiles // of first attempts
	Latency   Percentiles // of responses
}

// Worker is a worker process, running or stopped.
type Worker struct {
	ID          [16]byte
	Name        string
	Version     string
	State       WorkerState
	Slots, Busy int
	StartedAt   time.Time
	HeartbeatAt time.Time
	// Tags are given by the operator, Capabilities are found by the worker.
	Tags, Capabilities []string
	// Exclusive workers run only endpoints that require one of Tags.
	Exclusive bool
}

// workerIDs formats the IDs of workers.
func workerIDs() ids.Kind { return ids.Kind{Prefix: "wk_", Noun: "worker"} }

// WorkerName returns the ID of a worker as users see it.
func WorkerName(id [16]byte) string { return workerIDs().String(id) }

// ParseWorker reads the form that [WorkerName] writes. A text that is no ID is an [errs.NotFound].
func ParseWorker(s string) ([16]byte, error) { return workerIDs().Parse(s) }

// WorkerState is the state of a worker.
type WorkerState string

// The states: the last one that the worker reported, unless it is silent.
const (
	Active   WorkerState = "active"
	Draining WorkerState = "draining"
	Drained  WorkerState = "drained"  // alive without claims and runs, by an operator's order
	Inactive WorkerState = "inactive" // stopped gracefully
	Silent   WorkerState = "silent"   // no heartbeat for three intervals
)
