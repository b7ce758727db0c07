package keys_test

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
	"rubato/internal/auth"
	"rubato/internal/errs"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/storetest"
)

// keyring returns the keyring of a bundle, and a function that authenticates a secret.
func keyring(b *bundle) (*auth.Keyring, func(*testing.T, string) error) {
	keys := keystore.NewKeys(b.DB)
	return auth.NewKeyring(keys, auth.NewAuthenticator(keys), 20), func(t *testing.T, secret string) error {
		t.Helper()
		_, err := keys.FindKey(t.Context(), auth.Hash(secret))
		return err
	}
}

func makeKey(t *testing.T, ring *auth.Keyring, scopes ...auth.Scope) (auth.Key, string) {
	t.Helper()
	k, secret, err := ring.Create(t.Context(), storetest.Tenant, auth.KeyRequest{Name: "made", Scopes: scopes})
	require.NoError(t, err)
	return k, secret
}

func TestAKeyWorksFromTheMomentItIsMade(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ring, good := keyring(b)
	made, secret := makeKey(t, ring, auth.Read)
	require.NoError(t, good(t, secret))
	read, now, err := ring.Get(t.Context(), storetest.Tenant, made.ID)
	require.NoError(t, err)
	require.Equal(t, auth.KeyActive, read.StateAt(now))
	require.Equal(t, auth.Prefix(secret), read.Prefix)
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM api_keys WHERE api_keys::text LIKE '%' || $1 || '%'", secret), "the secret is not stored")
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM audit_log WHERE audit_log::text LIKE '%' || $1 || '%'", secret))
}

// TestATenantHasSoManyKeysInForce makes them at the same time, so that each would see the same
// count were they not made one by one.
func TestATenantHasSoManyKeysInForce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ring, _ := keyring(b) // Of at most 20.
	made := make(chan error, 25)
	for range 25 {
		go func() {
			_, _, err := ring.Create(t.Context(), storetest.Tenant, auth.KeyRequest{Name: "made", Scopes: []auth.Scope{auth.Read}})
			made <- err
		}()
	}
	refused := 0
	for range 25 {
		if err := <-made; err != nil {
			refused++
			require.Equal(t, errs.Conflict, errs.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, "RUBATO_KEYS_PER_TENANT")
		}
	}
	require.Equal(t, 5, refused)
	require.Equal(t, 20, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM api_keys"))

	b.Exec(t, "UPDATE api_keys SET expires_at = now() WHERE id = (SELECT min(id::text)::uuid FROM api_keys)")
	makeKey(t, ring, auth.Read) // An expired key does not count.
	_, _, err := ring.Create(t.Context(), b.OtherTenant(t), auth.KeyRequest{Name: "made", Scopes: []auth.Scope{auth.Read}})
	require.NoError(t, err, "another tenant has room of its own")
}

func TestUseIsNotedOnceAMinute(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ring, good := keyring(b)
	_, secret := makeKey(t, ring, auth.Read)
	used := func() *time.Time {
		return storetest.Query[*time.Time](t, b.Bundle, "SELECT last_used_at FROM api_keys")
	}
	require.Nil(t, used())
	require.NoError(t, good(t, secret))
	first := used()
	require.NotNil(t, first)
	require.NoError(t, good(t, secret))
	require.Equal(t, first, used(), "again within a minute changes nothing")
	b.Exec(t, "UPDATE api_keys SET last_used_at = now() - interval '61 s'")
	require.NoError(t, good(t, secret))
	require.True(t, used().After(first.Add(-time.Second)))

	tx, err := b.Pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "UPDATE api_keys SET last_used_at = now() - interval '61 s'")
	require.NoError(t, err)
	require.NoError(t, good(t, secret), "who is asked for a key never waits for who changes it")
	require.NoError(t, tx.Rollback(t.Context()))
}

