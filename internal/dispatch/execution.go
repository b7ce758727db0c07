package dispatch

import (
	"net/http"
	"time"

	"rubato/internal/claims"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/redact"
	"rubato/internal/runs"
	"rubato/internal/success"
)

// Target is what a run calls: the configuration of an endpoint at one version, ready for use. Many runs share it, so nothing of it
// may be changed.
type Target struct {
	TenantID [16]byte
	Spec     *endpoints.Spec
	Header   http.Header
	Success  *endpoints.SuccessRule
	Rules    *success.Set // beside Success; nil: none
	Redact   *redact.Set  // of what is stored; nil: nothing but what always is
	// Asks is what a conditional request names; nil: the endpoint's requests are not conditional. With empty validators nothing is known yet.
	Asks *runs.Validators
}

// Start asks for the start of a claim.
type Start struct {
	Claim     claims.Claim
	TenantID  [16]byte
	RunID     runs.ID
	Execution time.Duration // limit of the execution
}

// Started is a live run. Instants are database time.
type Started struct {
	EndpointID  [16]byte
	TenantID    [16]byte
	RunID       runs.ID
	StartedAt   time.Time
	LockedUntil time.Time
}

// Finish asks for the record of finished runs.
type Finish struct {
	Worker  [16]byte
	Runs    []runs.Run
	Keep    time.Duration // a next due time this close stays with the worker; zero: none does
	LockTTL time.Duration
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
	State   string // active, draining or inactive
	Slots   int
	Busy    int
}

// Cancel is what somebody asked of a live run: its end.
type Cancel struct {
	RunID  runs.ID
	Token  int64 // the fence of the run
	Author string
	Reason string // may be empty
}
