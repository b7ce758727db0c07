package calls

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"rubato/internal/calls"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

const (
	// maxGroup is the maximum number of calls in one transaction.
	maxGroup = 200
	// sendTime bounds one transaction, because it outlives the request that started it.
	sendTime = 10 * time.Second
)

// sending is a call on its way into the database.
type sending struct {
	call  *calls.Call
	place func(*calls.Call, time.Time)
	// done is closed after stored and err were set.
	done   chan struct{}
	stored *calls.Call
	err    error
}

// Send implements calls.Store.
func (s *Store) Send(ctx context.Context, c *calls.Call, place func(*calls.Call, time.Time)) (*calls.Call, error) {
	if err := s.checkQuota(ctx, c.TenantID); err != nil {
		return nil, err
	}
	one := &sending{call: c, place: place, done: make(chan struct{})}
	s.mu.Lock()
	s.pending = append(s.pending, one)
	first := !s.inserting
	s.inserting = true
	s.mu.Unlock()
	if first {
		// A goroutine of its own, because that of a request would insert the groups of all others
		// before it could answer.
		go s.insertGroups(context.WithoutCancel(ctx))
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-one.done:
		return one.stored, one.err
	}
}

// insertGroups inserts one group after the other until no call is pending. While a transaction
// runs, calls gather for the next one.
func (s *Store) insertGroups(ctx context.Context) {
	for {
		s.mu.Lock()
		group := s.take()
		s.inserting = len(group) > 0
		s.mu.Unlock()
		if len(group) == 0 {
			return
		}
		err := s.insertGroup(ctx, group)
		for _, one := range group {
			one.err = err
			close(one.done)
		}
	}
}

// insertGroup is insert with a timeout. A panic is an error of its group alone.
func (s *Store) insertGroup(ctx context.Context, group []*sending) (err error) {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("inserting %d calls: panic: %v\n%s", len(group), fault, debug.Stack())
		}
	}()
	days := func() (list []time.Time) { // Those of the requests that reruns record.
		for _, one := range group {
			list = append(list, pg.DayOf(one.call.NotBefore))
		}
		return list
	}
	return s.db.WithPartitions(ctx, days, func() error { return s.insert(ctx, group) })
}

// take removes the next group from the pending calls. A deduplication key occurs once in it. The
// caller holds mu.
func (s *Store) take() (group []*sending) {
	type keyed struct {
		tenant [16]byte
		key    string
	}
	seen := map[keyed]bool{}
	var rest []*sending
	for _, one := range s.pending {
		k := keyed{one.call.TenantID, one.call.Key}
		if len(group) == maxGroup || one.call.Key != "" && seen[k] {
			rest = append(rest, one)
			continue
		}
		seen[k] = true
		group = append(group, one)
	}
	s.pending = rest
	return group
}

// insert stores a group in one transaction. A call with a known deduplication key is replaced by
// the call of the key.
func (s *Store) insert(ctx context.Context, group []*sending) error {
	var now, first time.Time
	err := s.db.TxAfter(ctx, []pg.Statement{s.db.Clock(ctx, &now)}, func(tx pg.OpenTx) error {
		first = time.Time{}
		for _, one := range group {
			one.stored = one.call
			one.place(one.call, now)
		}
		if err := s.resolve(ctx, tx, group); err != nil {
			return err
		}
		var fresh []*calls.Call
		for _, one := range group {
			if one.stored != one.call {
				continue
			}
			fresh = append(fresh, one.call)
			if first.IsZero() || one.call.NotBefore.Before(first) {
				first = one.call.NotBefore
			}
		}
		if len(fresh) == 0 {
			return nil
		}
		return pg.Pipeline(ctx, tx, Inserts(ctx, s.db, fresh)...)
	})
	if err == nil {
		s.db.Wake(ctx, first, now)
	}
	return err
}

// resolve reserves the deduplication keys of a group, and sets stored to the first call of each key
// that is in use.
func (s *Store) resolve(ctx context.Context, tx dbsqlc.DBTX, group []*sending) error {
	byID := map[calls.ID]*sending{}
	keys := dbsqlc.CallKeyInsertParams{KeepMs: calls.KeyLife.Milliseconds(), Now: s.db.Now()}
	for _, one := range group {
		if one.call.Key == "" {
			continue
		}
		byID[one.call.ID] = one
		keys.TenantIds = append(keys.TenantIds, one.call.TenantID)
		keys.Keys = append(keys.Keys, one.call.Key)
		keys.CallIds = append(keys.CallIds, dbsqlc.UUID(one.call.ID))
	}
	if len(byID) == 0 {
		return nil
	}
	free, err := s.db.Q.CallKeyInsert(ctx, tx, keys)
	if err != nil {
		return fmt.Errorf("reserving %d deduplication keys: %w", len(byID), err)
	}
	for _, id := range free {
		delete(byID, calls.ID(id))
	}
	for _, one := range byID {
		rows, err := s.db.Q.CallKeyGet(ctx, tx, dbsqlc.CallKeyGetParams{TenantID: one.call.TenantID, Key: one.call.Key})
		if err != nil {
			return fmt.Errorf("reading the call of a deduplication key: %w", err)
		}
		if len(rows) == 1 {
			if one.stored, err = callOf(one.call.TenantID, (*dbsqlc.CallListRow)(rows[0])); err != nil {
				return err
			}
		}
	}
	return nil
}