func TestARotatedSecretIsGoodForTheOverlap(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ring, good := keyring(b)
	made, first := makeKey(t, ring, auth.Admin)
	rotated, second, err := ring.Rotate(t.Context(), storetest.Tenant, made.ID, time.Hour)
	require.NoError(t, err)
	require.Equal(t, made.ID, rotated.ID)
	require.NotEqual(t, first, second)
	require.NoError(t, good(t, first))
	require.NoError(t, good(t, second))

	told := storetest.Logged(t, b.Bundle, func(f *auditlog.Filter) { f.Action = auditlog.Rotate })[0]
	var after struct{ PreviousSecretUntil time.Time }
	require.NoError(t, json.Unmarshal(told.After, &after))
	require.WithinDuration(t, told.At.Add(time.Hour), after.PreviousSecretUntil, time.Second, "the log tells how long two secrets are good")

	_, third, err := ring.Rotate(t.Context(), storetest.Tenant, made.ID, 0)
	require.NoError(t, err)
	require.Equal(t, errs.NotFound, errs.CodeOf(good(t, first)), "no secret outlives the one after it")
	require.Equal(t, errs.NotFound, errs.CodeOf(good(t, second)))
	require.NoError(t, good(t, third))

	require.NoError(t, keystore.NewKeys(b.DB).EnsureKey(t.Context(), auth.Params{Name: "bootstrap", Key: first, Scopes: []auth.Scope{auth.Admin}}))
	require.Equal(t, errs.NotFound, errs.CodeOf(good(t, first)), "a start with the old secret does not bring it back")
	_, _, err = ring.Rotate(t.Context(), storetest.Tenant, made.ID, 25*time.Hour)
	require.Equal(t, errs.Invalid, errs.CodeOf(err))
}

func TestTheLastAdminKeyCannotBeRevoked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ring, good := keyring(b)
	one, _ := makeKey(t, ring, auth.Admin)
	writer, secret := makeKey(t, ring, auth.Write)
	err := ring.Revoke(t.Context(), storetest.Tenant, one.ID)
	require.Equal(t, errs.Conflict, errs.CodeOf(err))
	require.NoError(t, ring.Revoke(t.Context(), storetest.Tenant, writer.ID))
	require.NoError(t, ring.Revoke(t.Context(), storetest.Tenant, writer.ID), "again is no error")
	require.Equal(t, errs.NotFound, errs.CodeOf(good(t, secret)))
	_, _, err = ring.Rotate(t.Context(), storetest.Tenant, writer.ID, 0)
	require.Equal(t, errs.Conflict, errs.CodeOf(err), "a revoked key stays so")

	// Two admins revoke each other's key at once. One of the keys stays.
	two, _ := makeKey(t, ring, auth.Admin)
	var refused atomic.Int32
	var both sync.WaitGroup
	for _, id := range []auth.KeyID{one.ID, two.ID} {
		both.Go(func() {
			if err := ring.Revoke(t.Context(), storetest.Tenant, id); errs.CodeOf(err) == errs.Conflict && err != nil {
				refused.Add(1)
			}
		})
	}
	both.Wait()
	require.EqualValues(t, 1, refused.Load())
	active, _, err := ring.List(t.Context(), auth.KeyFilter{TenantID: storetest.Tenant.TenantID, State: auth.KeyActive, Limit: 10})
	require.NoError(t, err)
	require.Len(t, active, 1)
	revoked, _, err := ring.List(t.Context(), auth.KeyFilter{TenantID: storetest.Tenant.TenantID, State: auth.KeyRevoked, Limit: 10})
	require.NoError(t, err)
	require.Len(t, revoked, 2)
}

func TestKeysOfOthersDoNotExist(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ring, good := keyring(b)
	made, secret := makeKey(t, ring, auth.Admin)
	makeKey(t, ring, auth.Admin)
	stranger := auditlog.Actor{TenantID: [16]byte{15: 9}, Name: "stranger"}
	_, _, err := ring.Get(t.Context(), stranger, made.ID)
	require.Equal(t, errs.NotFound, errs.CodeOf(err))
	require.Equal(t, errs.NotFound, errs.CodeOf(ring.Revoke(t.Context(), stranger, made.ID)))
	_, _, err = ring.Rotate(t.Context(), stranger, made.ID, 0)
	require.Equal(t, errs.NotFound, errs.CodeOf(err))
	list, _, err := ring.List(t.Context(), auth.KeyFilter{TenantID: stranger.TenantID, Limit: 10})
	require.NoError(t, err)
	require.Empty(t, list)
	require.NoError(t, good(t, secret))
}
