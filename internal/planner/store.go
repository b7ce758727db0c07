package planner

import (
	"context"
	"errors"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// Claim is the exclusive right to analyse one endpoint until its lock expires. Its token fences
// every write.
type Claim struct {
	Account Account
	Token   int64
	Trigger Trigger
	Memory  Memory
}

// ErrClaimLost is returned if the lock of a claim has expired and another planner may hold it.
// Nothing was written.
var ErrClaimLost = errors.New("the claim of the analysis no longer holds")

// ErrUnwritable is returned if the database rejects a value of a completion. A retry would fail
// again. Nothing was written.
var ErrUnwritable = errors.New("the database refuses a value of the session")

// Queue is the queue of endpoints that wait for analysis. Every method is one transaction.
type Queue interface {
	// DetectChanges enqueues new endpoints, endpoints with a changed outcome, and endpoints that are
	// no longer parked. It scans a bounded batch and continues where the last scan of any planner
	// stopped. One planner scans at a time; for the others it returns at once.
	DetectChanges(ctx context.Context) error
	// Claim claims at most limit due endpoints, the most urgent first, with the lock of the queue.
	Claim(ctx context.Context, limit int) ([]Claim, error)
	// Release returns claims to the queue. Lost claims are ignored.
	Release(ctx context.Context, tickets []Claim) error
	// Park ends a claim and parks its endpoint until its state changes; an archived endpoint is
	// removed.
	Park(ctx context.Context, t Claim, why ParkReason, version int64) error
	// Complete ends a claim with the record of its session and applies the session's changes, all
	// or nothing. The error is [ErrClaimLost] if the claim is lost, [ErrUnwritable] if a value
	// cannot be stored, or the error of Apply.
	Complete(ctx context.Context, t Claim, c Completion) error
}

// ParkReason is the reason why an endpoint is not analysed.
type ParkReason string

// The reasons.
const (
	ParkedPaused   ParkReason = "paused"
	ParkedOff      ParkReason = "off"
	ParkedArchived ParkReason = "archived"
)

// Completion is the result of a session, as the queue stores it.
type Completion struct {
	// Session is the record. Apply may change its times.
	Session    *Session
	Suggestion *Suggestion // nil: none
	Memory     Memory
	// NextAt is the time of the next analysis.
	NextAt time.Time
	// NotBefore is the earliest time of an analysis that a change of the endpoint triggers.
	NotBefore time.Time
	// SeenStatus is the status of the newest run, against which changes are detected; empty if
	// there is none.
	SeenStatus string
	// Apply changes the endpoint under its row lock, at database time and within the holds of
	// people at that time. nil changes and locks nothing. Its error rolls the transaction back.
	Apply func(e *endpoints.Endpoint, holds []endpoints.Hold, now time.Time) (*endpoints.Recorded, error)
}

// EvidenceStore reads the inputs of analyses and purges old records.
type EvidenceStore interface {
	// Load returns an endpoint with its newest runs and its siblings, in one snapshot. The error is
	// an errs.NotFound if the tenant has no such endpoint.
	Load(ctx context.Context, a Account) (Inputs, error)
	// Responses returns the newest responses of an endpoint with their bodies, newest first. It
	// returns none for an endpoint that is not [VisibleToAdvisor] at that time.
	Responses(ctx context.Context, a Account, limit int) ([]runs.Run, error)
	// Purge deletes sessions, suggestions and token counts from before an instant, in a bounded
	// batch.
	Purge(ctx context.Context, before time.Time) error
}

// Inputs are the database rows from which a snapshot is built.
type Inputs struct {
	Endpoint *endpoints.Endpoint
	Now      time.Time
	// Runs are those of the last day, newest first, at most [HealthSample], without bodies.
	Runs []runs.Run
	// Siblings are those that are [VisibleToAdvisor].
	Siblings []SiblingHistory
	// FleetSlowdown is read only if the endpoint or a sibling is slow.
	FleetSlowdown FleetSlowdown
	// Holds are the kinds of changes that a person has blocked for a time.
	Holds []endpoints.Hold
}

// SiblingHistory is a sibling with its newest runs.
type SiblingHistory struct {
	Endpoint *endpoints.Endpoint
	// Runs are those of the last hour, newest first, at most [SiblingSample].
	Runs []runs.Run
}
