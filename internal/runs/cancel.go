package runs

import (
	"context"

	"rubato/internal/auditlog"
)

// Cancel asks for the end of a live run.
type Cancel struct {
	By     auditlog.Actor // who asks
	RunID  ID
	Reason string // why, in the author's words; may be empty
}

// Canceler asks for the end of live runs.
type Canceler interface {
	// Cancel asks the worker that holds a live run to end it, and returns the run as it stands. The first request stays: asking
	// again changes nothing and succeeds. The audit log tells of the first request. Whether the run ends canceled is not said by that: its
	// answer may be there first. The error is [errs.NotFound] when the tenant has no such run, and an [errs.Conflict] with the reason
	// run_finished when it is over, or run_waiting when it has not started.
	Cancel(ctx context.Context, c Cancel) (Run, error)
}
