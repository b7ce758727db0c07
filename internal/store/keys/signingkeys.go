package keys

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
	"rubato/internal/signing"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

var _ signing.Store = (*Secrets)(nil)

// CreateSigningKey implements signing.Store.
func (s *Secrets) CreateSigningKey(ctx context.Context, by auditlog.Actor, create func(time.Time, []signing.Key) (signing.Write, error)) error {
	return s.change(ctx, by.TenantID, func(tx pgx.Tx) error {
		now, err := s.db.DecisionTime(ctx, tx)
		if err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		if err := s.db.Q.SigningKeyDeleteExpired(ctx, tx, dbsqlc.SigningKeyDeleteExpiredParams{TenantID: by.TenantID, Now: now}); err != nil {
			return fmt.Errorf("removing signing keys that have expired: %w", err)
		}
		live, err := s.signingKeys(ctx, tx, by.TenantID)
		if err != nil {
			return err
		}
		w, err := create(now, live)
		if err != nil {
			return err
		}
		if err := s.insertSigningKey(ctx, tx, w); err != nil {
			return err
		}
		err = s.db.Audited(ctx, tx, auditlog.Change{
			Act:    auditlog.Act{By: by, Action: auditlog.Create},
			Object: w.Key.Object(),
			After:  w.Key.Redacted(),
		})
		if err != nil {
			return err
		}
		var ended pg.AuditBatch
		for _, older := range live {
			if w.Ends(older) {
				before := older.Redacted()
				older.ExpiresAt = w.OverlapUntil
				ended.Add(older.Object(), before, older.Redacted())
			}
		}
		return ended.Write(ctx, tx, s.db, auditlog.Act{By: by, Action: auditlog.Rotate})
	})
}

func (s *Secrets) insertSigningKey(ctx context.Context, tx pgx.Tx, w signing.Write) error {
	err := s.db.Q.SigningKeyInsert(ctx, tx, dbsqlc.SigningKeyInsertParams{
		ID:          w.Key.ID,
		TenantID:    w.Key.TenantID,
		SealedUnder: w.Sealed.KeyID,
		Sealed:      w.Sealed.Data,
		CreatedAt:   w.Key.CreatedAt,
		CreatedBy:   pg.Storable(w.Key.CreatedBy),
		ExpiresAt:   pg.Optional(w.Key.ExpiresAt),
	})
	if err != nil {
		return fmt.Errorf("storing signing key %s: %w", w.Key.ID, err)
	}
	if w.OverlapUntil.IsZero() {
		return nil
	}
	err = s.db.Q.SigningKeyExpire(ctx, tx, dbsqlc.SigningKeyExpireParams{
		TenantID:  w.Key.TenantID,
		ID:        w.Key.ID,
		ExpiresAt: w.OverlapUntil,
	})
	if err != nil {
		return fmt.Errorf("ending the signing keys before %s: %w", w.Key.ID, err)
	}
	return nil
}

// ListSigningKeys implements signing.Store.
func (s *Secrets) ListSigningKeys(ctx context.Context, tenant [16]byte) ([]signing.Key, error) {
	list, err := s.signingKeys(ctx, s.db.Pool, tenant)
	return list, pg.Translate(err)
}

func (s *Secrets) signingKeys(ctx context.Context, tx dbsqlc.DBTX, tenant [16]byte) ([]signing.Key, error) {
	rows, err := s.db.Q.SigningKeyList(ctx, tx, dbsqlc.SigningKeyListParams{TenantID: tenant, Now: s.db.Now()})
	if err != nil {
		return nil, fmt.Errorf("listing signing keys: %w", err)
	}
	list := make([]signing.Key, 0, len(rows))
	for _, row := range rows {
		list = append(list, signingKeyOf(row))
	}
	return list, nil
}

func signingKeyOf(row *dbsqlc.SigningKey) signing.Key {
	return signing.Key{
		ID:        row.ID,
		TenantID:  row.TenantID,
		CreatedAt: row.CreatedAt,
		CreatedBy: row.CreatedBy,
		ExpiresAt: pg.OrZero(row.ExpiresAt),
	}
}

// DeleteSigningKey implements signing.Store.
func (s *Secrets) DeleteSigningKey(ctx context.Context, by auditlog.Actor, id signing.KeyID) error {
	return s.change(ctx, by.TenantID, func(tx pgx.Tx) error {
		rows, err := s.db.Q.SigningKeyDelete(ctx, tx, dbsqlc.SigningKeyDeleteParams{ID: id, TenantID: by.TenantID})
		if err != nil {
			return fmt.Errorf("deleting signing key %s: %w", id, err)
		}
		if rows == 0 {
			return errs.New(errs.NotFound, "not_found", fmt.Sprintf("there is no signing key %s", id))
		}
		return s.db.Audited(ctx, tx, auditlog.Change{
			Act:    auditlog.Act{By: by, Action: auditlog.Delete},
			Object: signing.Key{ID: id}.Object(),
			Before: map[string]any{},
		})
	})
}
