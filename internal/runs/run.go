// Package runs knows what a run is: its ID, its statuses, what an outcome means, and what the history keeps of it. It reads no clock
// and no random source.
//
// The database is authoritative: a run is live exactly while it has a row in live_runs, and over exactly when it has one in runs.
package runs

import (
	"context"
	"encoding/json"
	"time"
)

// Run is one attempt to call an endpoint, live or over, or the record of due times that passed without one. Instants are UTC; those
// that do not apply are zero.
type Run struct {
	ID           ID
	EndpointID   [16]byte
	TenantID     [16]byte
	ScheduledFor time.Time // the due time that the run stands for
	Attempt      int       // counted from 1; every attempt of one due time has its own run
	InfraAttempt int       // runs of this due time that infrastructure lost, and that were tried again beside the user's attempts
	Source       string    // the governor's source of the due time, or "manual"
	ClaimToken   int64     // the fence: higher for every later claim of the endpoint
	WorkerID     [16]byte
	ClaimedAt    time.Time
	StartedAt    time.Time // when the start was committed; the request left at once after
	FinishedAt   time.Time // zero while running
	// CancelRequestedAt is when somebody asked for the end of the run while it was live. Only a live run tells; later its story does.
	CancelRequestedAt time.Time
	NotBefore         time.Time // when a waiting run may start at the earliest; zero of any other
	Outcome           Outcome
	Decision          Decision // what the finish decided; zero while running
	Skipped           *Skips   // due times that passed without a run, the last of which is ScheduledFor; nil: this is a run
}

// Skips is due times of an endpoint, one after the other, that passed without a run. The row that records them has attempt 0, and
// of the instants it has FinishedAt alone: when it was recorded.
type Skips struct {
	From, To time.Time // the first and the last of them
	Count    int64     // exact; of a cron with clamps and more than 20,000 due times at least so many
}

// Decision is what the governor decided at the finish of a run. Steps is its trace as stored; null where the one step was the
// baseline.
type Decision struct {
	NextRunAt time.Time
	Source    string
	Steps     json.RawMessage
}

// Filter selects runs of one tenant, newest due time first. Zero fields do not filter.
type Filter struct {
	TenantID   [16]byte
	EndpointID [16]byte
	Statuses   []Status  // any of them
	Before     ID        // only runs whose ID sorts below: the cursor of a list
	From, To   time.Time // scheduledFor in [From, To)
	Limit      int       // at most so many; must be positive
}

// Reader reads live and finished runs.
type Reader interface {
	// List returns the runs that the filter selects, live ones included, by descending ID.
	List(ctx context.Context, f Filter) ([]Run, error)
	// Get returns one run of a tenant with its captured body. The error is [errs.NotFound] when the tenant has no such run.
	Get(ctx context.Context, tenant [16]byte, id ID) (Run, error)
	// Events returns the story of one run of a tenant, in the order in which it happened: at most [MaxEvents] events beside those that every run
	// has. The error is [errs.NotFound] when the tenant has no such run.
	Events(ctx context.Context, tenant [16]byte, id ID) ([]Event, error)
}
