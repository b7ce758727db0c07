package endpoints

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

var _ endpoints.BulkStore = (*Store)(nil)

// Find implements endpoints.BulkStore.
func (s *Store) Find(
	ctx context.Context, tenant [16]byte, ids []endpoints.ID, keys []string,
) (found []*endpoints.Endpoint, now time.Time, err error) {
	err = s.db.List(ctx, func(tx pgx.Tx) error {
		rows, err := s.find(ctx, tx, tenant, ids, keys)
		if err != nil {
			return fmt.Errorf("looking up %d ids and %d keys: %w", len(ids), len(keys), err)
		}
		if found, err = s.WithStates(ctx, tx, rows); err != nil {
			return err
		}
		now, err = s.db.DecisionTime(ctx, tx)
		return err
	})
	return found, now, err
}

// KnownSecrets implements endpoints.BulkStore.
func (s *Store) KnownSecrets(ctx context.Context, tenant [16]byte, names []string) ([]string, error) {
	found, err := s.db.Q.SecretsExisting(ctx, s.db.Pool, dbsqlc.SecretsExistingParams{TenantID: tenant, Names: pg.ValidNames(names)})
	if err != nil {
		return nil, fmt.Errorf("looking up %d secrets: %w", len(names), pg.Translate(err))
	}
	return found, nil
}

// find reads the rows of endpoints by ID and by key. A row that matches both is returned once.
func (s *Store) find(ctx context.Context, tx pgx.Tx, tenant [16]byte, ids []endpoints.ID, keys []string) (rows []*dbsqlc.Endpoint, err error) {
	if len(ids) > 0 {
		rows, err = s.db.Q.EndpointFindByIDs(ctx, tx, dbsqlc.EndpointFindByIDsParams{TenantID: tenant, Ids: rawIDs(ids)})
		if err != nil {
			return nil, err
		}
	}
	if len(keys) == 0 {
		return rows, nil
	}
	known := make(map[[16]byte]bool, len(rows))
	for _, row := range rows {
		known[row.ID] = true
	}
	byKey, err := s.db.Q.EndpointFindByKeys(ctx, tx, dbsqlc.EndpointFindByKeysParams{TenantID: tenant, Keys: keys})
	for _, row := range byKey {
		if !known[row.ID] {
			rows = append(rows, row)
		}
	}
	return rows, err
}

func rawIDs(ids []endpoints.ID) [][16]byte {
	raw := make([][16]byte, len(ids))
	for i, id := range ids {
		raw[i] = id
	}
	return raw
}

// CreateMany implements endpoints.BulkStore. It takes no row locks, because a new endpoint has no
// runs yet. It waits only for concurrent transactions that insert the same keys.
func (s *Store) CreateMany(
	ctx context.Context, act auditlog.Act, create func(now time.Time) ([]endpoints.New, error),
) (taken []endpoints.ID, err error) {
	var b bulk
	var now time.Time
	err = s.db.TxAfter(ctx, []pg.Statement{s.db.Clock(ctx, &now)}, func(tx pg.OpenTx) error {
		taken = nil
		all, err := create(now)
		if err != nil {
			return err
		}
		rows := dbsqlc.EndpointInsertManyParams{TenantID: act.By.TenantID, Now: now}
		for _, n := range all {
			addEndpoint(&rows, n.Endpoint)
		}
		inserted, err := s.db.Q.EndpointInsertMany(ctx, tx, rows)
		if err != nil {
			return fmt.Errorf("inserting %d endpoints: %w", len(all), err)
		}
		there := make(map[[16]byte]bool, len(inserted))
		for _, id := range inserted {
			there[id] = true
		}
		for _, n := range all {
			if !there[n.Endpoint.ID] {
				taken = append(taken, n.Endpoint.ID)
				continue
			}
			if err := b.created(n, now); err != nil {
				return err
			}
		}
		return b.write(ctx, tx, s.db, act)
	})
	if err == nil {
		s.db.Wake(ctx, b.soonest, now)
	}
	return taken, err
}

// ChangeMany implements endpoints.BulkStore.
func (s *Store) ChangeMany(
	ctx context.Context, act auditlog.Act, ids []endpoints.ID, change func(*endpoints.Endpoint, time.Time) (*endpoints.Recorded, bool),
) error {
	var b bulk
	var days []time.Time // History partitions of the skipped due times.
	locked := func(tx pgx.Tx) error {
		days = nil
		if err := s.lockMany(ctx, tx, ids); err != nil {
			return err
		}
		found, err := s.find(ctx, tx, act.By.TenantID, ids, nil)
		if err != nil {
			return fmt.Errorf("reading %d endpoints: %w", len(ids), err)
		}
		list, err := s.WithStates(ctx, tx, found)
		if err != nil {
			return err
		}
		now, err := s.db.DecisionTime(ctx, tx)
		if err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		b = bulk{edits: edits{now: now, tenant: act.By.TenantID}}
		for _, e := range list {
			before := *e
			planned, keep := change(e, now)
			if !keep {
				continue
			}
			dropped, err := s.db.Dropped(ctx, tx, e, now)
			if err != nil {
				return err
			}
			b.dropped = append(b.dropped, dropped...)
			days = append(days, history.SkipDays(e)...)
			if err := b.changed(&before, e, planned); err != nil {
				return err
			}
		}
		return b.write(ctx, tx, s.db, act)
	}
	err := s.db.WithPartitions(ctx, func() []time.Time { return days }, func() error { return s.db.Tx(ctx, locked) })
	if err == nil {
		s.db.Wake(ctx, b.soonest, b.edits.now)
	}
	return err
}

// lockMany locks the schedules of endpoints against starts, finishes and other changes. Later
// statements of the transaction see the commits of previous lock holders.
func (s *Store) lockMany(ctx context.Context, tx pgx.Tx, ids []endpoints.ID) error {
	if _, err := s.db.Q.ScheduleLock(ctx, tx, rawIDs(ids)); err != nil {
		return fmt.Errorf("locking the schedules of %d endpoints: %w", len(ids), err)
	}
	return nil
}
