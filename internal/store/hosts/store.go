// Package hosts stores the circuit breakers of hosts.
package hosts

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/hosts"
	"rubato/internal/notices"
	"rubato/internal/store/dbsqlc"
	noticestore "rubato/internal/store/notices"
	"rubato/internal/store/pg"
)

// overlap is how far a read of changed hosts reaches back before the last one, because a
// transaction commits later than the instant that it writes. It is longer than the timeout of every
// transaction here.
const overlap = 5 * time.Second

// Store stores breakers. It implements dispatch.BreakerStore and hosts.Store.
type Store struct {
	db *pg.DB
}

var _ hosts.Store = (*Store)(nil)

// New returns the store of breakers.
func New(db *pg.DB) *Store { return &Store{db: db} }

// Changed implements dispatch.BreakerStore.
func (s *Store) Changed(ctx context.Context, since time.Time) (list []hosts.Breaker, now time.Time, err error) {
	if !since.IsZero() {
		since = since.Add(-overlap)
	}
	var rows []*dbsqlc.Host
	err = pg.PipelineOn(ctx, s.db.Hot,
		func(q dbsqlc.DBTX) (err error) {
			now, err = s.db.Q.Clock(ctx, q, s.db.Now())
			return err
		},
		func(q dbsqlc.DBTX) (err error) {
			rows, err = s.db.Q.HostListChanged(ctx, q, pg.Optional(since))
			return err
		})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("reading the breakers of hosts: %w", pg.Translate(err))
	}
	return breakersOf(rows), now, nil
}

// dropBatch bounds the rows of one deletion.
const dropBatch = 1000

// DropIdle implements dispatch.BreakerStore.
func (s *Store) DropIdle(ctx context.Context) error {
	if _, err := s.db.Q.HostDropIdle(ctx, s.db.Hot, dbsqlc.HostDropIdleParams{Now: s.db.Now(), MaxRows: dropBatch}); err != nil {
		return fmt.Errorf("deleting idle hosts: %w", pg.Translate(err))
	}
	return nil
}

