package planner

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/planner"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// Limits are the maximum tokens per day (UTC).
type Limits struct {
	Installation int64
	Tenant       int64 // each
	Endpoint     int64 // each
}

// Budget stores the usage of models. It implements planner.Budget.
type Budget struct {
	db     *pg.DB
	limits Limits
}

var _ planner.Budget = (*Budget)(nil)

// NewBudget returns the budget with limits.
func NewBudget(db *pg.DB, limits Limits) *Budget {
	return &Budget{db: db, limits: limits}
}

// Reserve implements planner.Budget. Every caller locks the rows in the same order, the shared row
// first, so that reservations cannot deadlock.
func (s *Budget) Reserve(ctx context.Context, a planner.Account, tokens int64) (r planner.Reservation, err error) {
	if tokens <= 0 {
		return r, fmt.Errorf("reserving %d tokens: a call needs at least one", tokens)
	}
	err = s.db.Tx(ctx, func(tx pgx.Tx) error {
		now, err := s.db.DecisionTime(ctx, tx)
		if err != nil {
			return err
		}
		r = planner.Reservation{
			Account: a,
			Day:     dayName(now),
			Tokens:  tokens,
		}
		for _, scope := range []struct {
			account planner.Account
			limit   int64
		}{
			{planner.Account{}, s.limits.Installation},
			{planner.Account{TenantID: a.TenantID}, s.limits.Tenant},
			{a, s.limits.Endpoint},
		} {
			rows, err := s.db.Q.PlannerSpendReserve(ctx, tx, dbsqlc.PlannerSpendReserveParams{
				Day:        r.Day,
				TenantID:   scope.account.TenantID,
				EndpointID: scope.account.EndpointID,
				Tokens:     tokens,
				MaxTokens:  scope.limit,
			})
			if err != nil {
				return fmt.Errorf("reserving %d tokens: %w", tokens, err)
			}
			if rows == 0 {
				return planner.ErrOverBudget
			}
		}
		return nil
	})
	return r, err
}

// Settle implements planner.Budget.
func (s *Budget) Settle(ctx context.Context, r planner.Reservation, used int64) error {
	if used == r.Tokens {
		return nil
	}
	err := s.db.Q.PlannerSpendSettle(ctx, s.db.Pool, dbsqlc.PlannerSpendSettleParams{
		Day:        r.Day,
		TenantID:   r.Account.TenantID,
		EndpointID: r.Account.EndpointID,
		More:       used - r.Tokens,
	})
	if err != nil {
		return fmt.Errorf("settling %d tokens for %d reserved: %w", used, r.Tokens, pg.Translate(err))
	}
	return nil
}

// topSpenders bounds the endpoints that a tenant's spending lists.
const topSpenders = 10

// Spending returns the usage of a tenant today.
func (s *Budget) Spending(ctx context.Context, tenant [16]byte) (spent planner.Spending, err error) {
	err = s.db.Snapshot(ctx, func(tx pgx.Tx) error {
		now, err := s.db.DecisionTime(ctx, tx)
		if err != nil {
			return err
		}
		day := dayName(now)
		tokens, err := s.db.Q.PlannerSpendGet(ctx, tx, dbsqlc.PlannerSpendGetParams{Day: day, TenantID: tenant})
		if err != nil {
			return fmt.Errorf("reading what was spent: %w", err)
		}
		all, err := s.db.Q.PlannerSpendGet(ctx, tx, dbsqlc.PlannerSpendGetParams{Day: day, TenantID: planner.Account{}.TenantID})
		if err != nil {
			return fmt.Errorf("reading what all tenants spent: %w", err)
		}
		spent = planner.Spending{
			Day:         day,
			Tokens:      tokens,
			Limit:       s.limits.Tenant,
			Left:        max(0, min(s.limits.Tenant-tokens, s.limits.Installation-all)),
			PerEndpoint: s.limits.Endpoint,
			ResetAt:     pg.DayOf(now).Add(24 * time.Hour),
		}
		rows, err := s.db.Q.PlannerSpendTop(ctx, tx, dbsqlc.PlannerSpendTopParams{
			Day:      day,
			TenantID: tenant,
			MaxRows:  topSpenders,
		})
		if err != nil {
			return fmt.Errorf("reading who spent most: %w", err)
		}
		for _, row := range rows {
			spent.Top = append(spent.Top, planner.EndpointSpending{EndpointID: row.EndpointID, Tokens: row.Tokens})
		}
		return nil
	})
	return spent, err
}

func dayName(at time.Time) string { return at.UTC().Format(time.DateOnly) }
