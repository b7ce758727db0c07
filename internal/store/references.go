package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/secrets"
	"rubato/internal/store/dbsqlc"
)

// reference is a field of a spec that names a secret.
type reference struct{ field, secret string }

// references returns which secrets a spec names where, in the order of the fields.
func references(s *endpoints.Spec) []reference {
	var list []reference
	add := func(field, text string) {
		for _, name := range secrets.Names(text) {
			list = append(list, reference{field, name})
		}
	}
	add("url", s.URL)
	for _, part := range []struct {
		name  string
		texts map[string]string
	}{{"query.", s.Query}, {"headers.", s.Headers}} {
		for _, name := range slices.Sorted(maps.Keys(part.texts)) {
			add(part.name+name, part.texts[name])
		}
	}
	add("body", s.Body)
	if a := s.Auth; a != nil {
		add("auth.username", a.Username)
		add("auth.password", a.Password)
		add("auth.token", a.Token)
		add("auth.value", a.Value)
		add("auth.clientId", a.ClientID)
		add("auth.clientSecret", a.ClientSecret)
	}
	if s.TLS != nil {
		add("tls.clientKey", s.TLS.ClientKey)
	}
	return list
}

// secretNames returns the secrets that a spec names, sorted, each once.
func secretNames(s *endpoints.Spec) []string {
	var names []string
	for _, r := range references(s) {
		names = append(names, r.secret)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// refer notes which secrets endpoints refer to that were just stored, and keeps these from being deleted meanwhile. The error is an
// [errs.Invalid] that names every reference to a secret that is not there. Endpoints that never referred to one cost no statement.
func (db *DB) refer(ctx context.Context, tx dbsqlc.DBTX, tenant [16]byte, changes ...referral) error {
	var clear [][16]byte
	p := dbsqlc.SecretReferencesInsertParams{TenantID: tenant}
	var all []reference
	for _, c := range changes {
		if c.before != nil && len(secretNames(&c.before.Spec)) > 0 {
			clear = append(clear, c.after.ID)
		}
		if c.after.Archived() {
			continue
		}
		all = append(all, references(&c.after.Spec)...)
		for _, name := range secretNames(&c.after.Spec) {
			p.Names = append(p.Names, name)
			p.EndpointIds = append(p.EndpointIds, c.after.ID)
		}
	}
	if err := db.checkReferences(ctx, tx, tenant, all); err != nil {
		return err
	}
	if len(clear) > 0 {
		if err := db.q.SecretReferencesClear(ctx, tx, clear); err != nil {
			return fmt.Errorf("forgetting which secrets %d endpoints referred to: %w", len(clear), err)
		}
	}
	if len(p.Names) > 0 {
		if err := db.q.SecretReferencesInsert(ctx, tx, p); err != nil {
			return fmt.Errorf("noting which secrets endpoints refer to: %w", err)
		}
	}
	return nil
}

// referral is an endpoint that is stored, and what it was before; nil: it is new.
type referral struct{ before, after *endpoints.Endpoint }

func (db *DB) checkReferences(ctx context.Context, tx dbsqlc.DBTX, tenant [16]byte, list []reference) error {
	if len(list) == 0 {
		return nil
	}
	var names []string
	for _, r := range list {
		names = append(names, r.secret)
	}
	found, err := db.q.SecretsShare(ctx, tx, dbsqlc.SecretsShareParams{TenantID: tenant, Names: names})
	if err != nil {
		return fmt.Errorf("looking up %d secrets: %w", len(names), err)
	}
	var bad []errs.Field
	for _, r := range list {
		if !slices.Contains(found, r.secret) {
			bad = append(bad, errs.Field{
				Field: r.field, Code: "secret_unknown",
				Message: fmt.Sprintf("refers to the secret %q, which does not exist; store it first: PUT /v1/secrets/%s, or rubato secrets set %s", r.secret, r.secret, r.secret),
			})
		}
	}
	return errs.InvalidFields(bad)
}
