package keys

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"rubato/internal/deadletters"
	"rubato/internal/secrets"
	"rubato/internal/signing"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// resealBatch is the number of values sealed again per transaction.
const resealBatch = 100

var (
	_ secrets.Source   = (*Secrets)(nil)
	_ secrets.Sampler  = (*Secrets)(nil)
	_ secrets.Resealer = (*Secrets)(nil)
)

// SealedSecrets implements secrets.Source.
func (s *Secrets) SealedSecrets(ctx context.Context, tenant [16]byte) (c secrets.Contents, err error) {
	err = s.db.Snapshot(ctx, func(tx pgx.Tx) error {
		if c.Version, err = s.db.Q.SecretsVersion(ctx, tx, tenant); err != nil {
			return fmt.Errorf("reading the version of a tenant's secrets: %w", err)
		}
		rows, err := s.db.Q.SecretsSealed(ctx, tx, tenant)
		if err != nil {
			return fmt.Errorf("reading a tenant's secrets: %w", err)
		}
		for _, row := range rows {
			identity := secrets.Identity{
				Tenant: tenant,
				Kind:   secrets.Named,
				Name:   row.Name,
			}
			c.Secrets = append(c.Secrets, secrets.StoredValue{Identity: identity, Sealed: secrets.Sealed{KeyID: row.SealedUnder, Data: row.Sealed}})
		}
		keys, err := s.db.Q.SigningKeyList(ctx, tx, dbsqlc.SigningKeyListParams{TenantID: tenant, Now: s.db.Now()})
		if err != nil {
			return fmt.Errorf("reading a tenant's signing keys: %w", err)
		}
		for _, row := range keys {
			c.SigningKeys = append(c.SigningKeys, secrets.StoredValue{
				Identity:  signingKeyOf(row).Identity(),
				Sealed:    secrets.Sealed{KeyID: row.SealedUnder, Data: row.Sealed},
				ExpiresAt: pg.OrZero(row.ExpiresAt),
			})
		}
		return nil
	})
	return c, err
}

// StampSecrets implements secrets.Source.
func (s *Secrets) StampSecrets(ctx context.Context, uses []secrets.Use) error {
	p := dbsqlc.SecretRecordUseParams{Now: s.db.Now()}
	for _, u := range uses {
		p.TenantIds = append(p.TenantIds, u.Tenant)
		p.Names = append(p.Names, u.Name)
		p.EndpointIds = append(p.EndpointIds, u.Endpoint)
	}
	if err := s.db.Q.SecretRecordUse(ctx, s.db.Pool, p); err != nil {
		return fmt.Errorf("noting the use of %d secrets: %w", len(uses), pg.Translate(err))
	}
	return nil
}

// SampleSecrets implements secrets.Sampler.
func (s *Secrets) SampleSecrets(ctx context.Context) ([]secrets.StoredValue, error) {
	named, err := s.db.Q.SecretsSample(ctx, s.db.Pool)
	if err != nil {
		return nil, pg.Translate(err)
	}
	var samples []secrets.StoredValue
	for _, row := range named {
		identity := secrets.Identity{
			Tenant: row.TenantID,
			Kind:   secrets.Named,
			Name:   row.Name,
		}
		samples = append(samples, secrets.StoredValue{Identity: identity, Sealed: secrets.Sealed{KeyID: row.SealedUnder, Data: row.Sealed}})
	}
	keys, err := s.db.Q.SigningKeysSample(ctx, s.db.Pool)
	if err != nil {
		return nil, pg.Translate(err)
	}
	for _, row := range keys {
		identity := signing.Key{ID: row.ID, TenantID: row.TenantID}.Identity()
		samples = append(samples, secrets.StoredValue{Identity: identity, Sealed: secrets.Sealed{KeyID: row.SealedUnder, Data: row.Sealed}})
	}
	return samples, nil
}

