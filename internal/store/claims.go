package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"rubato/internal/claims"
	"rubato/internal/store/dbsqlc"
)

// Claims claims endpoints. It implements claims.Store.
type Claims struct {
	db *DB
}

var _ claims.Store = (*Claims)(nil)

// NewClaims returns the store of claims.
func NewClaims(db *DB) *Claims { return &Claims{db: db} }

// ClaimDue implements claims.Store.
func (s *Claims) ClaimDue(ctx context.Context, r claims.Request) ([]claims.Claim, time.Time, error) {
	var rows []*dbsqlc.ScheduleClaimDueRow
	var now time.Time
	err := pipelineOn(ctx, s.db.hot,
		func(q dbsqlc.DBTX) (err error) {
			rows, err = s.due(ctx, q, r)
			return err
		},
		func(q dbsqlc.DBTX) (err error) {
			now, err = s.db.q.Clock(ctx, q, s.db.now())
			return err
		})
	if err != nil {
		return nil, time.Time{}, translate(err)
	}
	list := make([]claims.Claim, len(rows))
	for i, row := range rows {
		list[i] = claims.Claim{
			EndpointID: row.EndpointID, Place: place(row.Place), Token: row.ClaimToken, Slot: row.Slot, PlannedAt: row.PlannedAt,
			Attempt: int(row.Attempt), InfraAttempt: int(row.InfraAttempt), Source: row.Source, Version: row.Version, LockedUntil: row.LockedUntil, Hinted: row.Hinted, Expired: row.Expired,
		}
	}
	if len(rows) > 0 { // The time that it took is no part of a clock's skew.
		now = rows[0].ClaimedAt
	}
	return list, now, nil
}

// due takes the oldest, whoever's they are or of each tenant that is named.
func (s *Claims) due(ctx context.Context, q dbsqlc.DBTX, r claims.Request) ([]*dbsqlc.ScheduleClaimDueRow, error) {
	lock, ahead, now := int32(r.LockTTL.Milliseconds()), r.Horizon.Milliseconds(), s.db.now() //nolint:gosec // Minutes at most.
	if len(r.Tenants) == 0 {
		return s.db.q.ScheduleClaimDue(ctx, q, dbsqlc.ScheduleClaimDueParams{
			WorkerID: r.Worker, LockTtlMs: lock, Now: now, Until: optional(r.Until), FromAt: optional(r.From), HorizonMs: ahead,
			MaxRows: int32(r.Limit), //nolint:gosec // Bounded by the caller.
		})
	}
	rows, err := s.db.q.ScheduleClaimShares(ctx, q, dbsqlc.ScheduleClaimSharesParams{
		WorkerID: r.Worker, LockTtlMs: lock, Now: now, Until: optional(r.Until), HorizonMs: ahead, Share: int32(r.Share), TenantIds: r.Tenants, //nolint:gosec // Likewise.
	})
	list := make([]*dbsqlc.ScheduleClaimDueRow, len(rows))
	for i, row := range rows {
		list[i] = (*dbsqlc.ScheduleClaimDueRow)(row)
	}
	return list, err
}

// DueTenants implements claims.Store.
func (s *Claims) DueTenants(ctx context.Context, horizon time.Duration) ([][16]byte, error) {
	list, err := s.db.q.ScheduleDueTenants(ctx, s.db.hot, dbsqlc.ScheduleDueTenantsParams{HorizonMs: horizon.Milliseconds(), Now: s.db.now()})
	return list, translate(err)
}

// Release implements claims.Store. A start of the same claim either holds the row, and the release leaves it alone, or waits for the
// release and is refused by its token.
func (s *Claims) Release(ctx context.Context, worker [16]byte, list []claims.Claim) (released int, err error) {
	list = slices.SortedFunc(slices.Values(list), byEndpoint) // Row locks are taken in one order.
	for part := range slices.Chunk(list, releaseBatch) {
		rows, err := s.release(ctx, worker, part)
		released += int(rows)
		if err != nil {
			return released, fmt.Errorf("releasing %d claims: %w", len(list), translate(err))
		}
	}
	return released, nil
}

// releaseBatch is how many claims are given back in one statement.
const releaseBatch = 500

func (s *Claims) release(ctx context.Context, worker [16]byte, list []claims.Claim) (int64, error) {
	params := dbsqlc.ScheduleReleaseParams{WorkerID: worker, Now: s.db.now()}
	for _, c := range list {
		params.EndpointIds = append(params.EndpointIds, c.EndpointID)
		params.Tokens = append(params.Tokens, c.Token)
		params.RestMs = append(params.RestMs, c.Rest.Milliseconds())
	}
	return s.db.q.ScheduleRelease(ctx, s.db.hot, params)
}

// ExtendLocks implements claims.Store. It has connections that nothing but signs of life uses.
func (s *Claims) ExtendLocks(ctx context.Context, worker [16]byte, held []claims.Held, ttl time.Duration) (kept, over [][16]byte, err error) {
	params := dbsqlc.RunExtendLocksParams{
		WorkerID: worker, LockTtlMs: int32(ttl.Milliseconds()), Now: s.db.now(), //nolint:gosec // Minutes at most.
	}
	for _, h := range held {
		params.EndpointIds = append(params.EndpointIds, h.EndpointID)
		params.RunIds = append(params.RunIds, h.RunID)
		params.Tokens = append(params.Tokens, h.Token)
	}
	found, err := s.db.q.RunExtendLocks(ctx, s.db.vital, params)
	for _, f := range found {
		if f.Kept {
			kept = append(kept, f.RunID)
		} else {
			over = append(over, f.RunID)
		}
	}
	return kept, over, translate(err)
}

func byEndpoint(a, b claims.Claim) int { return bytes.Compare(a.EndpointID[:], b.EndpointID[:]) }
