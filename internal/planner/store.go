package planner

import (
	"context"
	"errors"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// Ticket is a claim of an endpoint for one analysis. Its token fences every write.
type Claim struct {
	Account Account
	Token   int64
	Trigger Trigger
	Memory  Memory
}

// ErrClaimLost says that a claim no longer holds: its lock was over, and another planner may have taken it. Nothing was written.
var ErrClaimLost = errors.New("the claim of the analysis no longer holds")

// ErrUnwritable says that the database refuses a value of what a session leaves, and would again. Nothing was written.
var ErrUnwritable = errors.New("the database refuses a value of the session")

// Queue is where endpoints wait for analysis. Every method is one transaction.
type Queue interface {
	// Watch looks for what needs analysis: new endpoints, others that changed how they end, and those that are taken up again. One
	// planner at a time does; the others return at once. It looks at a bounded number of endpoints, and goes on where it, or another
	// planner, stopped.
	DetectChanges(ctx context.Context) error
	// Claim claims what is due, the most urgent first, at most limit of them, for the lock that the queue was made with.
	Claim(ctx context.Context, limit int) ([]Claim, error)
	// Release gives back claims. Those that were lost are passed over.
	Release(ctx context.Context, tickets []Claim) error
	// Leave ends a claim of an endpoint that is to be left alone for the time being, or for good where it is archived.
	Park(ctx context.Context, t Claim, why ParkReason, version int64) error
	// Close ends a claim with the record of its session, and with what the session changes. All of it is written, or nothing: the error
	// is [ErrClaimLost] where the claim no longer holds, [ErrUnwritable] where a value cannot be kept, and whatever Revise returned.
	Complete(ctx context.Context, t Claim, c Completion) error
}

// Parked says why an endpoint is left alone.
type ParkReason string

// The reasons.
const (
	ParkedPaused   ParkReason = "paused"
	ParkedOff      ParkReason = "off"
	ParkedArchived ParkReason = "archived"
)

// Closing is what a session leaves.
type Completion struct {
	Session    *Session    // its times and the like may be changed by Revise
	Suggestion *Suggestion // nil: none
	Memory     Memory
	NextAt     time.Time // of the next analysis
	NotBefore  time.Time // whatever happens
	SeenStatus string    // of the newest run; empty: none
	// Revise changes the endpoint under its lock, at the database's time, within what persons forbid by then; nil: nothing is changed,
	// and nothing locked. An error of it undoes everything.
	Apply func(e *endpoints.Endpoint, holds []endpoints.Hold, now time.Time) (*endpoints.Recorded, error)
}

// Evidence reads what a case is made of. It writes nothing.
type EvidenceStore interface {
	// Look returns an endpoint as it stands with its newest runs and its siblings. The error is an errs.NotFound where the tenant has
	// no such endpoint.
	Load(ctx context.Context, a Account) (Inputs, error)
	// Answers returns the newest answers of an endpoint with their bodies, newest first; none of one that is not [Shown] by now.
	Responses(ctx context.Context, a Account, limit int) ([]runs.Run, error)
	// Tidy forgets sessions, suggestions and spendings of before an instant, a bounded number of them.
	Purge(ctx context.Context, before time.Time) error
}

// Material is what a case is made of.
type Inputs struct {
	Endpoint      *endpoints.Endpoint
	Now           time.Time
	Runs          []runs.Run       // of the last day, newest first, at most [HealthSample]; without bodies
	Siblings      []SiblingHistory // that are [Shown]
	FleetSlowdown FleetSlowdown    // looked at only where the endpoint or a sibling is under strain
	Holds         []endpoints.Hold // what a person forbade the planner for a time
}

// Fellow is a sibling as it stands.
type SiblingHistory struct {
	Endpoint *endpoints.Endpoint
	Runs     []runs.Run // of the last hour, newest first, at most [SiblingSample]
}
