package planner

import "context"

// Budget is the token quota of language models per day (UTC): per endpoint, per tenant and for the
// installation. It is kept in the database, so all planners share it. It is safe for concurrent
// use.
type Budget interface {
	// Reserve sets tokens aside before a request. The error is [ErrOverBudget] if one of the quotas
	// would be exceeded. Reserved tokens count as spent until they are settled, so a planner that
	// crashes never under-reports.
	Reserve(ctx context.Context, a Account, tokens int64) (Reservation, error)
	// Settle replaces a reservation by the actual usage. It must be called once per reservation,
	// whatever the result of the request, with a context that outlives the request.
	Settle(ctx context.Context, r Reservation, used int64) error
}

// Reservation is a number of tokens set aside.
type Reservation struct {
	Account Account
	Day     string // charged day, such as 2026-11-21
	Tokens  int64
}
