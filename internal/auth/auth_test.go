package auth_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/auth"
	"rubato/internal/errs"
)

// keys is a store in memory that counts how often it is asked.
type keys struct {
	principals map[[sha256.Size]byte]auth.Principal
	err        error
	asked      int
}

func (k *keys) FindKey(_ context.Context, hash [sha256.Size]byte) (auth.Principal, error) {
	k.asked++
	if k.err != nil {
		return auth.Principal{}, k.err
	}
	p, ok := k.principals[hash]
	if !ok {
		return auth.Principal{}, errs.New(errs.NotFound, "", "there is no such key")
	}
	return p, nil
}

func storeOf(key string, p auth.Principal) *keys {
	return &keys{principals: map[[sha256.Size]byte]auth.Principal{auth.Hash(key): p}}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		held   []auth.Scope
		needed auth.Scope
		may    bool
	}{
		{held: []auth.Scope{auth.Read}, needed: auth.Read, may: true},
		{held: []auth.Scope{auth.Read}, needed: auth.Write, may: false},
		{held: []auth.Scope{auth.Write}, needed: auth.Read, may: true},
		{held: []auth.Scope{auth.Write}, needed: auth.Admin, may: false},
		{held: []auth.Scope{auth.Read, auth.Admin}, needed: auth.Write, may: true},
		{held: nil, needed: auth.Read, may: false},
		{held: []auth.Scope{"root"}, needed: auth.Read, may: false},
		{held: []auth.Scope{auth.Admin}, needed: "root", may: false},
		{held: []auth.Scope{"root"}, needed: "", may: false},
	} {
		require.Equal(t, tc.may, auth.Principal{Scopes: tc.held}.May(tc.needed), "%v for %q", tc.held, tc.needed)
	}
}

func TestNewKey(t *testing.T) {
	t.Parallel()
	key := auth.NewKey()
	require.True(t, strings.HasPrefix(key, "rbt_"))
	require.GreaterOrEqual(t, len(key), 30)
	require.NotEqual(t, key, auth.NewKey())
	require.Equal(t, key[:8], auth.Prefix(key))
	require.Empty(t, auth.Prefix("chosen-by-hand"))
	require.NotEqual(t, auth.Hash(key), auth.Hash(key+"x"))
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	known := auth.Principal{Name: "ci", TenantID: [16]byte{1}, Scopes: []auth.Scope{auth.Write}}

	t.Run("KnownKeyIsItsPrincipal", func(t *testing.T) {
		t.Parallel()
		p, err := auth.NewAuthenticator(storeOf("rbt_good", known)).Authenticate(t.Context(), "rbt_good")
		require.NoError(t, err)
		require.Equal(t, known, p)
	})
	t.Run("AnythingElseIsUnauthorized", func(t *testing.T) {
		t.Parallel()
		store := storeOf("rbt_good", known)
		a := auth.NewAuthenticator(store)
		for _, key := range []string{"", " ", "rbt_bad", "rbt_good ", "rbt_\x00good", "clé", strings.Repeat("x", 1<<20)} {
			_, err := a.Authenticate(t.Context(), key)
			require.Equal(t, errs.Unauthorized, errs.CodeOf(err), "%.20q", key)
			require.NotContains(t, err.Error(), "rbt_")
		}
		require.Equal(t, 1, store.asked, "what cannot be a key must not reach the database")
	})
	t.Run("StoreFailureIsNoRefusal", func(t *testing.T) {
		t.Parallel()
		for _, failure := range []error{errs.New(errs.Unavailable, "", "the database is away"), errors.New("boom")} {
			_, err := auth.NewAuthenticator(&keys{err: failure}).Authenticate(t.Context(), "rbt_good")
			require.ErrorIs(t, err, failure)
		}
	})
}

