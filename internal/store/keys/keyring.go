package keys

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/auth"
	"rubato/internal/errs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

var _ auth.KeyStore = (*Keys)(nil)

// CreateKey implements auth.KeyStore.
func (s *Keys) CreateKey(ctx context.Context, act auditlog.Act, create func(now time.Time, inForce int) (auth.Key, auth.Secret, error)) error {
	return s.db.Tx(ctx, func(tx pgx.Tx) error {
		if err := s.db.Q.KeysLock(ctx, tx, act.By.TenantID); err != nil {
			return fmt.Errorf("locking the keys of a tenant: %w", err)
		}
		now, err := s.db.DecisionTime(ctx, tx)
		if err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		inForce, err := s.db.Q.KeyCount(ctx, tx, dbsqlc.KeyCountParams{TenantID: act.By.TenantID, Now: now})
		if err != nil {
			return fmt.Errorf("counting the keys of a tenant: %w", err)
		}
		k, secret, err := create(now, int(inForce))
		if err != nil {
			return err
		}
		err = s.db.Q.KeyInsert(ctx, tx, dbsqlc.KeyInsertParams{
			ID:        k.ID,
			TenantID:  k.TenantID,
			Name:      k.Name,
			Prefix:    k.Prefix,
			Hash:      secret.Hash[:],
			Scopes:    texts(k.Scopes),
			CreatedAt: k.CreatedAt,
			ExpiresAt: pg.Optional(k.ExpiresAt),
		})
		if err != nil {
			return fmt.Errorf("inserting key %s: %w", k.ID, err)
		}
		return s.db.Audited(ctx, tx, auditlog.Change{
			Act:    act,
			Object: k.Object(),
			After:  k.Redacted(),
		})
	})
}

// GetKey implements auth.KeyStore.
func (s *Keys) GetKey(ctx context.Context, tenant [16]byte, id auth.KeyID) (k auth.Key, now time.Time, err error) {
	err = s.db.Snapshot(ctx, func(tx pgx.Tx) error {
		if k, err = s.get(ctx, tx, tenant, id); err != nil {
			return err
		}
		now, err = s.db.DecisionTime(ctx, tx)
		return err
	})
	return k, now, err
}

func (s *Keys) get(ctx context.Context, tx pgx.Tx, tenant [16]byte, id auth.KeyID) (auth.Key, error) {
	row, err := s.db.Q.KeyGet(ctx, tx, dbsqlc.KeyGetParams{ID: id, TenantID: tenant})
	if pg.IsMissing(err) {
		return auth.Key{}, errs.New(errs.NotFound, "not_found", fmt.Sprintf("there is no key %s", id))
	}
	if err != nil {
		return auth.Key{}, fmt.Errorf("reading key %s: %w", id, err)
	}
	return keyOf(row), nil
}

// ListKeys implements auth.KeyStore.
func (s *Keys) ListKeys(ctx context.Context, f auth.KeyFilter) (list []auth.Key, now time.Time, err error) {
	err = s.db.Snapshot(ctx, func(tx pgx.Tx) error {
		rows, err := s.db.Q.KeyList(ctx, tx, dbsqlc.KeyListParams{
			TenantID: f.TenantID,
			Before:   pg.Given(f.Before),
			State:    string(f.State),
			Now:      s.db.Now(),
			MaxRows:  int32(f.Limit),
		})
		if err != nil {
			return fmt.Errorf("listing keys: %w", err)
		}
		for _, row := range rows {
			list = append(list, keyOf((*dbsqlc.KeyGetRow)(row)))
		}
		now, err = s.db.DecisionTime(ctx, tx)
		return err
	})
	return list, now, err
}

// ChangeKey implements auth.KeyStore.
func (s *Keys) ChangeKey(
	ctx context.Context, act auditlog.Act, id auth.KeyID, change func(*auth.LockedKey) (bool, error),
) (left auth.Key, err error) {
	err = s.db.Tx(ctx, func(tx pgx.Tx) error {
		standing, err := s.standing(ctx, tx, act.By.TenantID, id)
		if err != nil {
			return err
		}
		before := standing.Redacted()
		changed, err := change(standing)
		left = standing.Key
		if err != nil || !changed {
			return err
		}
		if err := s.write(ctx, tx, standing); err != nil {
			return err
		}
		return s.db.Audited(ctx, tx, auditlog.Change{
			Act:    act,
			Object: left.Object(),
			Before: before,
			After:  standing.Redacted(),
		})
	})
	return left, err
}

