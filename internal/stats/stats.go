// Package stats holds the numbers, series and histories in which the API and the console show the state of Rubato: health of an
// endpoint, due and running work, workers, and the newest runs in figures. It reads no clock; instants are the database's.
//
// Sums of runs look at the newest of them only, up to a bound, because a question must not cost more if more is going on. The start of
// the runs that were read comes with each answer.
package stats

import (
	"context"
	"time"
)

// The bounds of what is read, so that a question costs the same however long the history is.
const (
	HealthRuns   = 100_000 // the newest runs of an endpoint that its health is made of
	OverviewRuns = 10_000  // the newest runs of a tenant that its overview is made of
	OverviewSpan = time.Hour
	DueRows      = 10_000 // due endpoints that are counted; so many means "so many or more"
	MaxWorkers   = 500
)

// Windows are the spans of time that the health of an endpoint is told for, the shortest first.
func Windows() []time.Duration { return []time.Duration{time.Hour, 4 * time.Hour, 24 * time.Hour} }

// Reader reads the numbers.
type Reader interface {
	// Health returns how an endpoint did over each of [Windows], judged by the due times of its newest [HealthRuns] runs. It does not
	// ask whether there is such an endpoint: of one that is not there, nothing ran.
	Health(ctx context.Context, tenant, endpoint [16]byte) ([]Health, error)
	// Overview returns how a tenant's endpoints do.
	Overview(ctx context.Context, tenant [16]byte) (Overview, error)
	// Workers returns the newest [MaxWorkers] workers that are remembered, and the moment.
	Workers(ctx context.Context) ([]Worker, time.Time, error)
}

// Health sums up the runs of one endpoint whose due times lie in a window that ends now. Runs that infrastructure or a user ended are
// in Runs alone.
type Health struct {
	Window    time.Duration
	Runs      int64 // that ended, skipped due times aside
	Succeeded int64
	Failed    int64 // failed or timed out
	Skipped   int64 // due times that passed without a run; of a record that began before the window its share by time
	Latency   Percentiles
}

// Spread is percentiles of durations; all zero where there were none.
type Percentiles struct {
	P50, P95, P99 time.Duration
}

// Overview is the state of a tenant's endpoints at a moment, and how its newest runs did: at most [OverviewRuns] of those that were
// due within [OverviewSpan].
type Overview struct {
	At        time.Time
	Due       int64         // endpoints that could be claimed and wait, at most [DueRows]
	OldestDue time.Duration // for how long the first of them has waited
	Running   int64
	Runs      int64     // how many runs the rest is made of
	Since     time.Time // the due time of the oldest of them; zero where there is none
	Statuses  map[string]int64
	StartLag  Percentiles // of first attempts
	Latency   Percentiles // of answers
}

// Worker is a process that runs endpoints, or did.
type Worker struct {
	ID          [16]byte
	Name        string
	Version     string
	State       WorkerState
	Slots, Busy int
	StartedAt   time.Time
	HeartbeatAt time.Time
}

// WorkerState is what is known of a worker.
type WorkerState string

// The states: what the worker said last, unless it has been silent for too long.
const (
	Active   WorkerState = "active"
	Draining WorkerState = "draining"
	Inactive WorkerState = "inactive" // it said goodbye
	Silent   WorkerState = "silent"   // not heard of for three beats
)
