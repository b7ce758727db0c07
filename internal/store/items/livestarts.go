package items

import (
	"context"
	"fmt"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// LiveStarts implements dispatch.Executions. It finds the starts that committed although their
// response was lost.
func (s *Executions) LiveStarts(ctx context.Context, worker [16]byte, list []dispatch.Start) ([]dispatch.Started, error) {
	params := dbsqlc.RunListStartedParams{WorkerID: worker}
	for _, l := range list {
		params.EndpointIds = append(params.EndpointIds, l.Claim.EndpointID)
		params.RunIds = append(params.RunIds, l.RunID)
		params.Tokens = append(params.Tokens, l.Claim.Token)
	}
	rows, err := s.db.Q.RunListStarted(ctx, s.db.Hot, params)
	if err != nil {
		return nil, fmt.Errorf("looking for %d starts: %w", len(list), pg.Translate(err))
	}
	found := make([]dispatch.Started, len(rows))
	for i, row := range rows {
		found[i] = dispatch.Started{
			EndpointID:  row.EndpointID,
			TenantID:    row.TenantID,
			RunID:       row.RunID,
			StartedAt:   row.StartedAt,
			LockedUntil: row.LockedUntil,
		}
	}
	return found, nil
}

// Confirm implements dispatch.Executions. It re-checks the lock and fence token of a run before a
// delayed request is sent.
func (s *Executions) Confirm(ctx context.Context, endpoint [16]byte, held claims.FencedRun) (bool, error) {
	may, err := s.db.Q.RunConfirm(ctx, s.db.Hot, dbsqlc.RunConfirmParams{
		Now:        s.db.Now(),
		EndpointID: endpoint,
		RunID:      held.RunID,
		Token:      held.Token,
	})
	if err != nil {
		return false, fmt.Errorf("confirming the lock of run %s: %w", runs.ID(held.RunID), pg.Translate(err))
	}
	return may, nil
}
