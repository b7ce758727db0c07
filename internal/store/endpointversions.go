package store

import (
	"context"
	"fmt"

	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
)

// Versions returns up to limit versions of an endpoint below the version before, newest first. It
// returns none if the tenant has no such endpoint. A version that cannot be decoded is an
// [errs.Unreadable].
func (s *Endpoints) Versions(ctx context.Context, tenant [16]byte, id endpoints.ID, before int64, limit int) ([]endpoints.Version, error) {
	rows, err := s.db.q.EndpointVersionList(ctx, s.db.pool, dbsqlc.EndpointVersionListParams{
		EndpointID: id,
		TenantID:   tenant,
		Before:     before,
		MaxRows:    int32(limit) + 1,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the versions of endpoint %s: %w", id, translate(err))
	}
	list := make([]endpoints.Version, len(rows))
	for i, row := range rows {
		list[i] = endpoints.Version{
			Number:    row.Version,
			ChangedAt: row.ChangedAt,
			ChangedBy: row.ChangedBy,
			AuditID:   orZero(row.AuditID),
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
