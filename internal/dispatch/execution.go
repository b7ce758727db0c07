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
	"rubato/internal/template"
)

// Target is what a run calls: the configuration of an endpoint at one version, ready for use. Many runs share it, so nothing of it
// may be changed.
type Target struct {
	TenantID [16]byte
	Spec     *endpoints.Spec
	URL      string           // with the parameters of the query
	Header   http.Header      // as configured
	Shape    *endpoints.Shape // what a run fills in; nil: nothing, every run sends the same
	Success  *endpoints.SuccessRule
	Rules    *success.Set // beside Success; nil: none
	Redact   *redact.Set  // of what is stored; nil: nothing but what always is
	// Asks is what a conditional request names; nil: the endpoint's requests are not conditional. With empty validators nothing is known yet.
	Asks    *runs.Validators
	Secrets []string // names of the secrets that its requests need
}

// unlocks reports whether a run needs the secrets or the signing keys of its tenant.
func (t *Target) unlocks() bool { return len(t.Secrets) > 0 || t.Spec.Sign }

// Start asks for the start of a claim.
type Start struct {
	Claim     claims.Claim
	TenantID  [16]byte
	RunID     runs.ID
	Execution time.Duration // limit of the execution
	Last      bool          // the run needs to know of the one before
	Secrets   bool          // the run needs to know which version the secrets of its tenant have
}

// Started is a live run. Instants are database time.
type Started struct {
	EndpointID  [16]byte
	TenantID    [16]byte
	RunID       runs.ID
	StartedAt   time.Time
	LockedUntil time.Time
	Last        template.Last // the run before, where its Start asked
	// SecretsVersion is the version of the tenant's secrets that the run goes by, where its Start asked: no change of them that had
	// returned before the start was committed is missing from it.
	SecretsVersion int64
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
