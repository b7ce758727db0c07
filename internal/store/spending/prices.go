package spending

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/loop"
	"rubato/internal/spending"
	"rubato/internal/store/dbsqlc"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/tempo"
)

// Prices counts the runs of a worker against shared budgets and keeps its copy of their prices.
type Prices struct {
	states *endpointstore.States
	logger *slog.Logger
}

// NewPrices returns the prices for the finishes of states.
func NewPrices(states *endpointstore.States, logger *slog.Logger) *Prices {
	return &Prices{states: states, logger: logger}
}

// Run refreshes every [tempo.PriceStep] until ctx ends, and stores the last counts then. While the
// database cannot be reached, the last prices stay in force and the counts wait.
func (p *Prices) Run(ctx context.Context) {
	loop.Poll(ctx, tempo.PriceStep, p.Refresh, func(err error) {
		p.logger.Warn("counting runs against shared budgets failed; the last prices stay in force", "error", err)
	})
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = p.Refresh(last) // The process ends, so the error changes nothing.
}

// Refresh stores the runs since the last call, steps the prices that are due, and reads all prices.
// After an error no count is lost.
func (p *Prices) Refresh(ctx context.Context) error {
	used := p.states.Spent.Take()
	var list []spending.Budget
	err := p.states.Tx(ctx, func(tx pgx.Tx) error {
		if err := p.spend(ctx, tx, used); err != nil {
			return err
		}
		if err := p.step(ctx, tx); err != nil {
			return err
		}
		rows, err := p.states.Q.BudgetListAll(ctx, tx)
		if err != nil {
			return fmt.Errorf("reading the shared budgets: %w", err)
		}
		list = make([]spending.Budget, 0, len(rows))
		for _, row := range rows {
			list = append(list, spending.Budget{
				TenantID: row.TenantID,
				Name:     row.Name,
				Text:     row.Budget,
				Price:    row.Price,
			})
		}
		return nil
	})
	if err != nil {
		p.states.Spent.PutBack(used)
		return err
	}
	p.states.Budgets.Store(spending.NewBook(list))
	return nil
}

func (p *Prices) spend(ctx context.Context, tx pgx.Tx, used map[spending.Key]int64) error {
	if len(used) == 0 {
		return nil
	}
	var params dbsqlc.BudgetSpendParams
	for key, runs := range used {
		params.TenantIds = append(params.TenantIds, key.TenantID)
		params.Names = append(params.Names, key.Name)
		params.Runs = append(params.Runs, runs)
	}
	if err := p.states.Q.BudgetSpend(ctx, tx, params); err != nil {
		return fmt.Errorf("counting runs against %d shared budgets: %w", len(used), err)
	}
	return nil
}

// step moves the prices that no worker has moved for a step. One worker moves each, because its row
// is locked.
func (p *Prices) step(ctx context.Context, tx pgx.Tx) error {
	now, err := p.states.DecisionTime(ctx, tx)
	if err != nil {
		return fmt.Errorf("reading the database's time: %w", err)
	}
	due, err := p.states.Q.BudgetListDue(ctx, tx, now.Add(-tempo.PriceStep))
	if err != nil {
		return fmt.Errorf("reading the shared budgets that are due: %w", err)
	}
	if len(due) == 0 {
		return nil
	}
	params := dbsqlc.BudgetStepParams{Now: now}
	for _, row := range due {
		budget, err := tempo.ParseBudget(row.Budget)
		if err != nil {
			return err
		}
		params.TenantIds = append(params.TenantIds, row.TenantID)
		params.Names = append(params.Names, row.Name)
		params.Prices = append(params.Prices, budget.Next(row.Price, row.Used, now.Sub(row.SteppedAt)))
	}
	if err := p.states.Q.BudgetStep(ctx, tx, params); err != nil {
		return fmt.Errorf("storing the prices of %d shared budgets: %w", len(due), err)
	}
	return nil
}
