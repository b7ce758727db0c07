// Package items stores a due time on its way from claim to record: claims, starts, finishes, and
// the sweeper that settles runs of dead workers. The claim token fences every transition.
package items

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"rubato/internal/claims"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// Claims claims due endpoints for workers. It implements claims.Store.
type Claims struct {
	db *pg.DB
}

var _ claims.Store = (*Claims)(nil)

// NewClaims returns the store of claims.
func NewClaims(db *pg.DB) *Claims { return &Claims{db: db} }

// ClaimDue implements claims.Store. The second result is the database's time, which the worker
// compares to its own clock. Claim and clock travel in one round trip.
func (s *Claims) ClaimDue(ctx context.Context, r claims.Request) ([]claims.Claim, time.Time, error) {
	var rows []*dbsqlc.ScheduleClaimDueRow
	var now time.Time
	err := pg.PipelineOn(ctx, s.db.Hot,
		func(q dbsqlc.DBTX) (err error) {
			rows, err = s.due(ctx, q, r)
			return err
		},
		func(q dbsqlc.DBTX) (err error) {
			now, err = s.db.Q.Clock(ctx, q, s.db.Now())
			return err
		})
	if err != nil {
		return nil, time.Time{}, pg.Translate(err)
	}
	list := make([]claims.Claim, len(rows))
	for i, row := range rows {
		list[i] = claims.Claim{
			EndpointID:   row.EndpointID,
			OwnerID:      pg.OrZero(row.OwnerID),
			CTID:         ctid(row.CTID),
			Token:        row.ClaimToken,
			Slot:         row.Slot,
			PlannedAt:    row.PlannedAt,
			Attempt:      int(row.Attempt),
			InfraAttempt: int(row.InfraAttempt),
			Source:       row.Source,
			Version:      row.Version,
			LockedUntil:  row.LockedUntil,
			Hinted:       row.Hinted,
			Priority:     int(row.Priority),
			Expired:      row.Expired,
		}
	}
	if len(rows) > 0 { // The duration of the claim must not count as clock skew.
		now = rows[0].ClaimedAt
	}
	return list, now, nil
}

// due claims the earliest due endpoints of all tenants, or up to r.Share of each tenant in
// r.Tenants.
func (s *Claims) due(ctx context.Context, q dbsqlc.DBTX, r claims.Request) ([]*dbsqlc.ScheduleClaimDueRow, error) {
	lock, ahead, now, l := int32(r.LockTTL.Milliseconds()), r.Horizon.Milliseconds(), s.db.Now(), lanesOf(r.TagSets)
	if len(r.Tenants) == 0 {
		return s.db.Q.ScheduleClaimDue(ctx, q, dbsqlc.ScheduleClaimDueParams{
			WorkerID:   r.Worker,
			LockTtlMs:  lock,
			Now:        now,
			Until:      pg.Optional(r.Until),
			FromAt:     pg.Optional(r.From),
			HorizonMs:  ahead,
			MaxRows:    int32(r.Limit),
			TagSetIds:  l.sets,
			Priorities: l.priorities,
			Yields:     l.yields,
		})
	}
	rows, err := s.db.Q.ScheduleClaimShares(ctx, q, dbsqlc.ScheduleClaimSharesParams{
		WorkerID:   r.Worker,
		LockTtlMs:  lock,
		Now:        now,
		Until:      pg.Optional(r.Until),
		HorizonMs:  ahead,
		Share:      int32(r.Share),
		TenantIds:  r.Tenants,
		TagSetIds:  l.sets,
		Priorities: l.priorities,
		Yields:     l.yields,
	})
	list := make([]*dbsqlc.ScheduleClaimDueRow, len(rows))
	for i, row := range rows {
		list[i] = (*dbsqlc.ScheduleClaimDueRow)(row)
	}
	return list, err
}

// DueTenants implements claims.Store.
func (s *Claims) DueTenants(ctx context.Context, horizon time.Duration, sets claims.TagSets) ([][16]byte, error) {
	l := lanesOf(sets)
	list, err := s.db.Q.ScheduleDueTenants(ctx, s.db.Hot, dbsqlc.ScheduleDueTenantsParams{
		HorizonMs:  horizon.Milliseconds(),
		Now:        s.db.Now(),
		TagSetIds:  l.sets,
		Priorities: l.priorities,
		Yields:     l.yields,
	})
	return list, pg.Translate(err)
}

// Release implements claims.Store. A concurrent start of the same claim is safe. If the start holds
// the row lock, the release skips the row. If the release holds it, the start is refused because
// its token is stale.
func (s *Claims) Release(ctx context.Context, worker [16]byte, list []claims.Claim) (released int, err error) {
	list = slices.SortedFunc(slices.Values(list), byEndpoint) // Lock order, so that batches cannot deadlock.
	for part := range slices.Chunk(list, releaseBatch) {
		rows, err := s.release(ctx, worker, part)
		released += int(rows)
		if err != nil {
			return released, fmt.Errorf("releasing %d claims: %w", len(list), pg.Translate(err))
		}
	}
	return released, nil
}

// Wake implements claims.Store.
func (s *Claims) Wake(ctx context.Context) error {
	return pg.Translate(s.db.Q.ScheduleWake(ctx, s.db.Hot, 0))
}

// releaseBatch is the maximum number of claims per release statement.
const releaseBatch = 500

func (s *Claims) release(ctx context.Context, worker [16]byte, list []claims.Claim) (int64, error) {
	params := dbsqlc.ScheduleReleaseParams{WorkerID: worker, Now: s.db.Now()}
	for _, c := range list {
		params.EndpointIds = append(params.EndpointIds, c.EndpointID)
		params.Tokens = append(params.Tokens, c.Token)
		params.RestMs = append(params.RestMs, c.ReleaseDelay.Milliseconds())
	}
	return s.db.Q.ScheduleRelease(ctx, s.db.Hot, params)
}

// ExtendLocks implements claims.Store. It uses the connections of the vital pool, so that
// heartbeats do not queue behind other statements.
func (s *Claims) ExtendLocks(ctx context.Context, worker [16]byte, held []claims.FencedRun, ttl time.Duration) (kept, over [][16]byte, err error) {
	params := dbsqlc.RunExtendLocksParams{
		WorkerID:  worker,
		LockTtlMs: int32(ttl.Milliseconds()),
		Now:       s.db.Now(),
	}
	for _, h := range held {
		params.EndpointIds = append(params.EndpointIds, h.EndpointID)
		params.RunIds = append(params.RunIds, h.RunID)
		params.Tokens = append(params.Tokens, h.Token)
	}
	found, err := s.db.Q.RunExtendLocks(ctx, s.db.Vital, params)
	for _, f := range found {
		if f.Kept {
			kept = append(kept, f.RunID)
		} else {
			over = append(over, f.RunID)
		}
	}
	return kept, over, pg.Translate(err)
}

func byEndpoint(a, b claims.Claim) int { return bytes.Compare(a.EndpointID[:], b.EndpointID[:]) }
