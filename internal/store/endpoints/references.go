package endpoints

import (
	"context"
	"fmt"
	"slices"

	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// secretNames returns the names of the secrets in a spec, sorted and unique.
func secretNames(s *endpoints.Spec) []string {
	references := s.References()
	names := make([]string, 0, len(references))
	for _, r := range references {
		names = append(names, r.Secret)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// refer stores the secret references of stored endpoints and protects these secrets from a
// concurrent deletion. The error is an [errs.Invalid] with every reference to a missing secret.
// Endpoints without references, now and before, cost no statement.
func (db *States) refer(ctx context.Context, tx dbsqlc.DBTX, tenant [16]byte, changes ...referral) error {
	var clear [][16]byte
	p := dbsqlc.SecretReferencesInsertParams{TenantID: tenant}
	var all []endpoints.Reference
	for _, c := range changes {
		if c.before != nil && len(secretNames(&c.before.Spec)) > 0 {
			clear = append(clear, c.after.ID)
		}
		if c.after.Archived() {
			continue
		}
		all = append(all, c.after.Spec.References()...)
		for _, name := range secretNames(&c.after.Spec) {
			p.Names = append(p.Names, name)
			p.EndpointIds = append(p.EndpointIds, c.after.ID)
		}
	}
	if err := db.CheckReferences(ctx, tx, tenant, all); err != nil {
		return err
	}
	if len(clear) > 0 {
		if err := db.Q.SecretReferencesClear(ctx, pg.Replanned{DBTX: tx}, clear); err != nil {
			return fmt.Errorf("forgetting which secrets %d endpoints referred to: %w", len(clear), err)
		}
	}
	if len(p.Names) > 0 {
		if err := db.Q.SecretReferencesInsert(ctx, tx, p); err != nil {
			return fmt.Errorf("noting which secrets endpoints refer to: %w", err)
		}
	}
	return nil
}

// referral is a stored endpoint and its previous version; nil: it is new.
type referral struct{ before, after *endpoints.Endpoint }

// CheckReferences returns an [errs.Invalid] that names the secrets a tenant does not have. It locks
// the others against deletion until the transaction ends.
func (db *States) CheckReferences(ctx context.Context, tx dbsqlc.DBTX, tenant [16]byte, list []endpoints.Reference) error {
	if len(list) == 0 {
		return nil
	}
	var names []string
	for _, r := range list {
		names = append(names, r.Secret)
	}
	found, err := db.Q.SecretsLockShared(ctx, tx, dbsqlc.SecretsLockSharedParams{TenantID: tenant, Names: names})
	if err != nil {
		return fmt.Errorf("looking up %d secrets: %w", len(names), err)
	}
	return endpoints.UnknownSecrets(list, found)
}
