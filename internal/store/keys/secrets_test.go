package keys_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/notices"
	"rubato/internal/secrets"
	"rubato/internal/signing"
	keystore "rubato/internal/store/keys"
	noticestore "rubato/internal/store/notices"
	"rubato/internal/store/storetest"
	"rubato/internal/store/views"
)

// named is an edit that makes a spec refer to secrets.
func named(names ...string) func(*endpoints.Spec) {
	return func(s *endpoints.Spec) {
		s.Headers = map[string]string{}
		for i, name := range names {
			s.Headers[fmt.Sprintf("X-Secret-%d", i)] = `{{secret "` + name + `"}}`
		}
	}
}

func (b *bundle) usedBy(t *testing.T, name string) int {
	t.Helper()
	found, err := keystore.NewSecrets(b.DB).GetSecret(t.Context(), keystore.DefaultTenant, name)
	require.NoError(t, err)
	return found.Endpoints
}

func TestSecretIsStoredSealedAndItsVersionsCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)

	first := b.Put(t, "token", storetest.Canary)
	second := b.Put(t, "token", storetest.Canary+"-2")

	require.EqualValues(t, 1, first.Version)
	require.EqualValues(t, 2, second.Version)
	require.Equal(t, first.CreatedAt, second.CreatedAt)
	require.EqualValues(t, 2, storetest.Query[int64](t, b.Bundle, "SELECT secrets_version FROM tenants WHERE id = $1", keystore.DefaultTenant))
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM secrets WHERE position($1::bytea IN sealed) > 0", []byte(storetest.Canary)))
	contents, err := keystore.NewSecrets(b.DB).SealedSecrets(t.Context(), keystore.DefaultTenant)
	require.NoError(t, err)
	value, err := storetest.Sealing(t, "k1").Open(contents.Secrets[0].Identity, contents.Secrets[0].Sealed)
	require.NoError(t, err)
	require.Equal(t, storetest.Canary+"-2", value.Reveal())

	entries, err := views.NewAuditLog(b.DB).List(t.Context(), auditlog.Filter{TenantID: keystore.DefaultTenant, Limit: 10})
	require.NoError(t, err)
	require.Len(t, entries, 2)
	require.Equal(t, auditlog.Rotate, entries[0].Action)
	require.Equal(t, auditlog.Object{Kind: auditlog.NamedSecret, ID: "token"}, entries[0].Object)
	require.JSONEq(t, `{"version":2}`, string(entries[0].After), "nothing that depends on the value")
}

func TestEndpointsAreKnownByTheSecretsThatTheyName(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Put(t, "one", storetest.Canary)
	b.Put(t, "two", storetest.Canary)

	e := b.Register(t, named("one"))
	require.Equal(t, 1, b.usedBy(t, "one"))
	_, _, err := b.Service.Edit(t.Context(), storetest.Tenant, e.ID, 0, func(s endpoints.Spec) (endpoints.Spec, error) { named("two", "two")(&s); return s, nil })
	require.NoError(t, err)
	require.Equal(t, 0, b.usedBy(t, "one"))
	require.Equal(t, 1, b.usedBy(t, "two"))
	_, _, err = b.Service.Edit(t.Context(), storetest.Tenant, e.ID, 0, func(s endpoints.Spec) (endpoints.Spec, error) { s.Headers = nil; return s, nil })
	require.NoError(t, err)
	require.Equal(t, 0, b.usedBy(t, "two"))
	_, _, err = b.Service.Edit(t.Context(), storetest.Tenant, e.ID, 0, func(s endpoints.Spec) (endpoints.Spec, error) { named("one")(&s); return s, nil })
	require.NoError(t, err)
	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, e.ID, 0))
	require.Equal(t, 0, b.usedBy(t, "one"), "what is archived never runs")
}

func TestReferenceToAnUnknownSecretIsRefusedByFieldAndName(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Put(t, "known", storetest.Canary)
	spec := endpoints.Defaults()
	spec.Name, spec.URL, spec.BaselineInterval, spec.Method = "probe", "http://target.example/", time.Minute, "POST"
	spec.Headers = map[string]string{"X-A": `{{secret "known"}}`, "X-B": `{{secret "missing"}}`}
	spec.Body = `{"a":"{{ secret "absent" }}"}`

	_, _, err := b.Service.Register(t.Context(), storetest.Tenant, spec)

	require.Equal(t, errs.Invalid, errs.CodeOf(err))
	fields := errs.FieldsOf(err)
	require.Len(t, fields, 2)
	require.Equal(t, "body secret_unknown", fields[0].Field+" "+fields[0].Code)
	require.Equal(t, "headers.X-B secret_unknown", fields[1].Field+" "+fields[1].Code)
	require.Contains(t, fields[1].Message, `"missing"`)
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM endpoints"))
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM secret_references"))
}