// TestWrongKeysAreLookedUpAFewTimesOnly, and keys that were right before always.
func TestWrongKeysAreLookedUpAFewTimesOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := storeOf("rbt_good", auth.Principal{Name: "ci", KeyID: [16]byte{7}})
		a := auth.NewAuthenticator(store)
		try := func(key, address string) error {
			_, err := a.AuthenticateFrom(t.Context(), key, address)
			return err
		}
		require.NoError(t, try("rbt_good", "192.0.2.1"))
		for range 1000 {
			require.Error(t, try(auth.NewKey(), "192.0.2.1"))
		}
		require.Equal(t, 1+10, store.asked, "look-ups of one address")
		var throttled *auth.ThrottledError
		require.ErrorAs(t, try(auth.NewKey(), "192.0.2.1"), &throttled)
		require.Equal(t, 6, throttled.Seconds())
		require.Equal(t, errs.Unauthorized, errs.CodeOf(try(auth.NewKey(), "192.0.2.2")), "another address is free")
		require.Equal(t, errs.Unauthorized, errs.CodeOf(try("no key at all", "192.0.2.1")), "what costs no look-up is not throttled")

		time.Sleep(5500 * time.Millisecond) // Longer than a key is trusted, and not as long as the next look-up takes to be free.
		require.NoError(t, try("rbt_good", "192.0.2.1"), "a key that was right before is looked up beside wrong ones")
		clear(store.principals)
		a.Forget(auth.KeyID{7})
		require.ErrorAs(t, try("rbt_good", "192.0.2.1"), &throttled, "a revoked key is as any wrong one")

		for i := range 1000 {
			require.Error(t, try(auth.NewKey(), fmt.Sprintf("198.51.%d.%d", i/250, i%250)))
		}
		require.Less(t, store.asked, 350, "look-ups of all addresses")
	})
}

func TestCache(t *testing.T) {
	t.Parallel()
	t.Run("AsksOncePerFewSecondsAndFeelsRevoking", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			store := storeOf("rbt_good", auth.Principal{Name: "ci"})
			a := auth.NewAuthenticator(store)
			for range 100 {
				_, err := a.Authenticate(t.Context(), "rbt_good")
				require.NoError(t, err)
			}
			require.Equal(t, 1, store.asked)

			clear(store.principals)
			time.Sleep(5 * time.Second)
			_, err := a.Authenticate(t.Context(), "rbt_good")
			require.Equal(t, errs.Unauthorized, errs.CodeOf(err))
		})
	})
	t.Run("BelievesAKeyNoLongerThanItIsGood", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			store := storeOf("rbt_good", auth.Principal{Name: "ci", Left: 2 * time.Second})
			a := auth.NewAuthenticator(store)
			_, err := a.Authenticate(t.Context(), "rbt_good")
			require.NoError(t, err)

			clear(store.principals)
			time.Sleep(2*time.Second - 1)
			_, err = a.Authenticate(t.Context(), "rbt_good")
			require.NoError(t, err, "it is good until then")
			time.Sleep(time.Nanosecond)
			_, err = a.Authenticate(t.Context(), "rbt_good")
			require.Equal(t, errs.Unauthorized, errs.CodeOf(err))
		})
	})
	t.Run("ForgetsAKeyAtOnce", func(t *testing.T) {
		t.Parallel()
		store := storeOf("rbt_good", auth.Principal{Name: "ci", KeyID: [16]byte{7}})
		a := auth.NewAuthenticator(store)
		_, err := a.Authenticate(t.Context(), "rbt_good")
		require.NoError(t, err)
		clear(store.principals)
		a.Forget(auth.KeyID{8})
		_, err = a.Authenticate(t.Context(), "rbt_good")
		require.NoError(t, err, "another key's end is nothing to this one")
		a.Forget(auth.KeyID{7})
		_, err = a.Authenticate(t.Context(), "rbt_good")
		require.Equal(t, errs.Unauthorized, errs.CodeOf(err))
	})
	t.Run("UnknownKeysAreNotKept", func(t *testing.T) {
		t.Parallel()
		store := storeOf("rbt_late", auth.Principal{Name: "ci"})
		kept := store.principals
		store.principals = nil
		a := auth.NewAuthenticator(store)
		_, err := a.Authenticate(t.Context(), "rbt_late")
		require.Error(t, err)
		store.principals = kept
		_, err = a.Authenticate(t.Context(), "rbt_late")
		require.NoError(t, err, "a key must work from the moment it exists")
	})
	t.Run("StaysBounded", func(t *testing.T) {
		t.Parallel()
		a := auth.NewAuthenticator(anyKeyStore{})
		for range 10_000 {
			_, err := a.Authenticate(t.Context(), auth.NewKey())
			require.NoError(t, err)
		}
		require.LessOrEqual(t, a.Trusted(), 4096)
	})
}

// anyKeyStore is a store that accepts every key.
type anyKeyStore struct{}

func (anyKeyStore) FindKey(context.Context, [sha256.Size]byte) (auth.Principal, error) {
	return auth.Principal{Name: "anybody"}, nil
}
