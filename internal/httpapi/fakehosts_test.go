package httpapi_test

import (
	"context"

	"rubato/internal/auditlog"
	"rubato/internal/auth"
	"rubato/internal/hosts"
)

var _ hosts.Store = (*memory)(nil)

// standingHost is the host that every memory has.
const standingHost = "api.example.com:443"

func standingHosts() map[hosts.Key]hosts.Breaker {
	key := hosts.Key{Scope: auth.DefaultTenant(), Host: standingHost}
	b := hosts.New(key, now)
	b.Apply(now, hosts.Report{Key: key, Failures: hosts.DefaultFailures})
	return map[hosts.Key]hosts.Breaker{key: b}
}

func (m *memory) ListHosts(_ context.Context, scope [16]byte, after string, _ int) (list []hosts.Breaker, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, b := range m.hosts {
		if key.Scope == scope && key.Host > after {
			list = append(list, b)
		}
	}
	return list, m.err
}

func (m *memory) GetHost(_ context.Context, key hosts.Key) (hosts.Breaker, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return hosts.Breaker{}, m.err
	}
	b, there := m.hosts[key]
	if !there {
		return hosts.Breaker{}, key.NotFound()
	}
	return b, nil
}

func (m *memory) SetHost(_ context.Context, _ auditlog.Actor, key hosts.Key, p hosts.Patch) (hosts.Breaker, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return hosts.Breaker{}, m.err
	}
	m.writes++
	b, there := m.hosts[key]
	if !there {
		b = hosts.New(key, now)
	}
	b.Settings = p.Apply(b.Settings)
	m.hosts[key] = b
	return b, nil
}

func (m *memory) CountEndpoints(context.Context, [16]byte, []string) (map[string]hosts.Traffic, error) {
	return map[string]hosts.Traffic{standingHost: {Endpoints: 3, Waiting: 2}}, m.err
}

func (m *memory) ResetHost(ctx context.Context, _ auditlog.Actor, key hosts.Key) (hosts.Breaker, error) {
	b, err := m.GetHost(ctx, key)
	if err != nil {
		return b, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	b.Reset(now)
	m.hosts[key] = b
	return b, nil
}