func TestImportNamesTheOneLineThatRefersToAnUnknownSecret(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Put(t, "known", storetest.Canary)
	bulk := endpoints.NewBulk(b.Endpoints, storetest.AnyTarget{})
	var list []endpoints.Upsert
	for i := range 20 {
		name := "known"
		if i == 13 {
			name = "missing"
		}
		list = append(list, endpoints.Upsert{Key: fmt.Sprintf("e%d", i), Want: func(*endpoints.Endpoint) (endpoints.Spec, error) {
			spec := endpoints.Defaults()
			spec.Name, spec.Key, spec.URL, spec.BaselineInterval = "probe", fmt.Sprintf("e%d", i), "http://target.example/", time.Minute
			named(name)(&spec)
			return spec, nil
		}})
	}

	out, err := bulk.Upsert(t.Context(), storetest.Tenant, list, endpoints.Mode{})

	require.NoError(t, err)
	for i, o := range out {
		if i == 13 {
			require.Equal(t, endpoints.Failed, o.Done)
			require.Equal(t, "secret_unknown", errs.FieldsOf(o.Err)[0].Code)
			continue
		}
		require.Equal(t, endpoints.Created, o.Done)
	}
	require.Equal(t, 19, b.usedBy(t, "known"))
}

func TestSecretInUseIsNotDeletedUnlessByForce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Put(t, "token", storetest.Canary)
	e := b.Register(t, named("token"))
	service := secrets.NewService(keystore.NewSecrets(b.DB), nil)

	err := service.Delete(t.Context(), storetest.Tenant, "token", false)
	require.Equal(t, errs.Conflict, errs.CodeOf(err))
	require.ErrorContains(t, err, e.ID.String())
	require.NoError(t, service.Delete(t.Context(), storetest.Tenant, "token", true))
	require.Equal(t, errs.NotFound, errs.CodeOf(service.Delete(t.Context(), storetest.Tenant, "token", true)))

	b.Put(t, "token", storetest.Canary)
	require.Equal(t, 1, b.usedBy(t, "token"), "the endpoint has referred to it all the while")
}

// TestSecretThatARuleNeedsIsNotDeletedUnlessByForce: the refusal names the use of the secret in the
// channel, such as its URL or its token.
func TestSecretThatARuleNeedsIsNotDeletedUnlessByForce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Put(t, "url", storetest.Canary)
	b.Put(t, "token", storetest.Canary)
	b.Put(t, "other", storetest.Canary)
	keeper := b.PutRule(t, "by-url", func(s *notices.Spec) { s.Channel = notices.Channel{Kind: notices.Slack, URLSecret: "url"} })
	b.PutRule(t, "by-token", func(s *notices.Spec) { s.Enabled, s.Channel.TokenSecret = false, "token" })
	e := b.Register(t, named("token"))
	service := secrets.NewService(keystore.NewSecrets(b.DB), nil)

	kept, err := service.List(t.Context(), secrets.Filter{TenantID: storetest.Tenant.TenantID, Limit: 10})
	require.NoError(t, err)
	uses := map[string][2]int{} // endpoints, rules
	for _, s := range kept {
		uses[s.Name] = [2]int{s.Endpoints, s.Rules}
		one, err := service.Get(t.Context(), storetest.Tenant, s.Name)
		require.NoError(t, err)
		require.Equal(t, s, one)
	}
	require.Equal(t, map[string][2]int{"url": {0, 1}, "token": {1, 1}, "other": {0, 0}}, uses)

	err = service.Delete(t.Context(), storetest.Tenant, "url", false)
	require.Equal(t, errs.Conflict, errs.CodeOf(err))
	require.EqualError(t, err, `1 notice rule refers to the secret, such as the notice rule "by-url"; `+
		"change what refers to it first, or delete it with force=true, or rubato secrets delete --force, and let the notices fail")
	err = service.Delete(t.Context(), storetest.Tenant, "token", false)
	require.ErrorContains(t, err, "1 endpoint and 1 notice rule refer to the secret")
	require.ErrorContains(t, err, e.ID.String())
	require.ErrorContains(t, err, `the notice rule "by-token"`)
	require.NoError(t, service.Delete(t.Context(), storetest.Tenant, "other", false), "nothing refers to it")
	require.NoError(t, service.Delete(t.Context(), storetest.Tenant, "token", true))
	require.NoError(t, keeper.DeleteRule(t.Context(), storetest.Tenant, "by-url", 0))
	require.NoError(t, service.Delete(t.Context(), storetest.Tenant, "url", false), "nothing refers to it any more")
}