// standing locks the keys of a tenant against concurrent changes and reads one of them.
func (s *Keys) standing(ctx context.Context, tx pgx.Tx, tenant [16]byte, id auth.KeyID) (*auth.LockedKey, error) {
	if err := s.db.Q.KeysLock(ctx, tx, tenant); err != nil {
		return nil, fmt.Errorf("locking the keys of a tenant: %w", err)
	}
	k, err := s.get(ctx, tx, tenant, id)
	if err != nil {
		return nil, err
	}
	now, err := s.db.DecisionTime(ctx, tx)
	if err != nil {
		return nil, fmt.Errorf("reading the database's time: %w", err)
	}
	admins, err := s.db.Q.KeyCountAdmins(ctx, tx, dbsqlc.KeyCountAdminsParams{
		TenantID: tenant,
		ID:       id,
		Now:      now,
	})
	if err != nil {
		return nil, fmt.Errorf("counting the admin keys of a tenant: %w", err)
	}
	return &auth.LockedKey{
		Key:         k,
		Now:         now,
		OtherAdmins: int(admins),
	}, nil
}

// write stores the change of a key: its revocation or its new secret.
func (s *Keys) write(ctx context.Context, tx pgx.Tx, k *auth.LockedKey) error {
	if !k.RevokedAt.IsZero() {
		rows, err := s.db.Q.KeyRevoke(ctx, tx, dbsqlc.KeyRevokeParams{
			ID:       k.ID,
			TenantID: k.TenantID,
			Now:      k.RevokedAt,
		})
		return oneKey(rows, err, "revoking", k.ID)
	}
	if k.Secret == nil {
		return nil
	}
	// The decision time is rounded up to a millisecond. Subtracting one ensures that an old secret
	// without an overlap is invalid when the call returns.
	until := k.Now.Add(k.Secret.Overlap - time.Millisecond)
	rows, err := s.db.Q.SecretRetire(ctx, tx, dbsqlc.SecretRetireParams{KeyID: k.ID, ValidUntil: until})
	if err := oneKey(rows, err, "retiring the secret of", k.ID); err != nil {
		return err
	}
	rows, err = s.db.Q.KeyRotate(ctx, tx, dbsqlc.KeyRotateParams{
		ID:       k.ID,
		TenantID: k.TenantID,
		Hash:     k.Secret.Hash[:],
		Prefix:   k.Secret.Prefix,
	})
	return oneKey(rows, err, "rotating", k.ID)
}

func oneKey(rows int64, err error, act string, id auth.KeyID) error {
	if err != nil {
		return fmt.Errorf("%s key %s: %w", act, id, err)
	}
	if rows != 1 {
		return fmt.Errorf("%s key %s changed %d rows instead of one", act, id, rows)
	}
	return nil
}

func keyOf(row *dbsqlc.KeyGetRow) auth.Key {
	return auth.Key{
		ID:         row.ID,
		TenantID:   row.TenantID,
		Name:       row.Name,
		Prefix:     row.Prefix,
		Scopes:     scopesOf(row.Scopes),
		CreatedAt:  row.CreatedAt,
		ExpiresAt:  pg.OrZero(row.ExpiresAt),
		LastUsedAt: pg.OrZero(row.LastUsedAt),
		RevokedAt:  pg.OrZero(row.RevokedAt),
	}
}

func scopesOf(texts []string) []auth.Scope {
	scopes := make([]auth.Scope, len(texts))
	for i, scope := range texts {
		scopes[i] = auth.Scope(scope)
	}
	return scopes
}

func texts(scopes []auth.Scope) []string {
	list := make([]string, len(scopes))
	for i, scope := range scopes {
		list[i] = string(scope)
	}
	return list
}
