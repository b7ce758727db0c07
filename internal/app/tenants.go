package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"rubato/internal/auditlog"
	"rubato/internal/config"
	"rubato/internal/errs"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
)

// Tenant is a tenant as the operator sees it. Tenants cannot see each other's endpoints.
type Tenant struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"createdAt"`
	// Allow is the tenant's egress allow list: prefixes and hosts that it may call in addition to
	// the list of the installation.
	Allow []string `json:"egressAllow"`
}

// Tenants returns every tenant, oldest first.
func Tenants(ctx context.Context, settings config.Config) ([]Tenant, error) {
	var list []Tenant
	err := withTenants(ctx, settings, func(tenants *keystore.Tenants) error {
		found, err := tenants.List(ctx)
		for _, t := range found {
			list = append(list, Tenant{
				ID:        uuid.UUID(t.ID).String(),
				Name:      t.Name,
				CreatedAt: t.CreatedAt,
				Allow:     t.Allow,
			})
		}
		return err
	})
	return list, err
}

// AllowTenant replaces the egress allow list of a tenant, given by ID or name. Entries are prefixes
// such as 10.1.0.0/16 and hosts such as *.corp.example. Workers apply it within seconds.
func AllowTenant(ctx context.Context, settings config.Config, idOrName string, entries []string) error {
	if bad := badAllowances(entries); len(bad) > 0 {
		return errs.New(errs.Invalid, "invalid_value", fmt.Sprintf(
			"%s: must be prefixes such as 10.1.0.0/16, or hosts such as db.corp.example, *.corp.example and 10.0.0.7:9090", strings.Join(bad, ", ")))
	}
	return withTenants(ctx, settings, func(tenants *keystore.Tenants) error {
		list, err := tenants.List(ctx)
		if err != nil {
			return err
		}
		for _, t := range list {
			if uuid.UUID(t.ID).String() == idOrName || t.Name == idOrName {
				return tenants.Allow(ctx, auditlog.Actor{TenantID: t.ID, Name: operator}, entries)
			}
		}
		return errs.New(errs.NotFound, "not_found", fmt.Sprintf("there is no tenant with the ID or name %q", idOrName))
	})
}

// operator is the actor in the audit log for changes that bypass the API.
const operator = "operator"

func withTenants(ctx context.Context, settings config.Config, use func(*keystore.Tenants) error) error {
	db, err := pg.Open(ctx, pg.Config{
		URL:             settings.Database.URL,
		MaxConns:        1,
		ApplicationName: product,
	})
	if err != nil {
		return err
	}
	defer db.Close()
	return use(keystore.NewTenants(db))
}
