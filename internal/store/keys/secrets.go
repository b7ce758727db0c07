package keys

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/secrets"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// maxReferrers bounds the endpoints and notice rules that a refused deletion of a secret lists.
const maxReferrers = 5

// Secrets stores sealed secrets and signing keys. It implements secrets.Store, secrets.Source,
// secrets.Sampler, secrets.Resealer and signing.Store.
type Secrets struct {
	db *pg.DB
}

var _ secrets.Store = (*Secrets)(nil)

// NewSecrets returns the store of secrets and signing keys.
func NewSecrets(db *pg.DB) *Secrets { return &Secrets{db: db} }

// change runs one change of a tenant's secrets or signing keys, exclusive among such changes. After
// it returns, every run that starts with secrets uses the new version: it waits for starts in
// flight, and later starts read the new version.
func (s *Secrets) change(ctx context.Context, tenant [16]byte, act func(tx pgx.Tx) error) error {
	return s.db.Tx(ctx, func(tx pgx.Tx) error {
		if _, err := s.db.Q.SecretsChange(ctx, tx, tenant); err != nil {
			return fmt.Errorf("raising the secret version of a tenant: %w", err)
		}
		if err := act(tx); err != nil {
			return err
		}
		return s.db.Q.SecretsAdvisoryLock(ctx, tx, tenant) // Last, because it blocks starts with secrets.
	})
}

// PutSecret implements secrets.Store.
func (s *Secrets) PutSecret(ctx context.Context, by auditlog.Actor, w secrets.Write) (stored secrets.Secret, created bool, err error) {
	err = s.change(ctx, by.TenantID, func(tx pgx.Tx) error {
		before, err := s.get(ctx, tx, by.TenantID, w.Name)
		if created = errs.CodeOf(err) == errs.NotFound; err != nil && !created {
			return err
		}
		if created {
			if err := s.room(ctx, tx, by.TenantID); err != nil {
				return err
			}
		}
		if err := s.put(ctx, tx, by, w); err != nil {
			return err
		}
		if stored, err = s.get(ctx, tx, by.TenantID, w.Name); err != nil {
			return err
		}
		c := auditlog.Change{
			Act:    auditlog.Act{By: by, Action: auditlog.Create},
			Object: stored.Object(),
			After:  stored.Redacted(),
		}
		if !created {
			c.Action, c.Before = auditlog.Rotate, before.Redacted()
		}
		return s.db.Audited(ctx, tx, c)
	})
	return stored, created, err
}

// room returns an error if the tenant has reached its maximum of secrets.
func (s *Secrets) room(ctx context.Context, tx pgx.Tx, tenant [16]byte) error {
	count, err := s.db.Q.SecretCount(ctx, tx, tenant)
	if err != nil {
		return fmt.Errorf("counting the secrets of a tenant: %w", err)
	}
	if count >= secrets.MaxPerTenant {
		return errs.New(errs.Conflict, "too_many_secrets", fmt.Sprintf("there are %d secrets already, which is the most; delete one first", count))
	}
	return nil
}

func (s *Secrets) put(ctx context.Context, tx pgx.Tx, by auditlog.Actor, w secrets.Write) error {
	now, err := s.db.DecisionTime(ctx, tx)
	if err != nil {
		return fmt.Errorf("reading the database's time: %w", err)
	}
	err = s.db.Q.SecretPut(ctx, tx, dbsqlc.SecretPutParams{
		TenantID:    by.TenantID,
		Name:        w.Name,
		Description: w.Description,
		SealedUnder: w.Sealed.KeyID,
		Sealed:      w.Sealed.Data,
		Now:         now,
		Author:      pg.Storable(by.Name),
	})
	if err != nil {
		return fmt.Errorf("storing the secret %q: %w", w.Name, err)
	}
	return nil
}

// GetSecret implements secrets.Store.
func (s *Secrets) GetSecret(ctx context.Context, tenant [16]byte, name string) (secrets.Secret, error) {
	found, err := s.get(ctx, s.db.Pool, tenant, name)
	return found, pg.Translate(err)
}

func (s *Secrets) get(ctx context.Context, tx dbsqlc.DBTX, tenant [16]byte, name string) (secrets.Secret, error) {
	if !secrets.ValidName(name) {
		return secrets.Secret{}, noSecret(name)
	}
	row, err := s.db.Q.SecretGet(ctx, tx, dbsqlc.SecretGetParams{TenantID: tenant, Name: name})
	if pg.IsMissing(err) {
		return secrets.Secret{}, noSecret(name)
	}
	if err != nil {
		return secrets.Secret{}, fmt.Errorf("reading the secret %q: %w", name, err)
	}
	return secretOf(row), nil
}

func noSecret(name string) error { return pg.NothingNamed("secret", name, "stripe-api-key") }

