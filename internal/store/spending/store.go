// Package spending stores the shared budgets of runs, and counts runs against them.
package spending

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
	"rubato/internal/spending"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// Store stores shared budgets. It implements spending.Store.
type Store struct {
	db *pg.DB
}

var _ spending.Store = (*Store)(nil)

// New returns the store of shared budgets.
func New(db *pg.DB) *Store { return &Store{db: db} }

// PutBudget implements spending.Store.
func (s *Store) PutBudget(ctx context.Context, by auditlog.Actor, b spending.Budget) (stored spending.Budget, created bool, err error) {
	err = s.db.Tx(ctx, func(tx pgx.Tx) error {
		before, err := s.db.Q.BudgetLock(ctx, tx, dbsqlc.BudgetLockParams{TenantID: b.TenantID, Name: b.Name})
		if created = pg.IsMissing(err); err != nil && !created {
			return fmt.Errorf("locking the budget %q: %w", b.Name, err)
		}
		if created {
			if err := s.room(ctx, tx, b.TenantID); err != nil {
				return err
			}
		}
		now, err := s.db.DecisionTime(ctx, tx)
		if err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		if err := s.db.Q.BudgetPut(ctx, tx, dbsqlc.BudgetPutParams{
			TenantID: b.TenantID,
			Name:     b.Name,
			Budget:   b.Text,
			Price:    b.Price,
			Now:      now,
		}); err != nil {
			return fmt.Errorf("storing the budget %q: %w", b.Name, err)
		}
		row, err := s.db.Q.BudgetGet(ctx, tx, dbsqlc.BudgetGetParams{TenantID: b.TenantID, Name: b.Name})
		if err != nil {
			return fmt.Errorf("reading the budget %q: %w", b.Name, err)
		}
		stored = budgetOf(row)
		c := auditlog.Change{
			Act:    auditlog.Act{By: by, Action: auditlog.Create},
			Object: stored.Object(),
			After:  stored.Redacted(),
		}
		if !created {
			c.Action, c.Before = auditlog.Edit, budgetOf(before).Redacted()
		}
		return s.db.Audited(ctx, tx, c)
	})
	return stored, created, err
}

// room returns an error if the tenant has reached its maximum of budgets.
func (s *Store) room(ctx context.Context, tx pgx.Tx, tenant [16]byte) error {
	count, err := s.db.Q.BudgetCount(ctx, tx, tenant)
	if err != nil {
		return fmt.Errorf("counting the budgets of a tenant: %w", err)
	}
	if count >= spending.MaxPerTenant {
		return errs.New(errs.Conflict, "too_many_budgets", fmt.Sprintf("there are %d budgets already, which is the most; delete one first", count))
	}
	return nil
}

// GetBudget implements spending.Store.
func (s *Store) GetBudget(ctx context.Context, tenant [16]byte, name string) (spending.Budget, error) {
	if !spending.ValidName(name) {
		return spending.Budget{}, noBudget(name)
	}
	row, err := s.db.Q.BudgetGet(ctx, s.db.Pool, dbsqlc.BudgetGetParams{TenantID: tenant, Name: name})
	if pg.IsMissing(err) {
		return spending.Budget{}, noBudget(name)
	}
	if err != nil {
		return spending.Budget{}, fmt.Errorf("reading the budget %q: %w", name, pg.Translate(err))
	}
	return budgetOf(row), nil
}

func noBudget(name string) error {
	if !spending.ValidName(name) {
		return errs.New(errs.NotFound, "not_found", "there is no such budget; the name of one is tenant, host:shop.example.com or label:team=shop")
	}
	return errs.New(errs.NotFound, "not_found", fmt.Sprintf("there is no budget %q", name))
}

// ListBudgets implements spending.Store.
func (s *Store) ListBudgets(ctx context.Context, tenant [16]byte, after string, limit int) ([]spending.Budget, error) {
	rows, err := s.db.Q.BudgetList(ctx, s.db.Pool, dbsqlc.BudgetListParams{
		TenantID: tenant,
		After:    after,
		MaxRows:  int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("listing budgets: %w", pg.Translate(err))
	}
	list := make([]spending.Budget, 0, len(rows))
	for _, row := range rows {
		list = append(list, budgetOf(row))
	}
	return list, nil
}

// FindBudgets implements spending.Store.
func (s *Store) FindBudgets(ctx context.Context, tenant [16]byte, names []string) ([]spending.Budget, error) {
	rows, err := s.db.Q.BudgetFind(ctx, s.db.Pool, dbsqlc.BudgetFindParams{TenantID: tenant, Names: pg.ValidNames(names)})
	if err != nil {
		return nil, fmt.Errorf("reading the shared budgets of an endpoint: %w", pg.Translate(err))
	}
	list := make([]spending.Budget, 0, len(rows))
	for _, row := range rows {
		list = append(list, budgetOf(row))
	}
	return list, nil
}

// DeleteBudget implements spending.Store.
func (s *Store) DeleteBudget(ctx context.Context, by auditlog.Actor, name string) error {
	if !spending.ValidName(name) {
		return noBudget(name)
	}
	return s.db.Tx(ctx, func(tx pgx.Tx) error {
		row, err := s.db.Q.BudgetLock(ctx, tx, dbsqlc.BudgetLockParams{TenantID: by.TenantID, Name: name})
		if pg.IsMissing(err) {
			return noBudget(name)
		}
		if err != nil {
			return fmt.Errorf("locking the budget %q: %w", name, err)
		}
		if _, err := s.db.Q.BudgetDelete(ctx, tx, dbsqlc.BudgetDeleteParams{TenantID: by.TenantID, Name: name}); err != nil {
			return fmt.Errorf("deleting the budget %q: %w", name, err)
		}
		gone := budgetOf(row)
		return s.db.Audited(ctx, tx, auditlog.Change{
			Act:    auditlog.Act{By: by, Action: auditlog.Delete},
			Object: gone.Object(),
			Before: gone.Redacted(),
		})
	})
}

func budgetOf(row *dbsqlc.Budget) spending.Budget {
	return spending.Budget{
		TenantID:  row.TenantID,
		Name:      row.Name,
		Text:      row.Budget,
		Price:     row.Price,
		CreatedAt: row.CreatedAt,
		UpdatedAt: row.UpdatedAt,
	}
}
