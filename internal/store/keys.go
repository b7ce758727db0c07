package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"rubato/internal/auth"
	"rubato/internal/errs"
	"rubato/internal/store/dbsqlc"
)

// DefaultTenant is the tenant of every key that is made without naming one.
var DefaultTenant = [16]byte{15: 1} //nolint:gochecknoglobals // Go has no array constants; the migration that inserts it is the authority.

// Keys keeps API keys. It implements auth.Store.
type Keys struct {
	db *DB
}

var _ auth.Store = (*Keys)(nil)

// NewKeys returns the store of API keys.
func NewKeys(db *DB) *Keys { return &Keys{db: db} }

// FindKey implements auth.Store.
func (s *Keys) FindKey(ctx context.Context, hash [32]byte) (auth.Principal, error) {
	ctx, cancel := s.db.brief(ctx)
	defer cancel()
	row, err := s.db.q.KeyFind(ctx, s.db.pool, hash[:])
	if missing(err) {
		return auth.Principal{}, errs.New(errs.NotFound, "not_found", "no such key is in force")
	}
	if err != nil {
		return auth.Principal{}, fmt.Errorf("looking up an API key: %w", translate(err))
	}
	return auth.Principal{
		TenantID: row.TenantID, KeyID: row.ID, Name: row.Name, Scopes: scopesOf(row.Scopes), Left: time.Duration(row.LeftMs) * time.Millisecond,
	}, nil
}

// EnsureKey makes sure that the default tenant has a key. One that was revoked stays revoked, and a secret that
// was rotated away stays away.
func (s *Keys) EnsureKey(ctx context.Context, p auth.Params) error {
	hash := auth.Hash(p.Key)
	err := s.db.q.KeyEnsure(ctx, s.db.pool, dbsqlc.KeyEnsureParams{
		ID: uuid.Must(uuid.NewV7()), TenantID: DefaultTenant, Name: p.Name, Prefix: auth.Prefix(p.Key), Hash: hash[:], Scopes: texts(p.Scopes),
	})
	if err != nil {
		return fmt.Errorf("making sure of the API key %q: %w", p.Name, translate(err))
	}
	return nil
}
