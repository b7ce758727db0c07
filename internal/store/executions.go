package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/store/dbsqlc"
)

// Executions starts and finishes runs. It implements dispatch.Executions.
type Executions struct {
	db *DB
}

var _ dispatch.Executions = (*Executions)(nil)

// NewExecutions returns the store of executions.
func NewExecutions(db *DB) *Executions { return &Executions{db: db} }

// Targets implements dispatch.Executions.
func (s *Executions) Targets(ctx context.Context, list []claims.Claim) (map[[16]byte]dispatch.Target, error) {
	versions := make(map[[16]byte]int64, len(list))
	for _, c := range list {
		versions[c.EndpointID] = c.Version
	}
	loaded, err := s.db.load(ctx, s.db.pool, versions)
	if err != nil {
		return nil, translate(err)
	}
	targets := make(map[[16]byte]dispatch.Target, len(loaded))
	if err := s.syncVersions(ctx, list, loaded); err != nil {
		return nil, err
	}
	for id, c := range loaded {
		if c.fault == nil {
			targets[id] = c.target
			continue
		}
		if err := s.quarantine(ctx, id); err != nil {
			return targets, err
		}
	}
	return targets, nil
}

// quarantine takes an endpoint out of the way whose stored configuration cannot be used.
func (s *Executions) quarantine(ctx context.Context, id [16]byte) error {
	return s.db.tx(ctx, func(tx pgx.Tx) error {
		if err := s.db.q.ScheduleLock(ctx, tx, [][16]byte{id}); err != nil {
			return fmt.Errorf("locking a schedule: %w", err)
		}
		found, faults, err := s.db.states(ctx, tx, [][16]byte{id})
		if err != nil {
			return err
		}
		e, fault := found[id], faults[id]
		if e == nil || fault == nil { // Archived or mended since.
			return nil
		}
		now, err := s.db.decisionTime(ctx, tx)
		if err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		return s.db.quarantine(ctx, tx, e, now, fault)
	})
}

// Start implements dispatch.Executions.
func (s *Executions) Start(ctx context.Context, worker [16]byte, list []dispatch.Start, ttl time.Duration) ([]dispatch.Started, error) {
	params := dbsqlc.LiveRunStartParams{WorkerID: worker, LockTtlMs: ttl.Milliseconds(), Now: s.db.now()}
	for _, l := range list {
		params.EndpointIds = append(params.EndpointIds, l.Claim.EndpointID)
		params.Tokens = append(params.Tokens, l.Claim.Token)
		params.RunIds = append(params.RunIds, l.RunID)
		params.ExecutionMs = append(params.ExecutionMs, l.Execution.Milliseconds())
	}
	var rows []dbsqlc.LiveRunStartRow
	var revoked [][16]byte
	err := s.db.tx(ctx, func(tx pgx.Tx) (err error) {
		if err := s.db.q.StartsShare(ctx, tx); err != nil {
			return fmt.Errorf("waiting for a replan in flight: %w", err)
		}
		if rows, err = s.db.q.LiveRunStart(ctx, tx, params); err != nil {
			return fmt.Errorf("starting %d runs: %w", len(list), err)
		}
		ours := make([][16]byte, len(rows)) // Only what this transaction inserted: another's row may have the same run ID.
		for i, row := range rows {
			ours[i] = row.RunID
		}
		if revoked, err = s.db.q.LiveRunTakeBack(ctx, tx, ours); err != nil {
			return fmt.Errorf("checking the tokens of %d starts: %w", len(rows), err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	started := make([]dispatch.Started, 0, len(rows))
	for _, row := range rows {
		if slices.Contains(revoked, row.RunID) {
			continue
		}
		started = append(started, dispatch.Started{
			EndpointID: row.EndpointID, TenantID: row.TenantID, RunID: row.RunID, StartedAt: row.StartedAt, LockedUntil: row.LockedUntil,
		})
	}
	return started, nil
}

// Beat implements dispatch.Executions.
func (s *Executions) Beat(ctx context.Context, p dispatch.Presence) error {
	return translate(s.db.q.WorkerBeat(ctx, s.db.vital, dbsqlc.WorkerBeatParams{
		ID: p.ID, Name: p.Name, Version: p.Version, State: p.State, Now: s.db.now(), Slots: int32(p.Slots), Busy: int32(p.Busy), //nolint:gosec // Thousands at most.
	}))
}
