// Package keys stores the identities and secrets of tenants: API keys, sessions of the console,
// sealed secrets, signing keys, quotas and idempotency keys. Keys are stored as hashes.
package keys

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"rubato/internal/auth"
	"rubato/internal/errs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// DefaultTenant is the tenant of keys that are created without a tenant.
var DefaultTenant = auth.DefaultTenant() //nolint:gochecknoglobals // Go has no array constants; a migration inserts this tenant.

// Keys stores API keys. It implements auth.Store.
type Keys struct {
	db *pg.DB
}

var _ auth.Store = (*Keys)(nil)

// NewKeys returns the store of API keys.
func NewKeys(db *pg.DB) *Keys { return &Keys{db: db} }

// FindKey implements auth.Store.
func (s *Keys) FindKey(ctx context.Context, hash [32]byte) (auth.Principal, error) {
	ctx, cancel := s.db.WithLimit(ctx)
	defer cancel()
	row, err := s.db.Q.KeyFind(ctx, s.db.Pool, hash[:])
	if pg.IsMissing(err) {
		return auth.Principal{}, errs.New(errs.NotFound, "not_found", "the key does not exist, has expired or was revoked")
	}
	if err != nil {
		return auth.Principal{}, fmt.Errorf("looking up an API key: %w", pg.Translate(err))
	}
	return auth.Principal{
		TenantID: row.TenantID,
		KeyID:    row.ID,
		Name:     row.Name,
		Scopes:   scopesOf(row.Scopes),
		Left:     time.Duration(row.LeftMs) * time.Millisecond,
	}, nil
}

// EnsureKey inserts a key of the default tenant if it is missing. It is idempotent. It restores
// neither a revoked key nor a rotated secret.
func (s *Keys) EnsureKey(ctx context.Context, p auth.Params) error {
	hash := auth.Hash(p.Key)
	err := s.db.Q.KeyEnsure(ctx, s.db.Pool, dbsqlc.KeyEnsureParams{
		ID:       uuid.Must(uuid.NewV7()),
		TenantID: DefaultTenant,
		Name:     p.Name,
		Prefix:   auth.Prefix(p.Key),
		Hash:     hash[:],
		Scopes:   texts(p.Scopes),
	})
	if err != nil {
		return fmt.Errorf("ensuring the API key %q: %w", p.Name, pg.Translate(err))
	}
	return nil
}