// TestSecretsAndRulesChangeAtTheSameTime: in any order of a concurrent delete and change, no stored
// rule refers to a deleted secret.
func TestSecretsAndRulesChangeAtTheSameTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keeper, service := noticestore.NewStore(b.DB, &b.States.Rules), secrets.NewService(keystore.NewSecrets(b.DB), nil)
	for range 20 {
		b.Put(t, "url", storetest.Canary)
		stored, deleted := make(chan error, 1), make(chan error, 1)
		go func() {
			_, _, err := keeper.PutRule(t.Context(), storetest.Tenant, "r", storetest.Rule(func(s *notices.Spec) {
				s.Channel = notices.Channel{Kind: notices.Slack, URLSecret: "url"}
			}), endpoints.Condition{})
			stored <- err
		}()
		go func() { deleted <- service.Delete(t.Context(), storetest.Tenant, "url", false) }()
		if err := <-stored; err != nil {
			require.Equal(t, "secret_unknown", errs.FieldsOf(err)[0].Code)
			require.NoError(t, <-deleted)
			continue
		}
		require.Equal(t, errs.Conflict, errs.CodeOf(<-deleted))
		require.NoError(t, keeper.DeleteRule(t.Context(), storetest.Tenant, "r", 0))
	}
}

// TestSecretsAndEndpointsChangeAtTheSameTime: in any order of a concurrent delete and change, no
// stored endpoint refers to a deleted secret unless by force, and no deadlock occurs.
func TestSecretsAndEndpointsChangeAtTheSameTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	service := secrets.NewService(keystore.NewSecrets(b.DB), storetest.Sealing(t, "k1"))
	var busy sync.WaitGroup
	for i := range 4 {
		busy.Go(func() {
			for n := range 15 {
				ctx := t.Context()
				switch (i + n) % 4 {
				case 0:
					_, _, err := service.Put(ctx, storetest.Tenant, secrets.Request{Name: "token", Value: secrets.NewText(storetest.Canary)})
					noFault(t, err)
				case 1:
					noFault(t, service.Delete(ctx, storetest.Tenant, "token", false))
				case 2:
					_, _, err := b.Service.Edit(ctx, storetest.Tenant, e.ID, 0, func(s endpoints.Spec) (endpoints.Spec, error) { named("token")(&s); return s, nil })
					noFault(t, err)
				case 3:
					_, _, err := b.Service.Edit(ctx, storetest.Tenant, e.ID, 0, func(s endpoints.Spec) (endpoints.Spec, error) { s.Headers = nil; return s, nil })
					noFault(t, err)
				}
			}
		})
	}
	busy.Wait()
	require.Zero(t, storetest.Query[int](t, b.Bundle, `
		SELECT count(*) FROM secret_references r WHERE NOT EXISTS (SELECT FROM secrets s WHERE s.tenant_id = r.tenant_id AND s.name = r.name)`))
}

// noFault accepts errors that a user may cause.
func noFault(t *testing.T, err error) {
	t.Helper()
	switch errs.CodeOf(err) {
	case errs.Invalid, errs.Conflict, errs.NotFound:
	default:
		if err != nil {
			t.Error(err)
		}
	}
}

