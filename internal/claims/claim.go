package claims

import (
	"cmp"
	"context"
	"time"
)

// Claim is an endpoint that one worker has locked until LockedUntil. Instants are database time.
type Claim struct {
	// EndpointID is the key of the locked row: an endpoint, a call or a detached run.
	EndpointID [16]byte
	// OwnerID is the endpoint of a detached run; zero: the row is not that of a detached run.
	OwnerID [16]byte
	// CTID is the position of the row version, so that the start finds it without an index lookup.
	CTID CTID
	// Token is the fencing token.
	Token int64
	// Slot is the due time for which the run is recorded.
	Slot time.Time
	// PlannedAt is when to send the request: Slot, or later for a retry or a catch-up. It lies in
	// the past if the run is overdue.
	PlannedAt time.Time
	Attempt   int
	// InfraAttempt counts the runs of the due time that were lost to infrastructure and are retried
	// outside of the retry policy.
	InfraAttempt int
	Source       string
	// Version is the version of the endpoint's configuration.
	Version     int64
	LockedUntil time.Time
	// Hinted is set if hints may be in force.
	Hinted bool
	// Priority is -1 (low) to 2 (critical).
	Priority int
	// Expired is set if the claim took over an expired lock under which no run had started.
	Expired bool
	// ReleaseDelay is the minimum time from a release to the new due time, in whole milliseconds.
	// Claims can take the endpoint earlier by their horizon. If it is zero, the endpoint comes due
	// at its planned time.
	ReleaseDelay time.Duration
}

// Endpoint returns the endpoint or call of the run that the claim leads to.
func (c Claim) Endpoint() [16]byte { return cmp.Or(c.OwnerID, c.EndpointID) }

// ItemID returns the key of the row of a detached run; zero: the row is not that of a detached run.
func (c Claim) ItemID() [16]byte {
	if c.OwnerID == [16]byte{} {
		return [16]byte{}
	}
	return c.EndpointID
}

// PriorityStep is how much longer a run may wait than another one for each step of priority below
// it. The SQL of claims repeats it.
const PriorityStep = time.Minute

// HeadStart returns by how much the claim goes before others of its tenant.
func (c Claim) HeadStart() time.Duration { return time.Duration(c.Priority) * PriorityStep }

// turn returns the instant by which claims are ordered: the planned time, earlier by the head
// start.
func (c Claim) turn() time.Time { return c.PlannedAt.Add(-c.HeadStart()) }

// Rules are the settings of claims.
type Rules struct {
	// Horizon is how long before their due time endpoints are claimed.
	Horizon time.Duration
	// LockTTL is the maximum duration of a lock per grant. Heartbeats extend the locks of longer
	// runs.
	LockTTL time.Duration
}

// Store is the part of the database that claims need. Every method is one transaction, and every
// instant it returns is database time.
type Store interface {
	// ClaimDue claims up to Limit endpoints that come due between From and the horizon, oldest
	// first, and returns the database's time. If the request names tenants, it claims the oldest
	// endpoints of each tenant up to Share, and takes over no expired claim.
	ClaimDue(ctx context.Context, r Request) ([]Claim, time.Time, error)
	// DueTenants returns the tenants with unclaimed endpoints of the tag sets that come due within
	// the horizon.
	DueTenants(ctx context.Context, horizon time.Duration, sets TagSets) ([][16]byte, error)
	// Release gives back claims that were not started, and returns their number. They can be
	// claimed again at their planned time, or after their Rest. Release raises their tokens, so
	// that a start in flight is refused. Claims that were revoked or started meanwhile are left
	// unchanged.
	Release(ctx context.Context, worker [16]byte, list []Claim) (int, error)
	// Wake makes every worker claim at once, so that released claims are not late.
	Wake(ctx context.Context) error
	// ExtendLocks extends the locks of live runs that the worker still holds, to at most ttl from
	// now, and returns these runs as kept. It does not revive an expired lock. It returns a run
	// with an expired lock as over if no sweep has settled it yet.
	ExtendLocks(ctx context.Context, worker [16]byte, held []FencedRun, ttl time.Duration) (kept, over [][16]byte, err error)
}

// Request asks for claims of one worker.
type Request struct {
	Worker  [16]byte
	Limit   int
	Horizon time.Duration
	LockTTL time.Duration
	// TagSets are the tag sets that the worker serves.
	TagSets TagSets
	// Until is the deadline of the statement in database time. If the database executes it later,
	// it claims no row, because the claimer has given up. Zero: no deadline.
	Until time.Time
	// From is the low-water mark on due_at at which the index scan starts, in database time. Shares
	// ignore it. Zero: the scan starts at the low end of the index. See LowWaterMark.
	From time.Time
	// Tenants restricts the claim to the oldest endpoints of each of these tenants. nil: the oldest
	// endpoints of all tenants.
	Tenants [][16]byte
	// Share is the quota of each tenant, at least 1. The sum over Tenants is at most Limit. It is
	// unused without Tenants.
	Share int
}

// FencedRun identifies a started run by the fencing token under which it was started.
type FencedRun struct {
	EndpointID [16]byte
	RunID      [16]byte
	Token      int64
}

// CTID is the position of a row version in its table (Postgres's ctid). A statement with it reads
// the version directly. A lookup by key would visit every dead version of the row that an old
// snapshot keeps. It is a hint, because an update moves the row: a statement with an old position
// does not find it.
type CTID struct {
	Block  uint32
	Offset uint16
}