// Report implements dispatch.BreakerStore.
func (s *Store) Report(ctx context.Context, reports []hosts.Report) (list []hosts.Breaker, opened int, err error) {
	by := make(map[hosts.Key]hosts.Report, len(reports))
	keys := make([]hosts.Key, 0, len(reports))
	for _, r := range reports {
		by[r.Key] = r
		keys = append(keys, r.Key)
	}
	err = s.change(ctx, keys, func(tx pgx.Tx, now time.Time, locked []hosts.Breaker) error {
		opened = 0
		list = locked
		for i := range locked {
			before, report := locked[i], by[locked[i].Key]
			locked[i].Apply(now, report)
			if locked[i].Openings == before.Openings || locked[i].State != hosts.Open {
				continue
			}
			opened++
			if before.State == hosts.Closed {
				if err := s.alarm(ctx, tx, now, locked[i], report.Endpoint); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("reporting outcomes of %d hosts: %w", len(reports), err)
	}
	return list, opened, nil
}

// alarm opens the episodes of notices about a host whose breaker has opened. The endpoint stands
// for all endpoints of the host, so that there is one notice.
func (s *Store) alarm(ctx context.Context, tx pgx.Tx, now time.Time, b hosts.Breaker, endpoint [16]byte) error {
	return noticestore.Raise(ctx, tx, s.db, now, noticestore.Alarm{
		EndpointID: endpoint,
		Event:      notices.HostOpen,
		Detail: notices.Detail{
			Host:     b.Host,
			Failures: b.ToOpen(),
			Reason:   fmt.Sprintf("%d requests in a row failed; none is sent until %s", b.ToOpen(), b.OpenUntil.UTC().Format(time.RFC3339)),
		},
	})
}

// Admit implements dispatch.BreakerStore.
func (s *Store) Admit(ctx context.Context, asked []hosts.Probing) (admitted []bool, list []hosts.Breaker, err error) {
	var keys []hosts.Key
	for _, p := range asked {
		if !slices.Contains(keys, p.Key) {
			keys = append(keys, p.Key)
		}
	}
	admitted = make([]bool, len(asked))
	err = s.change(ctx, keys, func(tx pgx.Tx, now time.Time, locked []hosts.Breaker) error {
		alive, err := s.alive(ctx, tx, locked)
		if err != nil {
			return err
		}
		for _, p := range asked { // Their worker holds them.
			alive[p.Seat] = true
		}
		at := make(map[hosts.Key]*hosts.Breaker, len(locked))
		for i := range locked {
			at[locked[i].Key] = &locked[i]
		}
		for i, p := range asked {
			admitted[i] = at[p.Key].Admit(now, p.Seat, p.Force, func(seat hosts.Seat) bool { return alive[seat] })
		}
		list = locked
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("admitting probes of %d hosts: %w", len(asked), err)
	}
	return admitted, list, nil
}

// alive returns the seats of breakers whose claims still hold their locks.
func (s *Store) alive(ctx context.Context, tx pgx.Tx, list []hosts.Breaker) (map[hosts.Seat]bool, error) {
	params := dbsqlc.HostListSeatsParams{Now: s.db.Now()}
	for _, b := range list {
		for _, seat := range b.Seats {
			params.EndpointIds = append(params.EndpointIds, seat.Endpoint)
			params.Tokens = append(params.Tokens, seat.Token)
		}
	}
	if len(params.Tokens) == 0 {
		return map[hosts.Seat]bool{}, nil
	}
	rows, err := s.db.Q.HostListSeats(ctx, tx, params)
	if err != nil {
		return nil, fmt.Errorf("reading the locks of probes: %w", err)
	}
	alive := make(map[hosts.Seat]bool, len(rows))
	for _, row := range rows {
		alive[hosts.Seat{Endpoint: row.EndpointID, Token: row.ClaimToken}] = true
	}
	return alive, nil
}

// change locks the breakers of distinct keys, lets act change them in place, and writes and
// announces those that did change. A breaker without a row gets one.
func (s *Store) change(ctx context.Context, keys []hosts.Key, act func(pgx.Tx, time.Time, []hosts.Breaker) error) error {
	insert := dbsqlc.HostInsertParams{}
	for _, key := range keys {
		insert.Scopes, insert.Hosts = append(insert.Scopes, key.Scope), append(insert.Hosts, key.Host)
	}
	return s.db.Tx(ctx, func(tx pgx.Tx) error {
		now, err := s.db.Q.Clock(ctx, tx, s.db.Now())
		if err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		insert.Now = now
		if err := s.db.Q.HostInsert(ctx, tx, insert); err != nil {
			return fmt.Errorf("inserting hosts: %w", err)
		}
		rows, err := s.db.Q.HostLock(ctx, tx, dbsqlc.HostLockParams{Scopes: insert.Scopes, Hosts: insert.Hosts})
		if err != nil {
			return fmt.Errorf("locking hosts: %w", err)
		}
		before, after := breakersOf(rows), breakersOf(rows)
		if err := act(tx, now, after); err != nil {
			return err
		}
		return s.write(ctx, tx, now, before, after)
	})
}

// write writes the breakers that differ from before.
func (s *Store) write(ctx context.Context, tx pgx.Tx, now time.Time, before, after []hosts.Breaker) error {
	var changed []pg.Statement
	for i := range after {
		if after[i].Equal(before[i]) {
			continue
		}
		params := paramsOf(after[i], now)
		changed = append(changed, func(q dbsqlc.DBTX) error { return s.db.Q.HostWrite(ctx, q, params) })
	}
	if len(changed) == 0 {
		return nil
	}
	changed = append(changed, func(q dbsqlc.DBTX) error { return s.db.Q.HostNotify(ctx, q) })
	if err := pg.Pipeline(ctx, tx, changed...); err != nil {
		return fmt.Errorf("writing %d hosts: %w", len(changed)-1, err)
	}
	return nil
}
