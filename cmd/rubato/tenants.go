package main

import (
	"context"
	"strings"

	"rubato/internal/app"
)

// tenantsCmd is `rubato tenants`.
type tenantsCmd struct {
	List  tenantsListCmd  `cmd:"" help:"Print every tenant with its egress allow list."`
	Allow tenantsAllowCmd `cmd:"" help:"Replace the egress allow list of a tenant."`
}

type (
	tenantsListCmd  struct{}
	tenantsAllowCmd struct {
		Tenant  string   `arg:"" help:"Tenant ID or name."`
		Entries []string `arg:"" optional:"" help:"Prefixes such as 10.1.0.0/16, and hosts such as db.corp.example, *.corp.example or 10.0.0.7:9090. No entry: clear the list."`
	}
)

// Run prints every tenant with its egress allow list.
func (*tenantsListCmd) Run(ctx context.Context, s *session) error {
	settings, err := s.databaseSettings()
	if err != nil {
		return err
	}
	list, err := app.Tenants(ctx, settings)
	if err != nil {
		return err
	}
	if s.json {
		return s.print(map[string]any{"items": list})
	}
	rows := make([][]string, 0, len(list))
	for _, t := range list {
		rows = append(rows, []string{t.ID, t.Name, strings.Join(t.Allow, " ")})
	}
	return s.table([]string{"ID", "NAME", "MAY ALSO CALL"}, rows)
}

// Run replaces the egress allow list of a tenant.
func (cmd *tenantsAllowCmd) Run(ctx context.Context, s *session) error {
	settings, err := s.databaseSettings()
	if err != nil {
		return err
	}
	if err := app.AllowTenant(ctx, settings, cmd.Tenant, cmd.Entries); err != nil {
		return err
	}
	if s.json {
		return s.print(map[string]any{"tenant": cmd.Tenant, "egressAllow": append([]string{}, cmd.Entries...)})
	}
	return s.say("%s may also call: %s", cmd.Tenant, strings.Join(cmd.Entries, " "))
}