// ListSecrets implements secrets.Store.
func (s *Secrets) ListSecrets(ctx context.Context, f secrets.Filter) ([]secrets.Secret, error) {
	rows, err := s.db.Q.SecretList(ctx, s.db.Pool, dbsqlc.SecretListParams{
		TenantID: f.TenantID,
		After:    f.After,
		MaxRows:  int32(f.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("listing secrets: %w", pg.Translate(err))
	}
	list := make([]secrets.Secret, 0, len(rows))
	for _, row := range rows {
		list = append(list, secretOf((*dbsqlc.SecretGetRow)(row)))
	}
	return list, nil
}

func secretOf(row *dbsqlc.SecretGetRow) secrets.Secret {
	return secrets.Secret{
		TenantID:    row.TenantID,
		Name:        row.Name,
		Description: row.Description,
		Version:     row.Version,
		KeyID:       row.SealedUnder,
		CreatedAt:   row.CreatedAt,
		CreatedBy:   row.CreatedBy,
		UpdatedAt:   row.UpdatedAt,
		UpdatedBy:   row.UpdatedBy,
		LastUsedAt:  pg.OrZero(row.LastUsedAt),
		LastUsedBy:  pg.OrZero(row.LastUsedBy),
		Endpoints:   int(row.Endpoints),
		Rules:       int(row.Rules),
	}
}

// DeleteSecret implements secrets.Store. A concurrent store of a reference to the secret is either
// counted, because it committed before, or fails, because the secret is gone.
func (s *Secrets) DeleteSecret(ctx context.Context, by auditlog.Actor, name string, allow func(secrets.Uses) error) error {
	if !secrets.ValidName(name) {
		return noSecret(name)
	}
	return s.change(ctx, by.TenantID, func(tx pgx.Tx) error {
		// Before the row lock: an edit that waits for that row can block a finish, and a finish can
		// block a start in flight.
		if err := s.db.Q.SecretsAdvisoryLock(ctx, tx, by.TenantID); err != nil {
			return err
		}
		_, err := s.db.Q.SecretLock(ctx, tx, dbsqlc.SecretLockParams{TenantID: by.TenantID, Name: name})
		if pg.IsMissing(err) {
			return noSecret(name)
		}
		if err != nil {
			return fmt.Errorf("locking the secret %q: %w", name, err)
		}
		found, err := s.get(ctx, tx, by.TenantID, name)
		if err != nil {
			return err
		}
		uses, err := s.uses(ctx, tx, found)
		if err != nil {
			return err
		}
		if err := allow(uses); err != nil {
			return err
		}
		if _, err := s.db.Q.SecretDelete(ctx, tx, dbsqlc.SecretDeleteParams{TenantID: by.TenantID, Name: name}); err != nil {
			return fmt.Errorf("deleting the secret %q: %w", name, err)
		}
		return s.db.Audited(ctx, tx, auditlog.Change{
			Act:    auditlog.Act{By: by, Action: auditlog.Delete},
			Object: found.Object(),
			Before: found.Redacted(),
		})
	})
}

// uses returns the number of references to a secret by kind, and some of them.
func (s *Secrets) uses(ctx context.Context, tx pgx.Tx, of secrets.Secret) (secrets.Uses, error) {
	u := secrets.Uses{Endpoints: of.Endpoints}
	rows, err := s.db.Q.SecretReferrers(ctx, tx, dbsqlc.SecretReferrersParams{
		TenantID: of.TenantID,
		Name:     of.Name,
		MaxRows:  maxReferrers,
	})
	if err != nil {
		return u, fmt.Errorf("listing endpoints with the secret %q: %w", of.Name, err)
	}
	for _, row := range rows {
		u.Some = append(u.Some, fmt.Sprintf("%q (%s)", row.Name, endpoints.ID(row.ID)))
	}
	rules, err := s.db.Q.NoticeRuleListBySecret(ctx, tx, dbsqlc.NoticeRuleListBySecretParams{TenantID: of.TenantID, Secret: of.Name})
	if err != nil {
		return u, fmt.Errorf("listing notice rules with the secret %q: %w", of.Name, err)
	}
	u.Rules = len(rules)
	if u.Notices, err = s.db.Q.NoticeCountBySecret(ctx, tx, dbsqlc.NoticeCountBySecretParams{TenantID: of.TenantID, Secret: of.Name}); err != nil {
		return u, fmt.Errorf("counting queued notices with the secret %q: %w", of.Name, err)
	}
	if u.Notices > 0 {
		u.Some = append(u.Some, "what rubato notices list --state waiting shows")
	}
	for _, name := range rules[:min(len(rules), maxReferrers)] {
		u.Some = append(u.Some, fmt.Sprintf("the notice rule %q", name))
	}
	return u, nil
}
