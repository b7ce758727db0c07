package dispatch

import (
	"time"

	"rubato/internal/claims"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/template"
)

// Start asks for the start of a claim.
type Start struct {
	Claim     claims.Claim
	TenantID  [16]byte
	RunID     runs.ID
	Execution time.Duration // limit of the execution
	Last      bool          // the run needs to know of the one before
	Secrets   bool          // the run needs to know which version the secrets of its tenant have
}

// Starting asks for the starts of a batch.
type Starting struct {
	Worker  [16]byte
	List    []Start
	LockTTL time.Duration
	Until   time.Time // in database time: carried out later, it starts nothing; zero: whenever
}

// Started is a live run. Instants are database time.
type Started struct {
	EndpointID  [16]byte
	TenantID    [16]byte
	RunID       runs.ID
	StartedAt   time.Time
	LockedUntil time.Time
	Last        template.Last // the run before, where its Start asked
	Basis       Basis         // for the finish
	// SecretsVersion is the version of the tenant's secrets that the run goes by, where its Start asked: no change of them that had
	// returned before the start was committed is missing from it.
	SecretsVersion int64
}

// Basis is what the store read with a start and needs again for the finish: the row and the hints of the endpoint. Only the store looks
// inside. A finish with it writes without reading, and reads only the rows that were changed during their runs; nil has it read always.
type Basis any

// Finish asks for the record of finished runs.
type Finish struct {
	Worker  [16]byte
	Runs    []runs.Run // those that are still the worker's are told when they were claimed
	Bases   []Basis    // one for each run, or none at all
	Now     time.Time  // the worker's view of the database's time; zero: unknown, and nothing is written without reading
	Keep    Keep
	LockTTL time.Duration
}

// Keep bounds the next due times that stay claimed by the worker after a finish. Its zero value keeps none.
type Keep struct {
	Within time.Duration // maximum distance of a due time that stays
	Most   int           // maximum number of them
}

// Finished tells what a Finish did.
type Finished struct {
	Kept []claims.Claim // next due times that stay with the worker, under new tokens
	Late []runs.ID      // runs that somebody else had settled: their answers came too late
	// Repeated are runs that an earlier attempt of the same finish had recorded, whose answer got lost. Kept and Decided tell of them too.
	Repeated []runs.ID
	Decided  []governor.Source // what decided the next due times
	Skipped  []endpoints.Skip  // due times that passed without a run, and are recorded now
}

// Presence is what a worker tells about itself.
type Presence struct {
	ID      [16]byte
	Name    string
	Version string
	State   State
	Slots   int
	Busy    int

	MaxSlots int // to which Slots may grow
	Queued   int // claims in its queue
}

// Fleet is the sum of the active workers.
type Fleet struct {
	Workers  int
	MaxSlots int
	Queued   int // claims in their queues
}

// Cancel is what somebody asked of a live run: its end.
type Cancel struct {
	RunID  runs.ID
	Token  int64 // the fence of the run
	Author string
	Reason string // may be empty
}
