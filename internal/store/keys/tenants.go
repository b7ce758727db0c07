package keys

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// Tenant owns endpoints that no other tenant sees.
type Tenant struct {
	ID        [16]byte
	Name      string
	CreatedAt time.Time
	Allow     []string // prefixes and hosts beside the allow list of the operator
}

// Tenants stores the tenants.
type Tenants struct {
	db *pg.DB
}

// NewTenants returns the store of tenants.
func NewTenants(db *pg.DB) *Tenants { return &Tenants{db: db} }

// List returns every tenant, oldest first.
func (s *Tenants) List(ctx context.Context) ([]Tenant, error) {
	rows, err := s.db.Q.TenantList(ctx, s.db.Pool)
	if err != nil {
		return nil, fmt.Errorf("reading the tenants: %w", pg.Translate(err))
	}
	list := make([]Tenant, 0, len(rows))
	for _, row := range rows {
		list = append(list, Tenant{
			ID:        row.ID,
			Name:      row.Name,
			CreatedAt: row.CreatedAt,
			Allow:     row.EgressAllow,
		})
	}
	return list, nil
}

// Allowed returns the additional allow list of each tenant that has one. With a schema of an
// earlier release it returns none.
func (s *Tenants) Allowed(ctx context.Context) (map[[16]byte][]string, error) {
	rows, err := s.db.Q.TenantAllowed(ctx, s.db.Pool)
	if undefined, ok := errors.AsType[*pgconn.PgError](err); ok && undefined.Code == undefinedColumn {
		return nil, nil //nolint:nilnil // A nil map is valid.
	}
	if err != nil {
		return nil, fmt.Errorf("reading what tenants may call: %w", pg.Translate(err))
	}
	allowed := make(map[[16]byte][]string, len(rows))
	for _, row := range rows {
		allowed[row.ID] = row.EgressAllow
	}
	return allowed, nil
}

// undefinedColumn is the SQLSTATE of a statement that is newer than the schema.
const undefinedColumn = "42703"

// Allow replaces the additional allow list of a tenant and writes the change into that tenant's
// audit log; by is its author. If the tenant does not exist, the error is [errs.NotFound].
func (s *Tenants) Allow(ctx context.Context, by auditlog.Actor, entries []string) error {
	return s.db.Tx(ctx, func(tx pgx.Tx) error {
		before, err := s.db.Q.TenantAllowedOf(ctx, tx, by.TenantID)
		if errors.Is(err, pgx.ErrNoRows) {
			return errs.New(errs.NotFound, "not_found", "there is no such tenant")
		}
		if err != nil {
			return fmt.Errorf("reading what a tenant may call: %w", err)
		}
		after := pg.NotNull(entries)
		if err := s.db.Q.TenantAllow(ctx, tx, dbsqlc.TenantAllowParams{ID: by.TenantID, EgressAllow: after}); err != nil {
			return fmt.Errorf("changing what a tenant may call: %w", err)
		}
		return s.db.Audited(ctx, tx, auditlog.Change{
			Act:    auditlog.Act{By: by, Action: auditlog.Allow},
			Object: auditlog.Object{Kind: auditlog.Tenant, ID: uuid.UUID(by.TenantID).String()},
			Before: map[string]any{"egressAllow": before}, After: map[string]any{"egressAllow": after},
		})
	})
}
