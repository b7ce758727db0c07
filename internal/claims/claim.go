package claims

import (
	"context"
	"time"
)

// Claim is one endpoint in the hands of one worker until LockedUntil. Instants are database time.
type Claim struct {
	EndpointID [16]byte
	Place      Place     // of the row, for the start
	Token      int64     // the fence
	Slot       time.Time // the due time that the run will stand for
	PlannedAt  time.Time // when to send it: Slot, or later for a retry or a catch-up; in the past when it is overdue
	Attempt    int
	// InfraAttempt counts the runs of the due time that infrastructure lost and that are tried again beside the retry policy.
	InfraAttempt int
	Source       string
	Version      int64 // of the endpoint's configuration
	LockedUntil  time.Time
	Hinted       bool // hints may be in force
	Expired      bool // taken from a worker whose lock had run out
	// Rest is how far in the future the endpoint comes due after a release, in whole milliseconds; who looks ahead by a horizon can claim it
	// that much sooner. Zero: at its planned time.
	Rest time.Duration
}

// Rules are the numbers that claiming follows.
type Rules struct {
	Horizon time.Duration // how far ahead of their due time endpoints are claimed
	LockTTL time.Duration // the longest lock that is granted at once
}

// Store is what claiming needs of the database. Every method is one transaction, and every instant it returns is database time.
type Store interface {
	// ClaimDue takes up to limit endpoints that come due between From and the horizon, oldest first, for a worker. It also returns the
	// database's time. Where the request names tenants, it takes the oldest of each instead, up to Share, and nothing that is claimed.
	ClaimDue(ctx context.Context, r Request) ([]Claim, time.Time, error)
	// DueTenants returns which tenants have endpoints that come due within the horizon and are not claimed.
	DueTenants(ctx context.Context, horizon time.Duration) ([][16]byte, error)
	// Release gives back claims that were not started, claimable at their planned time and under a higher token: a start of them that
	// is still on its way does not start. Claims that were revoked or started meanwhile are left alone; it returns how many were
	// given back.
	Release(ctx context.Context, worker [16]byte, list []Claim) (int, error)
	// ExtendLocks moves on the locks of runs that are still the worker's and not over, by a whole LockTTL from now, and
	// returns the runs as kept. Those whose lock is over, and which nobody has settled, it returns as over.
	ExtendLocks(ctx context.Context, worker [16]byte, held []Held, ttl time.Duration) (kept, over [][16]byte, err error)
}

// Request asks for claims.
type Request struct {
	Worker  [16]byte
	Limit   int
	Horizon time.Duration
	LockTTL time.Duration
	Until   time.Time  // in database time: carried out later, it takes nothing; zero: whenever
	From    time.Time  // in database time: what could be claimed before it is left out, but for shares; zero: nothing is. See Floor
	Tenants [][16]byte // whose endpoints to take, each up to Share; nil: the oldest, whoever's they are
	Share   int        // at least 1 where there are tenants, and no more than Limit for all of them together
}

// Held names a started run by the token under which it was started.
type Held struct {
	EndpointID [16]byte
	RunID      [16]byte
	Token      int64
}

// Place is where a row version lies in its table (Postgres's ctid). A statement that names it finds the version without a lookup by key,
// which visits every dead version of the row under an old snapshot. It is a hint: a row that was rewritten since is not found there.
type Place struct {
	Block  uint32
	Offset uint16
}
