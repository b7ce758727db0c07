package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"rubato/internal/claims"
	"rubato/internal/store/dbsqlc"
)

// A schedule names the version of the configuration that it goes by, and every edit writes both. Somebody who edits an endpoint by
// hand can raise one alone. Then no cache and no query finds the version that the schedule names; what is here goes by the
// configuration that there is, so that the endpoint is neither claimed and given back for ever nor kept from ending its runs.

// syncVersions mends the schedules of claims whose configuration was not found, where the versions differ. The claims are void then.
func (s *Executions) syncVersions(ctx context.Context, list []claims.Claim, loaded map[[16]byte]*config) error {
	var missing [][16]byte
	for _, c := range list {
		if loaded[c.EndpointID] == nil {
			missing = append(missing, c.EndpointID)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return s.db.tx(ctx, func(tx pgx.Tx) error {
		if _, err := s.db.q.ScheduleLock(ctx, tx, missing); err != nil {
			return fmt.Errorf("locking %d schedules: %w", len(missing), err)
		}
		mended, err := s.db.q.ScheduleSyncVersion(ctx, tx, missing)
		if err != nil {
			return fmt.Errorf("bringing %d schedules to the version of their configuration: %w", len(missing), err)
		}
		if mended == 0 { // They were edited or archived since, in order.
			return nil
		}
		return s.db.q.ScheduleNotify(ctx, tx, 0)
	})
}

// loadCurrent adds the configurations of the endpoints that have none at the version asked for, at whatever version they are.
func (db *DB) loadCurrent(ctx context.Context, tx dbsqlc.DBTX, versions map[[16]byte]int64, loaded map[[16]byte]*config) error {
	var missing [][16]byte
	for id := range versions {
		if loaded[id] == nil {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	rows, err := db.endpointRows(ctx, tx, missing)
	if err != nil {
		return fmt.Errorf("reading %d endpoints: %w", len(missing), err)
	}
	for _, row := range rows {
		loaded[row.ID] = db.parse(row)
	}
	return nil
}
