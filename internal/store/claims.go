package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

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
	rows, err := s.db.q.ScheduleClaimDue(ctx, s.db.hot, dbsqlc.ScheduleClaimDueParams{
		WorkerID: r.Worker, LockTtlMs: int32(r.LockTTL.Milliseconds()), Now: s.db.now(), //nolint:gosec // Minutes at most.
		HorizonMs: r.Horizon.Milliseconds(), MaxRows: int32(r.Limit), //nolint:gosec // Bounded by the caller.
	})
	if err != nil {
		return nil, time.Time{}, translate(err)
	}
	list := make([]claims.Claim, len(rows))
	for i, row := range rows {
		list[i] = claims.Claim{
			EndpointID: row.EndpointID, Token: row.ClaimToken, Slot: row.Slot, PlannedAt: row.PlannedAt, Attempt: int(row.Attempt),
			Source: row.Source, Version: row.Version, LockedUntil: row.LockedUntil, Expired: row.Expired,
		}
	}
	now, err := s.clock(ctx, rows)
	return list, now, err
}

// clock returns the database's time: what the claim read, or, when there was nothing to claim, what it says now.
func (s *Claims) clock(ctx context.Context, rows []dbsqlc.ScheduleClaimDueRow) (time.Time, error) {
	if len(rows) > 0 {
		return rows[0].ClaimedAt, nil
	}
	now, err := s.db.q.Clock(ctx, s.db.hot, s.db.now())
	return now, translate(err)
}

// Release implements claims.Store. No start is in flight meanwhile: one that has seen the claim and not committed yet would come to life
// under a token that the release has raised.
func (s *Claims) Release(ctx context.Context, worker [16]byte, list []claims.Claim) (int, error) {
	params := dbsqlc.ScheduleReleaseParams{WorkerID: worker}
	for _, c := range list {
		params.EndpointIds = append(params.EndpointIds, c.EndpointID)
		params.Tokens = append(params.Tokens, c.Token)
	}
	var rows int64
	err := s.db.tx(ctx, func(tx pgx.Tx) (err error) {
		if err := s.db.q.StartsExclude(ctx, tx); err != nil {
			return fmt.Errorf("waiting for starts in flight: %w", err)
		}
		rows, err = s.db.q.ScheduleRelease(ctx, tx, params)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("releasing %d claims: %w", len(list), err)
	}
	return int(rows), nil
}

// ExtendLocks implements claims.Store. It has connections that nothing but signs of life uses.
func (s *Claims) ExtendLocks(ctx context.Context, worker [16]byte, held []claims.Held, ttl time.Duration) ([][16]byte, error) {
	params := dbsqlc.LiveRunExtendLocksParams{
		WorkerID: worker, LockTtlMs: int32(ttl.Milliseconds()), Now: s.db.now(), //nolint:gosec // Minutes at most.
	}
	for _, h := range held {
		params.RunIds = append(params.RunIds, h.RunID)
		params.Tokens = append(params.Tokens, h.Token)
	}
	kept, err := s.db.q.LiveRunExtendLocks(ctx, s.db.vital, params)
	return kept, translate(err)
}
