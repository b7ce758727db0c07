package httpapi_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/auth"
	"rubato/internal/errs"
	"rubato/internal/httpapi"
	"rubato/internal/idempotency"
)

var _ auth.KeyStore = (*memory)(nil)

func (m *memory) CreateKey(_ context.Context, act auditlog.Act, create func(time.Time, int) (auth.Key, auth.Secret, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	inForce := 0
	for _, k := range m.keys {
		if k.TenantID == act.By.TenantID && k.StateAt(now) == auth.KeyActive {
			inForce++
		}
	}
	k, _, err := create(now, inForce)
	if err != nil {
		return err
	}
	m.keepKey(k, act)
	return nil
}

func (m *memory) keepKey(k auth.Key, act auditlog.Act) {
	m.writes++
	m.keys[k.ID] = k
	m.entries = append(m.entries, auditlog.Entry{ID: auditlog.ID(k.ID), At: now, By: act.By, Action: act.Action, Object: k.Object()})
}

func (m *memory) GetKey(_ context.Context, tenant [16]byte, id auth.KeyID) (auth.Key, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := m.findKey(tenant, id)
	return k, now, err
}

func (m *memory) findKey(tenant [16]byte, id auth.KeyID) (auth.Key, error) {
	if m.err != nil {
		return auth.Key{}, m.err
	}
	k, found := m.keys[id]
	if !found || k.TenantID != tenant {
		return auth.Key{}, errs.New(errs.NotFound, "", "there is no such key")
	}
	return k, nil
}

func (m *memory) ListKeys(_ context.Context, f auth.KeyFilter) ([]auth.Key, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := slices.Collect(maps.Values(m.keys))
	list = slices.DeleteFunc(list, func(k auth.Key) bool {
		return k.TenantID != f.TenantID || f.Before != auth.KeyID{} && slices.Compare(k.ID[:], f.Before[:]) >= 0 ||
			f.State != "" && f.State != k.StateAt(now)
	})
	slices.SortFunc(list, func(a, b auth.Key) int { return slices.Compare(b.ID[:], a.ID[:]) })
	return list[:min(len(list), f.Limit)], now, m.err
}

func (m *memory) ChangeKey(_ context.Context, act auditlog.Act, id auth.KeyID, change func(*auth.LockedKey) (bool, error)) (auth.Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := m.findKey(act.By.TenantID, id)
	if err != nil {
		return k, err
	}
	s := &auth.LockedKey{Key: k, Now: now}
	changed, err := change(s)
	if err == nil && changed {
		m.keepKey(s.Key, act)
	}
	return s.Key, err
}

// trail reads the audit log of a memory.
type trail struct{ m *memory }

func (l trail) List(_ context.Context, f auditlog.Filter) ([]auditlog.Entry, error) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	var list []auditlog.Entry
	for _, e := range slices.Backward(l.m.entries) {
		if e.By.TenantID == f.TenantID && (f.Before == auditlog.ID{} || slices.Compare(e.ID[:], f.Before[:]) < 0) {
			list = append(list, e)
		}
	}
	return list[:min(len(list), f.Limit)], l.m.err
}

// answers is an httpapi.Once without a database.
type answers struct {
	mu       sync.Mutex
	attempts map[idempotency.Key]idempotency.Attempt
	kept     map[idempotency.Key]idempotency.Answer
	unknown  map[idempotency.Key]bool
	deaf     bool // Complete does nothing
}

var _ httpapi.IdempotencyStore = (*answers)(nil)

func newAnswers() *answers {
	return &answers{
		attempts: map[idempotency.Key]idempotency.Attempt{}, kept: map[idempotency.Key]idempotency.Answer{}, unknown: map[idempotency.Key]bool{},
	}
}

func (s *answers) Reserve(_ context.Context, a idempotency.Attempt) (idempotency.State, idempotency.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	earlier, taken := s.attempts[a.Key]
	answer, answered := s.kept[a.Key]
	switch {
	case taken && earlier.Fingerprint != a.Fingerprint:
		return idempotency.Other, answer, nil
	case answered:
		return idempotency.Answered, answer, nil
	case s.unknown[a.Key]:
		return idempotency.Unknown, answer, nil
	case taken:
		return idempotency.Busy, answer, nil
	}
	s.attempts[a.Key] = a
	return idempotency.Reserved, answer, nil
}

func (s *answers) Complete(_ context.Context, a idempotency.Attempt, answer idempotency.Answer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deaf {
		return errs.New(errs.Unavailable, "", "the database is away")
	}
	answer.Body = slices.Clone(answer.Body)
	s.kept[a.Key] = answer
	return nil
}

func (s *answers) Release(_ context.Context, a idempotency.Attempt, outcomeKnown bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unknown[a.Key] = !outcomeKnown; outcomeKnown {
		delete(s.attempts, a.Key)
	}
	return nil
}
