package signing

import (
	"context"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
	"rubato/internal/secrets"
)

// Store keeps sealed signing keys. Every method is one transaction, scoped by tenant: another
// tenant's key is [errs.NotFound]. Writes are recorded in the audit log. A run uses the new keys if
// its start commits after the write has returned.
type Store interface {
	// CreateSigningKey stores the key that create returns for the database's time and the live
	// keys.
	CreateSigningKey(ctx context.Context, by auditlog.Actor, create func(now time.Time, live []Key) (Write, error)) error
	// ListSigningKeys returns the live keys of a tenant, newest first.
	ListSigningKeys(ctx context.Context, tenant [16]byte) ([]Key, error)
	// DeleteSigningKey removes a key.
	DeleteSigningKey(ctx context.Context, by auditlog.Actor, id KeyID) error
}

// Write is a sealed key for the store.
type Write struct {
	Key    Key
	Sealed secrets.Sealed
	// OverlapUntil is the end of the older keys; zero: they keep their own.
	OverlapUntil time.Time
}

// Ends reports whether the write shortens the life of an older key.
func (w Write) Ends(older Key) bool {
	return !w.OverlapUntil.IsZero() && (older.ExpiresAt.IsZero() || w.OverlapUntil.Before(older.ExpiresAt))
}

// Service implements the operations on signing keys. It is safe for concurrent use.
type Service struct {
	store   Store
	keyring *secrets.Keyring
}

// NewService returns a service over a store. It seals keys with the keyring.
func NewService(store Store, keyring *secrets.Keyring) *Service {
	return &Service{store: store, keyring: keyring}
}

// Create makes a signing key and returns it; it cannot be read again. From then on requests carry a
// signature under it and under the one before it. A third live key is an [errs.Conflict]. Without
// encryption keys the error is an [errs.Unavailable].
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
		made = Key{
			ID:        NewKeyID(),
			TenantID:  by.TenantID,
			CreatedAt: now,
			CreatedBy: by.Name,
		}
		if !r.ExpiresAt.IsZero() {
			made.ExpiresAt = r.ExpiresAt.UTC().Truncate(time.Millisecond)
		}
		sealed, err := s.keyring.Seal(made.Identity(), text.Reveal())
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

// List returns the live signing keys, newest first.
func (s *Service) List(ctx context.Context, by auditlog.Actor) ([]Key, error) {
	return s.store.ListSigningKeys(ctx, by.TenantID)
}

// Delete removes a signing key. Runs that start after Delete has returned are not signed under it.
func (s *Service) Delete(ctx context.Context, by auditlog.Actor, id KeyID) error {
	return s.store.DeleteSigningKey(ctx, by, id)
}
