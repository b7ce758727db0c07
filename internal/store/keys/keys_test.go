package keys_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/auth"
	"rubato/internal/errs"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/storetest"
)

func TestAKeyIsFoundByItsHashWhileItIsInForce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keys := keystore.NewKeys(b.DB)
	params := auth.Params{Name: "ci", Key: "rubato_test_key_of_some_length", Scopes: []auth.Scope{auth.Read, auth.Write}}
	find := func(key string) (auth.Principal, error) { return keys.FindKey(t.Context(), auth.Hash(key)) }
	_, err := find(params.Key)
	require.Equal(t, errs.NotFound, errs.CodeOf(err))

	require.NoError(t, keys.EnsureKey(t.Context(), params))
	require.NoError(t, keys.EnsureKey(t.Context(), params), "again is no error")
	found, err := find(params.Key)
	require.NoError(t, err)
	require.Equal(t, keystore.DefaultTenant, found.TenantID)
	require.Equal(t, "ci", found.Name)
	require.Equal(t, params.Scopes, found.Scopes)
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM api_keys"))
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM api_keys WHERE api_keys::text LIKE '%' || $1 || '%'", params.Key), "the key itself is not stored")
	_, err = find(params.Key + "x")
	require.Equal(t, errs.NotFound, errs.CodeOf(err))

	require.Equal(t, time.Hour, found.Left, "what never ends is told of as an hour")
	b.Exec(t, "UPDATE api_keys SET expires_at = now() + interval '10 minutes'")
	found, err = find(params.Key)
	require.NoError(t, err)
	require.Greater(t, found.Left, time.Duration(0))
	require.LessOrEqual(t, found.Left, 10*time.Minute)
	for name, sql := range map[string]string{
		"expired": "UPDATE api_keys SET expires_at = now() - interval '1 s'",
		"revoked": "UPDATE api_keys SET expires_at = NULL, revoked_at = now()",
	} {
		b.Exec(t, sql)
		_, err = find(params.Key)
		require.Equal(t, errs.NotFound, errs.CodeOf(err), name)
	}
	require.NoError(t, keys.EnsureKey(t.Context(), params))
	_, err = find(params.Key)
	require.Equal(t, errs.NotFound, errs.CodeOf(err), "a revoked key stays revoked")

	b.DB.Close()
	_, err = find(params.Key)
	require.Equal(t, errs.Unavailable, errs.CodeOf(err), "no database is no reason to say that a key is wrong")
}
