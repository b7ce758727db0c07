package httpapi_test

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"rubato/internal/auditlog"
	"rubato/internal/auth"
	"rubato/internal/errs"
	"rubato/internal/spending"
)

var _ spending.Store = (*memory)(nil)

// standingBudgets are the shared budgets that every memory has.
func standingBudgets() map[string]spending.Budget {
	return map[string]spending.Budget{
		spending.Tenant: {TenantID: auth.DefaultTenant(), Name: spending.Tenant, Text: "60/m", Price: 1, CreatedAt: now, UpdatedAt: now},
	}
}

func (m *memory) PutBudget(_ context.Context, by auditlog.Actor, b spending.Budget) (spending.Budget, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return spending.Budget{}, false, m.err
	}
	m.writes++
	_, there := m.budgets[b.Name]
	b.TenantID, b.CreatedAt, b.UpdatedAt = by.TenantID, now, now
	m.budgets[b.Name] = b
	return b, !there, nil
}

func (m *memory) GetBudget(_ context.Context, tenant [16]byte, name string) (spending.Budget, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return spending.Budget{}, m.err
	}
	found, there := m.budgets[name]
	if !there || found.TenantID != tenant {
		return spending.Budget{}, errs.New(errs.NotFound, "", "there is no such budget")
	}
	return found, nil
}

func (m *memory) ListBudgets(_ context.Context, tenant [16]byte, after string, limit int) ([]spending.Budget, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, m.err
	}
	list := slices.DeleteFunc(slices.Collect(maps.Values(m.budgets)), func(b spending.Budget) bool { return b.TenantID != tenant || b.Name <= after })
	slices.SortFunc(list, func(a, b spending.Budget) int { return cmp.Compare(a.Name, b.Name) })
	return list[:min(limit, len(list))], nil
}

func (m *memory) FindBudgets(ctx context.Context, tenant [16]byte, names []string) ([]spending.Budget, error) {
	all, err := m.ListBudgets(ctx, tenant, "", spending.MaxPerTenant)
	return slices.DeleteFunc(all, func(b spending.Budget) bool { return !slices.Contains(names, b.Name) }), err
}

func (m *memory) DeleteBudget(ctx context.Context, by auditlog.Actor, name string) error {
	if _, err := m.GetBudget(ctx, by.TenantID, name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	delete(m.budgets, name)
	return nil
}
