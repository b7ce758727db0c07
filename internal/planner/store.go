package planner

import (
	"context"
	"errors"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// Ticket is a claim of an endpoint for one analysis. Its token fences every write.
type Ticket struct {
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
	Watch(ctx context.Context) error
	// Claim claims what is due, the most urgent first, at most limit of them, for the lock that the queue was made with.
	Claim(ctx context.Context, limit int) ([]Ticket, error)
	// Release gives back claims. Those that were lost are passed over.
	Release(ctx context.Context, tickets []Ticket) error
	// Leave ends a claim of an endpoint that is to be left alone for the time being, or for good where it is archived.
	Leave(ctx context.Context, t Ticket, why Parked, version int64) error
	// Close ends a claim with the record of its session, and with what the session changes. All of it is written, or nothing: the error
	// is [ErrClaimLost] where the claim no longer holds, [ErrUnwritable] where a value cannot be kept, and whatever Revise returned.
	Close(ctx context.Context, t Ticket, c Closing) error
}

// Parked says why an endpoint is left alone.
type Parked string

// The reasons.
const (
	ParkedPaused   Parked = "paused"
	ParkedOff      Parked = "off"
	ParkedArchived Parked = "archived"
)

// Closing is what a session leaves.
type Closing struct {
	Session    *Session    // its times and the like may be changed by Revise
	Suggestion *Suggestion // nil: none
	Memory     Memory
	NextAt     time.Time // of the next analysis
	NotBefore  time.Time // whatever happens
	SeenStatus string    // of the newest run; empty: none
	// Revise changes the endpoint under its lock, at the database's time, within what persons forbid by then; nil: nothing is changed,
	// and nothing locked. An error of it undoes everything.
	Revise func(e *endpoints.Endpoint, holds []endpoints.Hold, now time.Time) (*endpoints.Recorded, error)
}

// Evidence reads what a case is made of. It writes nothing.
type Evidence interface {
	// Look returns an endpoint as it stands with its newest runs and its siblings. The error is an errs.NotFound where the tenant has
	// no such endpoint.
	Look(ctx context.Context, a Account) (Material, error)
	// Answers returns the newest answers of an endpoint with their bodies, newest first; none of one that is not [Shown] by now.
	Answers(ctx context.Context, a Account, limit int) ([]runs.Run, error)
	// Tidy forgets sessions, suggestions and spendings of before an instant, a bounded number of them.
	Tidy(ctx context.Context, before time.Time) error
}

// Material is what a case is made of.
type Material struct {
	Endpoint *endpoints.Endpoint
	Now      time.Time
	Runs     []runs.Run       // of the last day, newest first, at most [HealthSample]; without bodies
	Siblings []Fellow         // that are [Shown]
	Crowd    Crowd            // looked at only where the endpoint or a sibling is under strain
	Holds    []endpoints.Hold // what a person forbade the planner for a time
}

// Fellow is a sibling as it stands.
type Fellow struct {
	Endpoint *endpoints.Endpoint
	Runs     []runs.Run // of the last hour, newest first, at most [SiblingSample]
}
