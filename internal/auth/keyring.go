package auth

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
)

// KeyStore stores keys. Every method is one transaction, scoped by tenant: another tenant's key is
// [errs.NotFound]. Writes are recorded in the audit log.
type KeyStore interface {
	// CreateKey stores the key and the secret that create returns for the database's time and the
	// number of the tenant's keys in force. It holds the lock of the tenant's keys, so that
	// concurrent calls cannot exceed a limit.
	CreateKey(ctx context.Context, act auditlog.Act, create func(now time.Time, inForce int) (Key, Secret, error)) error
	// GetKey returns a key, in force or not, and the database's time.
	GetKey(ctx context.Context, tenant [16]byte, id KeyID) (Key, time.Time, error)
	// ListKeys returns the keys that a filter selects, by descending ID, and the database's time.
	ListKeys(ctx context.Context, f KeyFilter) ([]Key, time.Time, error)
	// ChangeKey calls change with a key under the lock of the tenant's keys. It stores the
	// revocation and a new secret that change has set. If changed is false, neither the key nor the
	// audit log is written.
	ChangeKey(ctx context.Context, act auditlog.Act, id KeyID, change func(s *LockedKey) (changed bool, err error)) (Key, error)
}

// KeyFilter selects keys of one tenant. Zero fields do not filter.
type KeyFilter struct {
	TenantID [16]byte
	State    KeyState
	Before   KeyID // only keys with a lower ID: the cursor of a list
	Limit    int   // maximum number of results; must be positive
}

// LockedKey is a key in a change, with the facts that the change depends on.
type LockedKey struct {
	Key

	Now         time.Time // the database's
	OtherAdmins int       // the tenant's other keys in force that may administer keys
	Secret      *Secret   // to be set to a fresh one; nil: the secret stays
}

// Redacted returns the key as the audit log stores it, with the end of the previous secret's
// validity after a rotation.
func (s *LockedKey) Redacted() map[string]any {
	doc := s.Key.Redacted()
	if s.Secret != nil {
		doc["previousSecretUntil"] = instant(s.Now.Add(s.Secret.Overlap))
	}
	return doc
}

// Keyring manages API keys. It is safe for concurrent use.
type Keyring struct {
	store  KeyStore
	forget func(KeyID)
	limit  int
}

// NewKeyring returns a keyring over a store, in which each tenant may have limit keys in force. An
// authenticator of the same process feels its changes at once, because its cache entry is dropped.
func NewKeyring(store KeyStore, a *Authenticator, limit int) *Keyring {
	return &Keyring{
		store:  store,
		forget: a.Forget,
		limit:  limit,
	}
}

// Create makes a key and returns it with its secret, which cannot be read again. One key more than
// the limit is an [errs.Conflict].
func (k *Keyring) Create(ctx context.Context, by auditlog.Actor, r KeyRequest) (made Key, secret string, err error) {
	secret = NewKey()
	err = k.store.CreateKey(ctx, auditlog.Act{By: by, Action: auditlog.Create}, func(now time.Time, inForce int) (Key, Secret, error) {
		if err := r.Check(now); err != nil {
			return Key{}, Secret{}, err
		}
		if inForce >= k.limit {
			return Key{}, Secret{}, errs.New(errs.Conflict, "too_many_keys", fmt.Sprintf(
				"the tenant has %d keys in force, and may have %d; revoke one first, or let the operator raise RUBATO_KEYS_PER_TENANT", inForce, k.limit))
		}
		made = Key{
			ID:        KeyID(uuid.Must(uuid.NewV7())),
			TenantID:  by.TenantID,
			Name:      r.Name,
			Prefix:    Prefix(secret),
			Scopes:    r.Scopes,
			CreatedAt: now,
			ExpiresAt: r.ExpiresAt.UTC().Truncate(time.Millisecond),
		}
		if r.ExpiresAt.IsZero() {
			made.ExpiresAt = time.Time{}
		}
		return made, Secret{Hash: Hash(secret), Prefix: made.Prefix}, nil
	})
	if err != nil {
		return Key{}, "", err
	}
	return made, secret, nil
}

// Get returns a key, in force or not, and the database's time.
func (k *Keyring) Get(ctx context.Context, by auditlog.Actor, id KeyID) (Key, time.Time, error) {
	return k.store.GetKey(ctx, by.TenantID, id)
}

// List returns the keys that a filter selects, by descending ID, and the database's time.
func (k *Keyring) List(ctx context.Context, f KeyFilter) ([]Key, time.Time, error) {
	return k.store.ListKeys(ctx, f)
}

// Revoke ends a key: at once in this process, within 5 s in others. Revoking twice is no error. The
// last key that may administer keys cannot be revoked, because no key could create another one:
// that is an [errs.Conflict].
func (k *Keyring) Revoke(ctx context.Context, by auditlog.Actor, id KeyID) error {
	_, err := k.store.ChangeKey(ctx, auditlog.Act{By: by, Action: auditlog.Revoke}, id, func(s *LockedKey) (bool, error) {
		state := s.StateAt(s.Now)
		if state == KeyRevoked {
			return false, nil
		}
		if state == KeyActive && s.OtherAdmins == 0 && (Principal{Scopes: s.Scopes}).May(Admin) {
			return false, errs.New(errs.Conflict, "last_admin_key", "this is the last key in force with the scope admin; make another one first, or rotate this one")
		}
		s.RevokedAt = s.Now
		return true, nil
	})
	if err == nil {
		k.forget(id)
	}
	return err
}

// Rotate gives a key a new secret, which it returns; it cannot be read again. The secret before it
// stays good for the overlap, 0 to 24 h; those before that no longer. A key that is not in force is
// an [errs.Conflict].
func (k *Keyring) Rotate(ctx context.Context, by auditlog.Actor, id KeyID, overlap time.Duration) (rotated Key, secret string, err error) {
	if err := CheckOverlap(overlap); err != nil {
		return Key{}, "", err
	}
	secret = NewKey()
	rotated, err = k.store.ChangeKey(ctx, auditlog.Act{By: by, Action: auditlog.Rotate}, id, func(s *LockedKey) (bool, error) {
		if state := s.StateAt(s.Now); state != KeyActive {
			return false, errs.New(errs.Conflict, "key_not_in_force", "the key is "+string(state)+" and stays so; make a new one")
		}
		s.Prefix = Prefix(secret)
		s.Secret = &Secret{
			Hash:    Hash(secret),
			Prefix:  s.Prefix,
			Overlap: overlap,
		}
		return true, nil
	})
	if err != nil {
		return Key{}, "", err
	}
	k.forget(id)
	return rotated, secret, nil
}
