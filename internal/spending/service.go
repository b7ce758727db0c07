package spending

import (
	"context"

	"rubato/internal/auditlog"
	"rubato/internal/tempo"
)

// Store keeps shared budgets. Every method is one transaction, scoped by tenant: the budget of
// another tenant is [errs.NotFound]. Changes are recorded in the audit log.
type Store interface {
	// PutBudget stores a budget, or changes its number of runs. A new one starts with its price.
	// More than [MaxPerTenant] budgets are an [errs.Conflict].
	PutBudget(ctx context.Context, by auditlog.Actor, b Budget) (stored Budget, created bool, err error)
	GetBudget(ctx context.Context, tenant [16]byte, name string) (Budget, error)
	// ListBudgets returns budgets after a name, sorted by name.
	ListBudgets(ctx context.Context, tenant [16]byte, after string, limit int) ([]Budget, error)
	// FindBudgets returns the budgets that have one of some names, in any order.
	FindBudgets(ctx context.Context, tenant [16]byte, names []string) ([]Budget, error)
	DeleteBudget(ctx context.Context, by auditlog.Actor, name string) error
}

// Service implements the operations on shared budgets. It is safe for concurrent use.
type Service struct {
	store Store
}

// NewService returns a service over a store.
func NewService(store Store) *Service { return &Service{store: store} }

// Put stores a budget, or changes its number of runs. Workers follow within ten seconds. The error
// is an [errs.Invalid] that names every bad field.
func (s *Service) Put(ctx context.Context, by auditlog.Actor, name, text string) (stored Budget, created bool, err error) {
	if err := Check(name, text); err != nil {
		return Budget{}, false, err
	}
	budget, err := tempo.ParseBudget(text)
	if err != nil {
		return Budget{}, false, err
	}
	return s.store.PutBudget(ctx, by, Budget{
		TenantID: by.TenantID,
		Name:     name,
		Text:     text,
		Price:    budget.FirstPrice(),
	})
}

// Get returns a budget.
func (s *Service) Get(ctx context.Context, by auditlog.Actor, name string) (Budget, error) {
	return s.store.GetBudget(ctx, by.TenantID, name)
}

// List returns at most limit budgets after a name, sorted by name.
func (s *Service) List(ctx context.Context, by auditlog.Actor, after string, limit int) ([]Budget, error) {
	return s.store.ListBudgets(ctx, by.TenantID, after, limit)
}

// Delete removes a budget. Its endpoints then follow the next less specific one.
func (s *Service) Delete(ctx context.Context, by auditlog.Actor, name string) error {
	return s.store.DeleteBudget(ctx, by, name)
}

// For returns the shared budget of an endpoint with its present price, or nil; see [Book.For].
func (s *Service) For(ctx context.Context, tenant [16]byte, host string, labels map[string]string) (*Budget, error) {
	found, err := s.store.FindBudgets(ctx, tenant, Names(host, labels))
	if err != nil {
		return nil, err
	}
	return NewBook(found).For(tenant, host, labels), nil
}
