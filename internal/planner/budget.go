package planner

import "context"

// Budget bounds what models cost, by tokens per day (UTC): of an endpoint, of a tenant, and of the whole installation. It is kept in the
// database, so every planner spends from the same one. It is safe for concurrent use.
type Budget interface {
	// Reserve sets tokens aside for a call that is about to be made, or says [ErrOverBudget] where any of the limits would be
	// exceeded. What is reserved counts as spent until it is settled: a planner that dies spends it.
	Reserve(ctx context.Context, a Account, tokens int64) (Reservation, error)
	// Settle puts what a call used in the place of what was reserved for it. It is to be called once for each reservation, whatever
	// came of the call, with a context that outlives it.
	Settle(ctx context.Context, r Reservation, used int64) error
}

// Reservation is tokens set aside.
type Reservation struct {
	Account Account
	Day     string // the day that is charged, such as 2026-11-21
	Tokens  int64
}