// TestStartsSeeEveryCommittedChangeOfSecrets makes a change of secrets wait for the starts in
// flight. A start after it sees the new version.
func TestStartsSeeEveryCommittedChangeOfSecrets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Put(t, "token", storetest.Canary)
	e := b.Register(t, named("token"))
	plain := b.Register(t, nil)

	starting := b.HoldSecrets(t, storetest.Tenant.TenantID)
	changed := make(chan error, 1)
	go func() {
		_, _, err := secrets.NewService(keystore.NewSecrets(b.DB), storetest.Sealing(t, "k1")).
			Put(context.WithoutCancel(t.Context()), storetest.Tenant, secrets.Request{Name: "token", Value: secrets.NewText(storetest.Canary)})
		changed <- err
	}()
	b.AwaitLockWait(t)
	require.NoError(t, starting.Commit(t.Context()))
	require.NoError(t, <-changed)

	by := storetest.Worker{9}
	claimed := b.Claim(t, by, storetest.Horizon)
	list := storetest.StartsOf(claimed)
	for i := range list {
		list[i].Secrets = endpoints.ID(list[i].Claim.EndpointID) == e.ID
	}
	started, err := b.Executions.Start(t.Context(), dispatch.Starting{Worker: by, List: list, LockTTL: time.Minute})
	require.NoError(t, err)
	require.Len(t, started, 2)
	for _, s := range started {
		require.EqualValues(t, 2, s.SecretsVersion, "of %s and %s", e.ID, plain.ID)
	}
}

func TestPlainStartsAskForNoSecrets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Put(t, "token", storetest.Canary)
	b.Register(t, nil)

	_, started := b.StartOne(t, storetest.Worker{9})

	require.Zero(t, started.SecretsVersion)
}

func TestRekeySealsEverythingUnderTheNewestKeyInBatches(t *testing.T) {
	t.Parallel()
	b := setup(t)
	values := keystore.NewSecrets(b.DB)
	for i := range 120 {
		b.Put(t, fmt.Sprintf("s%03d", i), fmt.Sprintf("%s-%d", storetest.Canary, i))
	}
	_, _, err := signing.NewService(values, storetest.Sealing(t, "k1")).Create(t.Context(), storetest.Tenant, signing.Request{})
	require.NoError(t, err)
	_, _, err = secrets.NewService(values, storetest.Sealing(t, "k0")).Put(t.Context(), storetest.Tenant, secrets.Request{Name: "lost", Value: secrets.NewText("v")})
	require.NoError(t, err)
	version := storetest.Query[int64](t, b.Bundle, "SELECT secrets_version FROM tenants WHERE id = $1", keystore.DefaultTenant)

	pass, err := storetest.Sealing(t, "k2", "k1").Rekey(t.Context(), values)

	require.NoError(t, err)
	require.Equal(t, 121, pass.Done)
	require.Len(t, pass.Failed, 1)
	require.Contains(t, pass.Failed[0], `secret "lost"`)
	require.Equal(t, 122, storetest.Query[int](t, b.Bundle, "SELECT count(*) + (SELECT count(*) FROM signing_keys) FROM secrets"))
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM secrets WHERE sealed_under <> 'k2'"))
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM signing_keys WHERE sealed_under <> 'k2'"))
	require.Equal(t, version, storetest.Query[int64](t, b.Bundle, "SELECT secrets_version FROM tenants WHERE id = $1", keystore.DefaultTenant), "values stay what they are")
	contents, err := values.SealedSecrets(t.Context(), keystore.DefaultTenant)
	require.NoError(t, err)
	for _, k := range contents.Secrets {
		if k.Name != "lost" {
			value, err := storetest.Sealing(t, "k2").Open(k.Identity, k.Sealed)
			require.NoError(t, err)
			require.Contains(t, value.Reveal(), storetest.Canary)
		}
	}
	again, err := storetest.Sealing(t, "k2", "k1").Rekey(t.Context(), values)
	require.NoError(t, err)
	require.Zero(t, again.Done)
	_, err = (&secrets.Keyring{}).Rekey(t.Context(), values)
	require.ErrorIs(t, err, secrets.ErrNoKeys)
}

func TestMissingKeyIsFoundByItsSamples(t *testing.T) {
	t.Parallel()
	b := setup(t)
	values := keystore.NewSecrets(b.DB)
	require.NoError(t, secrets.NewChecker(values, nil).Check(t.Context()), "there is nothing to open")
	b.Put(t, "token", storetest.Canary)

	require.NoError(t, secrets.NewChecker(values, storetest.Sealing(t, "k2", "k1")).Check(t.Context()))
	require.ErrorContains(t, secrets.NewChecker(values, storetest.Sealing(t, "k2")).Check(t.Context()), `"k1" is missing`)
	require.ErrorContains(t, secrets.NewChecker(values, nil).Check(t.Context()), `"k1" is missing`)
}

