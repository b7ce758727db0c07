package request

import (
	"time"

	"rubato/internal/runs"
	"rubato/internal/template"
)

// Run is a run as far as its request depends on it. Instants are database time.
type Run struct {
	ID         runs.ID
	EndpointID [16]byte
	TenantID   [16]byte
	// Slot is the due time of the run.
	Slot         time.Time
	Attempt      int
	InfraAttempt int
	// Fence is the fencing token.
	Fence     int64
	StartedAt time.Time
	// SecretsVersion is the version of the tenant's secrets for the run.
	SecretsVersion int64
	// Last is the previous run, if a template uses it.
	Last   template.Last
	Target *Target
	// Release is called before the run waits for an access token, so that it holds no place at its
	// host meanwhile; nil: it holds none.
	Release func()
}

func (r *Run) release() {
	if r.Release != nil {
		r.Release()
	}
}
