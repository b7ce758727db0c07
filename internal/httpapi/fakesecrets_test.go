package httpapi_test

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/auth"
	"rubato/internal/errs"
	"rubato/internal/secrets"
	"rubato/internal/signing"
)

// standingSigningKey is the id of a signing key that every memory has.
const standingSigningKey = "sgk_0193466f-2a10-7c3e-9d41-5a2f6c7d8e91"

var (
	_ secrets.Store = (*memory)(nil)
	_ signing.Store = (*memory)(nil)
)

// testKeyring seals with a fixed key.
func testKeyring() *secrets.Keyring {
	ring, err := secrets.NewKeyring([]secrets.Key{{ID: "k1", Bytes: secrets.NewText(strings.Repeat("0123456789abcdef", 2))}})
	if err != nil {
		panic(err)
	}
	return ring
}

// standingSecrets are the secrets that every memory has.
func standingSecrets() map[string]secrets.Secret {
	return map[string]secrets.Secret{"any": {TenantID: auth.DefaultTenant(), Name: "any", Version: 1, KeyID: "k1", CreatedAt: now, UpdatedAt: now}}
}

func (m *memory) PutSecret(_ context.Context, by auditlog.Actor, w secrets.Write) (secrets.Secret, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return secrets.Secret{}, false, m.err
	}
	m.writes++
	m.sealed = append(m.sealed, w.Sealed)
	before, there := m.secrets[w.Name]
	stored := secrets.Secret{
		TenantID: by.TenantID, Name: w.Name, Version: before.Version + 1, KeyID: w.Sealed.KeyID, Description: before.Description,
		CreatedAt: now, UpdatedAt: now, CreatedBy: by.Name, UpdatedBy: by.Name,
	}
	if w.Description != nil {
		stored.Description = *w.Description
	}
	m.secrets[w.Name] = stored
	return stored, !there, nil
}

func (m *memory) GetSecret(_ context.Context, tenant [16]byte, name string) (secrets.Secret, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return secrets.Secret{}, m.err
	}
	found, there := m.secrets[name]
	if !there || found.TenantID != tenant {
		return secrets.Secret{}, errs.New(errs.NotFound, "", "there is no such secret")
	}
	return found, nil
}

func (m *memory) ListSecrets(_ context.Context, f secrets.Filter) ([]secrets.Secret, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, m.err
	}
	list := slices.Collect(maps.Values(m.secrets))
	list = slices.DeleteFunc(list, func(s secrets.Secret) bool { return s.TenantID != f.TenantID || s.Name <= f.After })
	slices.SortFunc(list, func(a, b secrets.Secret) int { return cmp.Compare(a.Name, b.Name) })
	return list[:min(f.Limit, len(list))], nil
}

func (m *memory) DeleteSecret(ctx context.Context, by auditlog.Actor, name string, allow func(secrets.Uses) error) error {
	found, err := m.GetSecret(ctx, by.TenantID, name)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := allow(secrets.Uses{Endpoints: found.Endpoints, Rules: found.Rules, Some: []string{`"shop"`}}); err != nil {
		return err
	}
	m.writes++
	delete(m.secrets, name)
	return nil
}

func (m *memory) CreateSigningKey(_ context.Context, _ auditlog.Actor, create func(time.Time, []signing.Key) (signing.Write, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	w, err := create(now, slices.Collect(maps.Values(m.signing)))
	if err != nil {
		return err
	}
	m.writes++
	m.sealed = append(m.sealed, w.Sealed)
	m.signing[w.Key.ID] = w.Key
	return nil
}

func (m *memory) ListSigningKeys(context.Context, [16]byte) ([]signing.Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.signing)), m.err
}

func (m *memory) DeleteSigningKey(_ context.Context, by auditlog.Actor, id signing.KeyID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	if k, there := m.signing[id]; !there || k.TenantID != by.TenantID {
		return errs.New(errs.NotFound, "", "there is no such signing key")
	}
	m.writes++
	delete(m.signing, id)
	return nil
}

// standingSigningKeys are the signing keys that every memory has.
func standingSigningKeys() map[signing.KeyID]signing.Key {
	id, err := signing.ParseKeyID(standingSigningKey)
	if err != nil {
		panic(err)
	}
	return map[signing.KeyID]signing.Key{id: {ID: id, TenantID: auth.DefaultTenant(), CreatedAt: now, CreatedBy: "admin"}}
}
