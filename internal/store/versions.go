package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"rubato/internal/claims"
	"rubato/internal/store/dbsqlc"
)

// A schedule names the version of its configuration, and every edit writes both. Manual SQL can
// raise one of them alone. Then neither cache nor query finds the named version. The functions here
// use the stored configuration instead, so that the endpoint is not claimed and released forever
// and its runs can finish.

// syncVersions corrects the schedules of claims without a configuration whose versions differ.
// These claims are void afterwards.
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
		if mended == 0 { // They were edited or archived meanwhile.
			return nil
		}
		return s.db.q.ScheduleNotify(ctx, tx, 0)
	})
}

// loadCurrent adds the stored configurations, of any version, of the endpoints that have none at
// the requested version.
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
