package endpoints

import (
	"context"
	"fmt"

	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// Versions returns up to limit versions of an endpoint below the version before, newest first. It
// returns none if the tenant has no such endpoint. A version that cannot be decoded is an
// [errs.Unreadable].
func (s *Store) Versions(ctx context.Context, tenant [16]byte, id endpoints.ID, before int64, limit int) ([]endpoints.Version, error) {
	rows, err := s.db.Q.EndpointVersionList(ctx, s.db.Pool, dbsqlc.EndpointVersionListParams{
		EndpointID: id,
		TenantID:   tenant,
		Before:     before,
		MaxRows:    int32(limit) + 1,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the versions of endpoint %s: %w", id, pg.Translate(err))
	}
	list := make([]endpoints.Version, len(rows))
	for i, row := range rows {
		list[i] = endpoints.Version{
			Number:    row.Version,
			ChangedAt: row.ChangedAt,
			ChangedBy: row.ChangedBy,
			AuditID:   pg.OrZero(row.AuditID),
		}
		if err := list[i].Spec.UnmarshalJSON(row.Spec); err != nil {
			return nil, unreadable(id, err)
		}
		if i > 0 {
			list[i-1].Changes = append([]string{}, list[i-1].Spec.Diff(list[i].Spec)...)
		}
	}
	return list[:min(len(list), limit)], nil
}
