package dispatch

import (
	"time"

	"rubato/internal/claims"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/template"
)

// Start requests the start of one claim.
type Start struct {
	Claim    claims.Claim
	TenantID [16]byte
	RunID    runs.ID
	// Execution is the maximum execution time.
	Execution time.Duration
	// Last is set if the request needs the previous run.
	Last bool
	// Secrets is set if the run needs the version of its tenant's secrets.
	Secrets bool
}

// Starting requests the starts of a batch in one transaction.
type Starting struct {
	Worker  [16]byte
	List    []Start
	LockTTL time.Duration
	// Until is the deadline of the statement in database time, because a request may leave only
	// shortly after its start. If the database executes it later, no run starts. Zero: no deadline.
	Until time.Time
}

// Started is a live run. Instants are database time.
type Started struct {
	EndpointID  [16]byte
	TenantID    [16]byte
	RunID       runs.ID
	StartedAt   time.Time
	LockedUntil time.Time
	// Last is the previous run, if the Start asked for it.
	Last template.Last
	// Basis goes into the Finish of the run.
	Basis Basis
	// SecretsVersion is the version of the tenant's secrets for the run, if the Start asked for it.
	// It includes every change that had returned before the start was committed.
	SecretsVersion int64
}

// Detaching requests a row of its own for a live run.
type Detaching struct {
	Worker [16]byte
	Run    claims.FencedRun
	// StartedAt is the start of the run by the worker's clock, in database time. The minimum interval
	// counts from it.
	StartedAt time.Time
}

// Basis is a snapshot of the endpoint's row and hints, which the store takes at the start and needs
// for the finish. Only the store reads it. A finish with it writes without reading first, and reads
// only rows that changed during their runs. nil: the finish reads every row.
type Basis any

// Finish requests the records of a batch of finished runs.
type Finish struct {
	Worker [16]byte
	// Runs are the finished runs. The store sets ClaimedAt of those that the worker still holds.
	Runs []runs.Run
	// Bases has one element per run, or is empty.
	Bases []Basis
	// Now is the worker's estimate of the database's time. Zero: unknown, therefore the store reads
	// every row before it writes.
	Now     time.Time
	Keep    Keep
	LockTTL time.Duration
}

// Keep bounds the next due times that stay claimed by the worker after a finish. Its zero value
// keeps none.
type Keep struct {
	Within time.Duration // maximum distance of a due time that stays
	Most   int           // maximum number of them
	// TagSets are the tag sets that the worker serves.
	TagSets claims.TagSets
}

// Finished is the result of a Finish.
type Finished struct {
	// Kept are the next due times that stay claimed by the worker, under new tokens.
	Kept []claims.Claim
	// Late are runs that had been settled before their answers came.
	Late []runs.ID
	// Repeated are runs that an earlier attempt of the same finish recorded before its result got
	// lost. Kept and Decided include them.
	Repeated []runs.ID
	// Decided are the sources of the next due times.
	Decided []governor.Source
	// Skipped are the due times that passed without a run and are now recorded.
	Skipped []endpoints.Skip
}

// Presence is the heartbeat of a worker, with its state and load.
type Presence struct {
	ID      [16]byte
	Name    string
	Version string
	State   State
	Slots   int
	Busy    int

	// MaxSlots is the maximum of Slots.
	MaxSlots int
	// Queued is the number of claims in the worker's queue.
	Queued int
	Placement
}

// Placement says which endpoints a worker may run.
type Placement struct {
	// Tags are given by the operator, Capabilities are found by the program. Both are sorted.
	Tags, Capabilities []string
	// Exclusive workers run only endpoints that require one of Tags.
	Exclusive bool
}

// Fleet is the sum of the active workers, as one of them sees it.
type Fleet struct {
	Workers int
	// Index is the index of the worker that asked, from zero.
	Index    int
	MaxSlots int
	Queued   int // claims in their queues
	// TagSets are the tag sets that the asking worker serves.
	TagSets claims.TagSets
}

// Cancel is a user's request to cancel a live run.
type Cancel struct {
	RunID  runs.ID
	Token  int64 // fencing token of the run
	Author string
	Reason string // may be empty
}
