package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/auth"
	"rubato/internal/secrets"
)

func TestSecretIsSealedAndNeverAnsweredWith(t *testing.T) {
	t.Parallel()
	const canary = "canary-5ad1c0de"
	s := newService(t)

	a := s.call("PUT", "/v1/secrets/payment", `{"value":"`+canary+`","description":"shop"}`)
	made := a.is(http.StatusCreated)
	require.Equal(t, "/v1/secrets/payment", a.header.Get("Location"))
	require.EqualValues(t, 1, made["version"])
	again := s.call("PUT", "/v1/secrets/payment", `{"value":"`+canary+`2"}`)
	require.EqualValues(t, 2, again.is(http.StatusOK)["version"])
	require.Equal(t, "shop", again.is(http.StatusOK)["description"], "as it was")

	value, err := testKeyring().Open(secrets.Identity{Tenant: auth.DefaultTenant(), Kind: secrets.Named, Name: "payment"}, s.store.sealed[0])
	require.NoError(t, err)
	require.Equal(t, canary, value.Reveal())
	list := s.call("GET", "/v1/secrets", "")
	require.Len(t, list.is(http.StatusOK)["items"], 2)
	bad := s.call("PUT", "/v1/secrets/payment", `{"value":"`+canary+`","descrption":"typing error"}`)
	require.Equal(t, http.StatusBadRequest, bad.status)
	for _, shown := range []string{string(a.body), string(again.body), string(list.body), string(bad.body), s.logs.String()} {
		require.NotContains(t, shown, canary)
	}
}

func TestBadSecretsAreRefused(t *testing.T) {
	t.Parallel()
	s := newService(t)
	huge, err := json.Marshal(strings.Repeat("é", 40_000)) // 40,000 characters, and more than 65,536 bytes.
	require.NoError(t, err)
	for name, tc := range map[string]struct{ path, body, want string }{
		"Empty":       {"a", `{"value":""}`, "value required"},
		"Missing":     {"a", `{}`, "value required"},
		"TooLong":     {"a", `{"value":` + string(huge) + `}`, "value too_long"},
		"Name":        {"Upper", `{"value":"v"}`, "name name_invalid"},
		"LongName":    {strings.Repeat("a", 101), `{"value":"v"}`, "name name_invalid"},
		"Description": {"a", `{"value":"v","description":"` + strings.Repeat("x", 1001) + `"}`, "description too_long"},
		"Control":     {"a", `{"value":"v","description":"\u0000"}`, "description invalid_characters"},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.call("PUT", "/v1/secrets/"+tc.path, tc.body)
			require.Equal(t, http.StatusUnprocessableEntity, a.status, "%s", a.body)
			require.Equal(t, tc.want, a.problem().Errors[0].Field+" "+a.problem().Errors[0].Code)
		})
	}
	require.Empty(t, s.store.sealed)
}

func TestServerWithoutKeysNamesTheSetting(t *testing.T) {
	t.Parallel()
	s := newServiceWithoutSecretKeys(t)
	for _, r := range []struct{ method, path, body string }{{"PUT", "/v1/secrets/a", `{"value":"v"}`}, {"POST", "/v1/signing-keys", `{"overlapMs":0}`}} {
		a := s.call(r.method, r.path, r.body, withKey(adminKey))
		require.Equal(t, http.StatusServiceUnavailable, a.status)
		require.Equal(t, "no_secret_keys", a.problem().Code)
		require.Contains(t, a.problem().Detail, "RUBATO_SECRET_KEYS")
	}
	require.Empty(t, s.store.sealed)
}

func TestSecretInUseIsDeletedByForceAlone(t *testing.T) {
	t.Parallel()
	s := newService(t)
	used := s.store.secrets["any"]
	used.Endpoints, used.Rules = 2, 1
	s.store.secrets["any"] = used

	a := s.call("DELETE", "/v1/secrets/any", "")
	require.Equal(t, http.StatusConflict, a.status)
	require.Equal(t, "secret_in_use", a.problem().Code)
	require.Contains(t, a.problem().Detail, `2 endpoints and 1 notice rule refer to the secret, such as "shop"`)
	require.EqualValues(t, 3, s.call("GET", "/v1/secrets/any", "").is(http.StatusOK)["usedBy"], "as many as the refusal counts")
	require.Equal(t, http.StatusConflict, s.call("DELETE", "/v1/secrets/any?force=false", "").status)
	for _, force := range []string{"yes", "1", "TRUE", ""} {
		a := s.call("DELETE", "/v1/secrets/any?force="+force, "")
		require.Equal(t, http.StatusBadRequest, a.status)
		require.Equal(t, []string{"force invalid_type"}, a.complaints(), force)
	}
	require.Equal(t, http.StatusNoContent, s.call("DELETE", "/v1/secrets/any?force=true", "").status)
	require.Equal(t, http.StatusNotFound, s.call("DELETE", "/v1/secrets/any?force=true", "").status)
}

func TestSecretsAreListedByPages(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, name := range []string{"c", "b", "a"} {
		s.call("PUT", "/v1/secrets/"+name, `{"value":"v"}`).is(http.StatusCreated)
	}
	first := s.call("GET", "/v1/secrets?limit=3", "").is(http.StatusOK)
	require.Len(t, first["items"], 3)
	cursor := first["nextCursor"].(string)
	rest := s.call("GET", "/v1/secrets?limit=3&cursor="+cursor, "").is(http.StatusOK)
	require.Len(t, rest["items"], 1)
	require.Equal(t, "c", rest["items"].([]any)[0].(map[string]any)["name"])
	require.NotContains(t, rest, "nextCursor")
	for _, broken := range []string{"x", "AAAA", cursor + "A"} {
		require.Equal(t, http.StatusBadRequest, s.call("GET", "/v1/secrets?cursor="+broken, "").status)
	}
	require.Equal(t, http.StatusBadRequest, s.call("GET", "/v1/secrets?cursor="+cursor, "", withKey(otherKey)).status)
}

func TestSigningKeysAreTwoAtMostAndShownOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	admin := withKey(adminKey)
	once := withHeader("Idempotency-Key", "once")

	made := s.call("POST", "/v1/signing-keys", "", admin, once).is(http.StatusCreated) // The second: one stands.
	require.Regexp(t, `^whsec_[A-Za-z0-9+/]{43}=$`, made["secret"])
	require.Equal(t, made, s.call("POST", "/v1/signing-keys", "", admin, once).is(http.StatusCreated), "the answer to a repetition")
	a := s.call("POST", "/v1/signing-keys", "", admin)
	require.Equal(t, http.StatusConflict, a.status)
	require.Equal(t, "too_many_signing_keys", a.problem().Code)
	list := s.call("GET", "/v1/signing-keys", "", admin)
	require.Len(t, list.is(http.StatusOK)["items"], 2)
	require.NotContains(t, string(list.body), made["secret"])
	require.NotContains(t, s.logs.String(), made["secret"])
	require.Equal(t, http.StatusNoContent, s.call("DELETE", "/v1/signing-keys/"+made["id"].(string), "", admin).status)

	for body, want := range map[string]string{
		`{"overlapMs":-1}`: "overlapMs out_of_range", `{"overlapMs":7776000001}`: "overlapMs out_of_range",
		`{"expiresAt":"1999-01-01T00:00:00Z"}`: "expiresAt out_of_range",
	} {
		a := s.call("POST", "/v1/signing-keys", body, admin)
		require.Equal(t, http.StatusUnprocessableEntity, a.status, "%s", a.body)
		require.Equal(t, want, a.problem().Errors[0].Field+" "+a.problem().Errors[0].Code)
	}
}
