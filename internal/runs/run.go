// Package runs defines a run: its ID, its statuses, the meaning of an outcome, and its history. It
// reads no clock and no random source.
//
// The database is authoritative: a run is live exactly while it has a row in live_runs, and over
// exactly when it has one in runs.
package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"time"
)

// Run is one attempt to call an endpoint, live or over, or the record of skipped due times.
// Instants are UTC; those that do not apply are zero. An unclaimed run has no claim and no start.
type Run struct {
	ID         ID
	EndpointID [16]byte
	// ItemID is the key of the schedule row that carries a detached run; zero: that is EndpointID.
	ItemID       [16]byte
	TenantID     [16]byte
	ScheduledFor time.Time // due time of the run
	Attempt      int       // from 1; each attempt of a due time is a run of its own
	// InfraAttempt is the number of earlier runs of this due time that infrastructure lost and
	// repeated.
	InfraAttempt int
	Source       string // source of the due time, or "manual"
	ClaimToken   int64  // fencing token: higher for every later claim of the endpoint
	WorkerID     [16]byte
	ClaimedAt    time.Time
	StartedAt    time.Time // commit of the start; the request was sent right after
	FinishedAt   time.Time // zero while running
	// CancelRequestedAt is the time of the cancel request. It is set for live runs only; later it
	// is in the timeline.
	CancelRequestedAt time.Time
	// SuspendedUntil is the end of the wait of a suspended run; otherwise zero.
	SuspendedUntil time.Time
	NotBefore      time.Time // earliest start of a waiting run; otherwise zero
	Outcome        Outcome
	Decision       Decision // decision at the finish; zero while running
	// Skipped is set if this is the record of skipped due times; ScheduledFor is then the last of
	// them.
	Skipped *Skips
}

// RowID returns the key of the schedule row that carries the run.
func (r *Run) RowID() [16]byte { return cmp.Or(r.ItemID, r.EndpointID) }

// Unclaimed reports whether the run ended before a worker claimed it, because a user canceled it
// or its endpoint was paused or archived while it waited. Nothing was sent then. Fences of claims
// start at 1.
func (r *Run) Unclaimed() bool {
	return r.ClaimToken == 0 && r.WorkerID == [16]byte{} && (r.Outcome.Status == Skipped || r.Outcome.Status == Canceled)
}

// OneOff reports whether a user or a program asked for this single run.
func (r *Run) OneOff() bool { return r.Source == manual }

// manual is the source of one-off runs.
const manual = "manual"

// Skips is a series of due times that passed without a run. Its row has attempt 0. Its only instant
// is FinishedAt, the time of the record.
type Skips struct {
	From, To time.Time // first and last due time
	// Count is exact, except for a cron with clamps and more than 20,000 due times; then it is a
	// lower bound.
	Count int64
}

// Decision is the governor's decision at the finish of a run. Steps is the stored trace; null if
// its only step was the baseline.
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
	Before     ID        // IDs below it: the cursor of a list
	From, To   time.Time // scheduledFor in [From, To)
	Limit      int       // maximum number of results; must be positive
}

// Reader reads live and finished runs.
type Reader interface {
	// List returns the selected runs, including live ones, by descending ID.
	List(ctx context.Context, f Filter) ([]Run, error)
	// Get returns one run with its captured body. The error is [errs.NotFound] if the tenant has no
	// such run.
	Get(ctx context.Context, tenant [16]byte, id ID) (Run, error)
	// Events returns the timeline of one run: at most [MaxEvents] stored events beside those that
	// every run has. The error is [errs.NotFound] if the tenant has no such run.
	Events(ctx context.Context, tenant [16]byte, id ID) ([]Event, error)
}
