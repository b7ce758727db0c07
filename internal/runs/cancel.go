package runs

import (
	"context"

	"rubato/internal/auditlog"
)

// Cancel is a request to cancel a live run.
type Cancel struct {
	By     auditlog.Actor // author of the request
	RunID  ID
	Reason string // in the author's words; may be empty
}

// Canceler cancels live runs.
type Canceler interface {
	// Cancel asks the run's worker to end it, and returns the run. It is idempotent: a repeated
	// request succeeds and changes nothing, and the audit log holds the first one. The run may
	// still end otherwise if its response arrives first. The error is [errs.NotFound] if the tenant
	// has no such run. It is an [errs.Conflict] with the reason run_finished if the run is over, or
	// run_waiting if it has not started.
	Cancel(ctx context.Context, c Cancel) (Run, error)
}
