package secrets

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
)

// Store keeps sealed secrets. Every method is one transaction, scoped by tenant: another tenant's
// secret is [errs.NotFound]. Writes are recorded in the audit log. A run uses the new value if its
// start commits after the write has returned.
type Store interface {
	// PutSecret stores a sealed value under a name, as its first or next version. More than
	// [MaxPerTenant] secrets are an [errs.Conflict].
	PutSecret(ctx context.Context, by auditlog.Actor, w Write) (stored Secret, created bool, err error)
	// GetSecret returns the metadata of a secret.
	GetSecret(ctx context.Context, tenant [16]byte, name string) (Secret, error)
	// ListSecrets returns the secrets that a filter selects, sorted by name.
	ListSecrets(ctx context.Context, f Filter) ([]Secret, error)
	// DeleteSecret removes a secret, unless allow refuses it because of its uses.
	DeleteSecret(ctx context.Context, by auditlog.Actor, name string, allow func(Uses) error) error
}

// Uses counts the references to a secret.
type Uses struct {
	// Endpoints counts the endpoints in service.
	Endpoints int
	// Rules counts the notice rules with a channel that refers to the secret.
	Rules int
	// Notices counts the queued notices that keep the destination of a changed or deleted rule.
	Notices int64
	// Some names some of each, for error messages.
	Some []string
}

// String describes the counts as the subject of a sentence, with its verb.
func (u Uses) String() string {
	var list []string
	for _, of := range []struct {
		count int64
		one   string
	}{{int64(u.Endpoints), "endpoint"}, {int64(u.Rules), "notice rule"}, {u.Notices, "last notice"}} {
		switch {
		case of.count == 1:
			list = append(list, "1 "+of.one)
		case of.count > 1:
			list = append(list, fmt.Sprintf("%d %ss", of.count, of.one))
		}
	}
	verb := " refer"
	if u.all() == 1 {
		verb = " refers"
	}
	return strings.Join(list, " and ") + verb
}

func (u Uses) all() int64 { return int64(u.Endpoints) + int64(u.Rules) + u.Notices }

// Write is a sealed value for the store.
type Write struct {
	Name string
	// Description is nil to keep the current one.
	Description *string
	Sealed      Sealed
}

// Service implements the operations on secrets. It is safe for concurrent use.
type Service struct {
	store   Store
	keyring *Keyring
}

// NewService returns a service over a store. It seals values with the keyring.
func NewService(store Store, keyring *Keyring) *Service {
	return &Service{store: store, keyring: keyring}
}

// Put stores a new value of a secret. Without encryption keys the error is an [errs.Unavailable].
func (s *Service) Put(ctx context.Context, by auditlog.Actor, r Request) (stored Secret, created bool, err error) {
	if err := r.Check(); err != nil {
		return Secret{}, false, err
	}
	sealed, err := s.keyring.Seal(Identity{
		Tenant: by.TenantID,
		Kind:   Named,
		Name:   r.Name,
	}, r.Value.Reveal())
	if err != nil {
		return Secret{}, false, Unsealed(err)
	}
	return s.store.PutSecret(ctx, by, Write{
		Name:        r.Name,
		Description: r.Description,
		Sealed:      sealed,
	})
}

// Unsealed converts an error of sealing into one for users.
func Unsealed(err error) error {
	if !errors.Is(err, ErrNoKeys) {
		return fmt.Errorf("sealing a secret: %w", err)
	}
	return errs.New(errs.Unavailable, "no_secret_keys",
		"this server cannot keep secrets: its operator must set RUBATO_SECRET_KEYS, such as k1:<base64 of 32 random bytes>, for API servers and workers alike")
}

// Get returns the metadata of a secret.
func (s *Service) Get(ctx context.Context, by auditlog.Actor, name string) (Secret, error) {
	return s.store.GetSecret(ctx, by.TenantID, name)
}

// List returns the metadata of secrets, sorted by name.
func (s *Service) List(ctx context.Context, f Filter) ([]Secret, error) {
	return s.store.ListSecrets(ctx, f)
}

// Delete removes a secret. If endpoints, notice rules or queued notices refer to it, the error is
// an [errs.Conflict] that names some of them. With force it is removed anyway, and their runs and
// notices fail until the secret exists again.
func (s *Service) Delete(ctx context.Context, by auditlog.Actor, name string, force bool) error {
	return s.store.DeleteSecret(ctx, by, name, func(u Uses) error {
		if force || u.all() == 0 {
			return nil
		}
		what := "the runs"
		switch {
		case u.Endpoints == 0:
			what = "the notices"
		case u.Rules > 0 || u.Notices > 0:
			what = "the runs and notices"
		}
		return errs.New(errs.Conflict, "secret_in_use", fmt.Sprintf(
			"%s to the secret, such as %s; change what refers to it first, or delete it with force=true, or rubato secrets delete --force, and let %s fail",
			u, strings.Join(u.Some, ", "), what))
	})
}
