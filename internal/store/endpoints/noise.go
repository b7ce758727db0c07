package endpoints

import (
	"context"
	"fmt"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

var _ endpoints.NoiseReader = (*Store)(nil)

// Noise implements endpoints.NoiseReader.
func (s *Store) Noise(ctx context.Context, tenant [16]byte, id endpoints.ID) ([]endpoints.Finding, error) {
	rows, err := s.db.Q.NoiseList(ctx, s.db.Pool, dbsqlc.NoiseListParams{EndpointID: id, TenantID: tenant})
	if err != nil {
		return nil, fmt.Errorf("listing the noise of endpoint %s: %w", id, pg.Translate(err))
	}
	list := make([]endpoints.Finding, len(rows))
	for i, row := range rows {
		list[i] = endpoints.Finding{
			Path:       row.Path,
			Pairs:      int(row.Pairs),
			Gap:        time.Duration(row.GapMs) * time.Millisecond,
			FoundAt:    row.FoundAt,
			RejectedAt: pg.OrZero(row.RejectedAt),
			RejectedBy: pg.OrZero(row.RejectedBy),
		}
	}
	return list, nil
}

// noiseWrites returns the statement that stores the verdict of a change on a finding, if there is
// one.
func (s *Store) noiseWrites(ctx context.Context, now time.Time, by auditlog.Actor, e *endpoints.Endpoint) []pg.Statement {
	v := e.Judged
	if v == nil {
		return nil
	}
	row := dbsqlc.NoiseJudgeParams{
		EndpointID: e.ID,
		Path:       v.Path,
		Now:        now,
	}
	if v.State == endpoints.NoiseRejected {
		row.RejectedBy = &by.Name
	}
	return []pg.Statement{func(q dbsqlc.DBTX) error { return s.db.Q.NoiseJudge(ctx, q, row) }}
}
