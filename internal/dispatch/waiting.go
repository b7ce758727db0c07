package dispatch

import (
	"time"

	"rubato/internal/claims"
	"rubato/internal/dispatch/ready"
	"rubato/internal/dispatch/request"
	"rubato/internal/runs"
)

// waiting is a claim in the queue, with its target. It is large and moves often, so it is allocated
// once, and passed by pointer until its run ends. Only the goroutine that took it out of the queue
// may change it; its target is shared and never changes.
type waiting struct {
	ready.Item

	claim  claims.Claim
	run    runs.ID // to which the claim leads
	target *request.Target
	// doubtful is set if a start got no answer: the run may be live.
	doubtful bool
	// probe is set if the breaker of its host is not closed and gave it a seat.
	probe bool
	// last is the host of its last request, which a redirect may have changed; empty: unknown.
	last string
	// fault is the panic of its start; nil: there was none.
	fault error
}

// newWaiting returns a claim for the queue. since is when it could start at the earliest, on the
// process's clock.
func newWaiting(c claims.Claim, target *request.Target, since time.Time) *waiting {
	return &waiting{
		Item: ready.Item{
			Tenant:    target.TenantID,
			Host:      target.Host,
			PlannedAt: c.PlannedAt,
			HeadStart: c.HeadStart(),
			Since:     since,
		},
		claim:  c,
		run:    runs.NewID(c.Slot, c.Endpoint(), c.Attempt, c.InfraAttempt),
		target: target,
	}
}

// request returns the run of the claim as its request depends on it.
func (c *waiting) request(s Started) *request.Run {
	return &request.Run{
		ID:             s.RunID,
		EndpointID:     c.claim.Endpoint(),
		TenantID:       s.TenantID,
		Slot:           c.claim.Slot,
		Attempt:        c.claim.Attempt,
		InfraAttempt:   c.claim.InfraAttempt,
		Fence:          c.claim.Token,
		StartedAt:      s.StartedAt,
		SecretsVersion: s.SecretsVersion,
		Last:           s.Last,
		Target:         c.target,
		Release:        c.Release,
	}
}

func claimsOf(waits []*waiting) []claims.Claim {
	list := make([]claims.Claim, len(waits))
	for i, w := range waits {
		list[i] = w.claim
	}
	return list
}
