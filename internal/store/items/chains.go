package items

import (
	"context"
	"fmt"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// forgetChainRuns deletes runs of chains that ended before an instant. A run in progress is kept,
// however old it is.
func (s *Sweeps) forgetChainRuns(ctx context.Context, before time.Time) error {
	for more := true; more; {
		rows, err := s.db.Q.ChainRunDropBefore(ctx, s.db.Sweeps, dbsqlc.ChainRunDropBeforeParams{Before: before, MaxRows: ledgerPage})
		if err != nil {
			return fmt.Errorf("removing old runs of chains: %w", pg.Translate(err))
		}
		more = rows > 0
	}
	return nil
}

// startChains adds the chains that a finished run starts to the insert.
func (b *batch) startChains(e *endpoints.Endpoint, run runs.Run) {
	for _, start := range e.ChainStarts {
		b.starts.RunIds = append(b.starts.RunIds, run.ID)
		b.starts.EndpointIds = append(b.starts.EndpointIds, run.EndpointID)
		b.starts.TenantIds = append(b.starts.TenantIds, run.TenantID)
		b.starts.ScheduledFor = append(b.starts.ScheduledFor, run.ScheduledFor)
		b.starts.Outcomes = append(b.starts.Outcomes, string(start.Outcome))
		b.starts.Chains = append(b.starts.Chains, start.Chain)
	}
}
