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
	"rubato/internal/store"
)

// Tenant is somebody whose endpoints nobody else sees, as the operator sees them.
type Tenant struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"createdAt"`
	Allow     []string  `json:"egressAllow"` // prefixes and hosts that it may call besides what everybody may
}

// Tenants returns every tenant, oldest first.
func Tenants(ctx context.Context, settings config.Config) ([]Tenant, error) {
	var list []Tenant
	err := withTenants(ctx, settings, func(tenants *store.Tenants) error {
		found, err := tenants.List(ctx)
		for _, t := range found {
			list = append(list, Tenant{ID: uuid.UUID(t.ID).String(), Name: t.Name, CreatedAt: t.CreatedAt, Allow: t.Allow})
		}
		return err
	})
	return list, err
}

// AllowTenant replaces what a tenant, by its ID or its name, may call besides what everybody may: prefixes such as 10.1.0.0/16 and
// hosts such as *.corp.example. Workers follow within seconds.
func AllowTenant(ctx context.Context, settings config.Config, who string, entries []string) error {
	if bad := badAllowances(entries); len(bad) > 0 {
		return errs.New(errs.Invalid, "invalid_value", fmt.Sprintf(
			"%s: must be prefixes such as 10.1.0.0/16, or hosts such as db.corp.example, *.corp.example and 10.0.0.7:9090", strings.Join(bad, ", ")))
	}
	return withTenants(ctx, settings, func(tenants *store.Tenants) error {
		list, err := tenants.List(ctx)
		if err != nil {
			return err
		}
		for _, t := range list {
			if uuid.UUID(t.ID).String() == who || t.Name == who {
				return tenants.Allow(ctx, auditlog.Actor{TenantID: t.ID, Name: operator}, entries)
			}
		}
		return errs.New(errs.NotFound, "not_found", fmt.Sprintf("there is no tenant with the ID or name %q", who))
	})
}

// operator is who changes things past the API, as the audit log names them.
const operator = "operator"

func withTenants(ctx context.Context, settings config.Config, use func(*store.Tenants) error) error {
	db, err := store.Open(ctx, store.Config{URL: settings.Database.URL, MaxConns: 1, ApplicationName: product})
	if err != nil {
		return err
	}
	defer db.Close()
	return use(store.NewTenants(db))
}
