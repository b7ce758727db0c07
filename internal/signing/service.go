package signing

import (
	"context"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
	"rubato/internal/secrets"
)

// Store keeps signing keys, sealed. Every method is one transaction, scoped by tenant: another tenant's key is [errs.NotFound]. Writes
// are told of in the audit log. A run whose start is committed after a write has returned goes by what was written.
type Store interface {
	// CreateSigningKey stores the key that create returns for the database's time and the keys that are live then.
	CreateSigningKey(ctx context.Context, by auditlog.Actor, create func(now time.Time, live []Key) (Write, error)) error
	// ListSigningKeys returns the live keys of a tenant, the newest first.
	ListSigningKeys(ctx context.Context, tenant [16]byte) ([]Key, error)
	// DeleteSigningKey removes a key.
	DeleteSigningKey(ctx context.Context, by auditlog.Actor, id KeyID) error
}

// Write is a sealed key on its way to the store.
type Write struct {
	Key          Key
	Sealed       secrets.Sealed
	OverlapUntil time.Time // when the older keys end; zero: when they would have
}

// Ends reports whether the write lets an older key end earlier than it would.
func (w Write) Ends(older Key) bool {
	return !w.OverlapUntil.IsZero() && (older.ExpiresAt.IsZero() || w.OverlapUntil.Before(older.ExpiresAt))
}

// Service is what may be done to signing keys. It is safe for concurrent use.
type Service struct {
	store   Store
	keyring *secrets.Keyring
}

// NewService returns a service over a store, which seals with a keyring.
func NewService(store Store, keyring *secrets.Keyring) *Service {
	return &Service{store: store, keyring: keyring}
}

// Create makes a signing key, which it returns; nobody can read it again. From now on requests are signed under it and under the one
// before it. A third key is an [errs.Conflict]. A server without secret keys answers an [errs.Unavailable].
func (s *Service) Create(ctx context.Context, by auditlog.Actor, r Request) (made Key, text secrets.Text, err error) {
	text = NewText()
	err = s.store.CreateSigningKey(ctx, by, func(now time.Time, live []Key) (Write, error) {
		if err := r.Check(now); err != nil {
			return Write{}, err
		}
		if len(live) >= MaxLive && (r.Overlap == nil || *r.Overlap > 0) {
			return Write{}, errs.New(errs.Conflict, "too_many_signing_keys",
				"two signing keys are live already; delete the one that no receiver knows any more, or give an overlapMs of 0 to end both")
		}
		made = Key{ID: NewKeyID(), TenantID: by.TenantID, CreatedAt: now, CreatedBy: by.Name}
		if !r.ExpiresAt.IsZero() {
			made.ExpiresAt = r.ExpiresAt.UTC().Truncate(time.Millisecond)
		}
		sealed, err := s.keyring.Seal(made.Place(), text.Reveal())
		if err != nil {
			return Write{}, secrets.Unsealed(err)
		}
		w := Write{Key: made, Sealed: sealed}
		if r.Overlap != nil {
			w.OverlapUntil = now.Add(*r.Overlap)
		}
		return w, nil
	})
	return made, text, err
}

// List returns the live signing keys, the newest first.
func (s *Service) List(ctx context.Context, by auditlog.Actor) ([]Key, error) {
	return s.store.ListSigningKeys(ctx, by.TenantID)
}

// Delete removes a signing key. Nothing that starts after it has returned is signed under it.
func (s *Service) Delete(ctx context.Context, by auditlog.Actor, id KeyID) error {
	return s.store.DeleteSigningKey(ctx, by, id)
}