// Reseal implements secrets.Resealer: secrets first, then signing keys, in the order of their keys.
func (s *Secrets) Reseal(
	ctx context.Context, pass *secrets.RekeyProgress, newest string, reseal func(secrets.StoredValue) (secrets.Sealed, error),
) (more bool, err error) {
	err = s.db.Tx(ctx, func(tx pgx.Tx) error {
		rows, err := s.db.Q.SecretsStale(ctx, tx, dbsqlc.SecretsStaleParams{
			Newest:      newest,
			AfterTenant: pass.AfterTenant,
			AfterName:   pass.AfterName,
			MaxRows:     resealBatch,
		})
		if err != nil {
			return fmt.Errorf("reading secrets under other keys: %w", err)
		}
		if more = len(rows) > 0; !more {
			more, err = s.resealSigning(ctx, tx, pass, newest, reseal)
			return err
		}
		for _, row := range rows {
			pass.AfterTenant, pass.AfterName = row.TenantID, row.Name
			identity := secrets.Identity{
				Tenant: row.TenantID,
				Kind:   secrets.Named,
				Name:   row.Name,
			}
			sealed, err := reseal(secrets.StoredValue{Identity: identity, Sealed: secrets.Sealed{KeyID: row.SealedUnder, Data: row.Sealed}})
			if err != nil { // The pass reports it.
				continue
			}
			_, err = s.db.Q.SecretReseal(ctx, tx, dbsqlc.SecretResealParams{
				TenantID:    row.TenantID,
				Name:        row.Name,
				SealedUnder: sealed.KeyID,
				Sealed:      sealed.Data,
			})
			if err != nil {
				return fmt.Errorf("storing the secret %q under another key: %w", row.Name, err)
			}
			pass.Done++
		}
		return nil
	})
	return more, err
}

func (s *Secrets) resealSigning(
	ctx context.Context, tx pgx.Tx, pass *secrets.RekeyProgress, newest string, reseal func(secrets.StoredValue) (secrets.Sealed, error),
) (more bool, err error) {
	rows, err := s.db.Q.SigningKeysStale(ctx, tx, dbsqlc.SigningKeysStaleParams{
		Newest:  newest,
		After:   pass.AfterSigning,
		MaxRows: resealBatch,
	})
	if err != nil {
		return false, fmt.Errorf("reading signing keys under other keys: %w", err)
	}
	for _, row := range rows {
		pass.AfterSigning = row.ID
		identity := signing.Key{ID: row.ID, TenantID: row.TenantID}.Identity()
		sealed, err := reseal(secrets.StoredValue{Identity: identity, Sealed: secrets.Sealed{KeyID: row.SealedUnder, Data: row.Sealed}})
		if err != nil { // The pass reports it.
			continue
		}
		_, err = s.db.Q.SigningKeyReseal(ctx, tx, dbsqlc.SigningKeyResealParams{
			ID:          row.ID,
			SealedUnder: sealed.KeyID,
			Sealed:      sealed.Data,
		})
		if err != nil {
			return false, fmt.Errorf("storing a signing key under another key: %w", err)
		}
		pass.Done++
	}
	if len(rows) > 0 {
		return true, nil
	}
	return s.resealLetters(ctx, tx, pass, newest, reseal)
}

// resealLetters is Reseal for the requests of dead letters.
func (s *Secrets) resealLetters(
	ctx context.Context, tx pgx.Tx, pass *secrets.RekeyProgress, newest string, reseal func(secrets.StoredValue) (secrets.Sealed, error),
) (more bool, err error) {
	rows, err := s.db.Q.DeadLettersStale(ctx, tx, dbsqlc.DeadLettersStaleParams{
		Newest:  newest,
		After:   pass.AfterLetter,
		MaxRows: resealBatch,
	})
	if err != nil {
		return false, fmt.Errorf("reading dead letters under other keys: %w", err)
	}
	for _, row := range rows {
		pass.AfterLetter = row.ID
		identity := deadletters.Identity(row.TenantID, deadletters.ID(row.ID))
		sealed, err := reseal(secrets.StoredValue{Identity: identity, Sealed: secrets.Sealed{KeyID: row.SealedUnder, Data: row.Request}})
		if err != nil { // The pass reports it.
			continue
		}
		err = s.db.Q.DeadLetterReseal(ctx, tx, dbsqlc.DeadLetterResealParams{
			ID:          row.ID,
			SealedUnder: sealed.KeyID,
			Request:     sealed.Data,
		})
		if err != nil {
			return false, fmt.Errorf("storing a dead letter under another key: %w", err)
		}
		pass.Done++
	}
	return len(rows) > 0, nil
}
