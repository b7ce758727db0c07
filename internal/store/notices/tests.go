package notices

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/notices"
)

// BeginNoticeTest implements courier.Tests.
func (s *Store) BeginNoticeTest(ctx context.Context, by auditlog.Actor, r notices.Rule) (p *notices.Delivery, err error) {
	err = s.db.Tx(ctx, func(tx pgx.Tx) error {
		now, err := s.db.DecisionTime(ctx, tx)
		if err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		p = &notices.Delivery{
			TenantID: by.TenantID,
			Channel:  r.Channel,
			Remind:   r.Remind,
			Now:      now,
			Test:     true,
			Notice: notices.Notice{
				ID:        notices.ID(uuid.Must(uuid.NewV7())),
				Kind:      notices.Opened,
				CreatedAt: now,
				State:     notices.Waiting,
				Episode: notices.Episode{
					EpisodeID:    notices.EpisodeID(uuid.Must(uuid.NewV7())),
					Rule:         r.Name,
					Event:        r.Event,
					EndpointID:   r.Scope.EndpointID,
					EndpointName: "test",
					OpenedAt:     now,
				},
			},
		}
		versions, err := s.db.Q.SecretsVersions(ctx, tx, [][16]byte{by.TenantID})
		if err != nil {
			return fmt.Errorf("reading the version of a tenant's secrets: %w", err)
		}
		for _, row := range versions {
			p.SecretsVersion = row.SecretsVersion
		}
		return s.db.Audited(ctx, tx, auditlog.Change{
			Act:    auditlog.Act{By: by, Action: auditlog.Test},
			Object: r.Object(),
			After:  map[string]any{"noticeId": p.ID.String()},
		})
	})
	return p, err
}
