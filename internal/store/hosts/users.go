package hosts

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/hosts"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// ListHosts implements hosts.Store.
func (s *Store) ListHosts(ctx context.Context, scope [16]byte, after string, limit int) ([]hosts.Breaker, error) {
	rows, err := s.db.Q.HostList(ctx, s.db.Pool, dbsqlc.HostListParams{
		Scope:   scope,
		After:   after,
		MaxRows: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("listing hosts: %w", pg.Translate(err))
	}
	return breakersOf(rows), nil
}

// GetHost implements hosts.Store.
func (s *Store) GetHost(ctx context.Context, key hosts.Key) (hosts.Breaker, error) {
	row, err := s.db.Q.HostGet(ctx, s.db.Pool, dbsqlc.HostGetParams{Scope: key.Scope, Host: key.Host})
	if pg.IsMissing(err) {
		return hosts.Breaker{}, key.NotFound()
	}
	if err != nil {
		return hosts.Breaker{}, fmt.Errorf("reading the host %s: %w", key.Host, pg.Translate(err))
	}
	return breakerOf(row), nil
}

// SetHost implements hosts.Store.
func (s *Store) SetHost(ctx context.Context, by auditlog.Actor, key hosts.Key, p hosts.Patch) (stored hosts.Breaker, err error) {
	err = s.change(ctx, []hosts.Key{key}, func(tx pgx.Tx, _ time.Time, locked []hosts.Breaker) error {
		before := locked[0]
		locked[0].Settings = p.Apply(before.Settings)
		stored = locked[0]
		return s.audit(ctx, tx, by, before, stored)
	})
	return stored, err
}

// ResetHost implements hosts.Store.
func (s *Store) ResetHost(ctx context.Context, by auditlog.Actor, key hosts.Key) (stored hosts.Breaker, err error) {
	if _, err := s.GetHost(ctx, key); err != nil {
		return hosts.Breaker{}, err
	}
	err = s.change(ctx, []hosts.Key{key}, func(tx pgx.Tx, now time.Time, locked []hosts.Breaker) error {
		before := locked[0]
		locked[0].Reset(now)
		locked[0].Forget()
		stored = locked[0]
		return s.audit(ctx, tx, by, before, stored)
	})
	return stored, err
}

// CountEndpoints implements hosts.Store.
func (s *Store) CountEndpoints(ctx context.Context, tenant [16]byte, names []string) (map[string]hosts.Traffic, error) {
	if len(names) == 0 {
		return nil, nil //nolint:nilnil // Nothing was asked for.
	}
	rows, err := s.db.Q.HostTraffic(ctx, s.db.Pool, dbsqlc.HostTrafficParams{
		Hosts:    names,
		TenantID: tenant,
		Now:      s.db.Now(),
		MaxRows:  hosts.MostCounted,
	})
	if err != nil {
		return nil, fmt.Errorf("counting the endpoints of %d hosts: %w", len(names), pg.Translate(err))
	}
	traffic := make(map[string]hosts.Traffic, len(rows))
	for _, row := range rows {
		traffic[row.Host] = hosts.Traffic{
			Endpoints: int(row.Endpoints),
			Waiting:   int(row.Waiting),
		}
	}
	return traffic, nil
}

func (s *Store) audit(ctx context.Context, tx pgx.Tx, by auditlog.Actor, before, after hosts.Breaker) error {
	return s.db.Audited(ctx, tx, auditlog.Change{
		Act:    auditlog.Act{By: by, Action: auditlog.Edit},
		Object: after.Object(),
		Before: before.Redacted(),
		After:  after.Redacted(),
	})
}