func TestSigningKeysExpireAndOverlap(t *testing.T) {
	t.Parallel()
	b := setup(t)
	values := keystore.NewSecrets(b.DB)
	service := signing.NewService(values, storetest.Sealing(t, "k1"))
	now := b.At(storetest.Noon())

	first, _, err := service.Create(t.Context(), storetest.Tenant, signing.Request{})
	require.NoError(t, err)
	second, _, err := service.Create(t.Context(), storetest.Tenant, signing.Request{Overlap: new(time.Hour)})
	require.NoError(t, err)
	_, _, err = service.Create(t.Context(), storetest.Tenant, signing.Request{})
	require.Equal(t, errs.Conflict, errs.CodeOf(err))

	list, err := service.List(t.Context(), storetest.Tenant)
	require.NoError(t, err)
	require.Equal(t, []signing.KeyID{second.ID, first.ID}, []signing.KeyID{list[0].ID, list[1].ID})
	require.Equal(t, now.Add(time.Hour), list[1].ExpiresAt)
	b.At(now.Add(time.Hour))
	list, err = service.List(t.Context(), storetest.Tenant)
	require.NoError(t, err)
	require.Len(t, list, 1)
	_, _, err = service.Create(t.Context(), storetest.Tenant, signing.Request{ExpiresAt: now.Add(2 * time.Hour)})
	require.NoError(t, err, "the first one has ended")
	require.Equal(t, 2, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM signing_keys"), "what has ended is removed")

	require.NoError(t, service.Delete(t.Context(), storetest.Tenant, second.ID))
	require.Equal(t, errs.NotFound, errs.CodeOf(service.Delete(t.Context(), storetest.Tenant, second.ID)))
	list, err = service.List(t.Context(), storetest.Tenant)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, errs.NotFound, errs.CodeOf(service.Delete(t.Context(), b.OtherTenant(t), list[0].ID)), "to another tenant it is not there")
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM signing_keys"))
}

func TestAuditLogListsRetiredSigningKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	service := signing.NewService(keystore.NewSecrets(b.DB), storetest.Sealing(t, "k1"))
	now := b.At(storetest.Noon())
	first, _, err := service.Create(t.Context(), storetest.Tenant, signing.Request{})
	require.NoError(t, err)
	second, _, err := service.Create(t.Context(), storetest.Tenant, signing.Request{Overlap: new(time.Hour)})
	require.NoError(t, err)
	_, _, err = service.Create(t.Context(), storetest.Tenant, signing.Request{Overlap: new(time.Duration)})
	require.NoError(t, err)

	var told []string
	for _, e := range storetest.Logged(t, b.Bundle, func(f *auditlog.Filter) { f.Action = auditlog.Rotate }) {
		require.Equal(t, storetest.Tenant.Name, e.By.Name)
		told = append(told, e.Object.ID+string(e.Before)+string(e.After))
	}
	hour, at := now.Add(time.Hour).UTC().Format(time.RFC3339Nano), now.UTC().Format(time.RFC3339Nano)
	require.ElementsMatch(t, []string{
		first.ID.String() + `{}{"expiresAt": "` + hour + `"}`,
		first.ID.String() + `{"expiresAt": "` + hour + `"}{"expiresAt": "` + at + `"}`,
		second.ID.String() + `{}{"expiresAt": "` + at + `"}`,
	}, told)
}

func TestUseOfASecretIsNotedWithoutWaiting(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Put(t, "token", storetest.Canary)
	b.Put(t, "locked", storetest.Canary)
	e := b.Register(t, named("token"))
	values := keystore.NewSecrets(b.DB)
	holder, err := b.Pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = holder.Exec(t.Context(), "SELECT FROM secrets WHERE name = 'locked' FOR UPDATE")
	require.NoError(t, err)

	vault := secrets.NewVault(values, storetest.Sealing(t, "k1"), slog.New(slog.DiscardHandler))
	vault.Used(keystore.DefaultTenant, []string{"token", "locked"}, e.ID)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	vault.Run(ctx) // Notes what there is and ends.

	require.NoError(t, holder.Rollback(t.Context()))
	found, err := values.GetSecret(t.Context(), keystore.DefaultTenant, "token")
	require.NoError(t, err)
	require.Equal(t, [16]byte(e.ID), found.LastUsedBy)
	require.False(t, found.LastUsedAt.IsZero())
	found, err = values.GetSecret(t.Context(), keystore.DefaultTenant, "locked")
	require.NoError(t, err)
	require.True(t, found.LastUsedAt.IsZero())
}
