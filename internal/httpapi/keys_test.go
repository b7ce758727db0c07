package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASecretIsShownOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	made := s.call("POST", "/v1/keys", `{"name":"ci","scopes":["write"],"expiresAt":"2100-01-01T00:00:00Z"}`, withKey(adminKey))
	key := made.is(http.StatusCreated)
	secret, _ := key["secret"].(string)
	require.True(t, strings.HasPrefix(secret, "rbt_"))
	require.Equal(t, secret[:8], key["prefix"])
	require.Equal(t, "active", key["state"])
	require.Equal(t, "/v1/keys/"+key["id"].(string), made.header.Get("Location"))

	read := s.call("GET", made.header.Get("Location"), "", withKey(adminKey)).is(http.StatusOK)
	delete(key, "secret")
	require.Equal(t, key, read)
	list := s.call("GET", "/v1/keys", "", withKey(adminKey))
	require.Equal(t, []any{read}, list.is(http.StatusOK)["items"])
	require.NotContains(t, string(list.body), secret)

	rotated := s.call("POST", made.header.Get("Location")+"/rotate", "", withKey(adminKey)).is(http.StatusOK)
	require.NotEqual(t, secret, rotated["secret"])
	require.Equal(t, key["id"], rotated["id"])
	require.Equal(t, "active", rotated["state"])
}

func TestBadKeys(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for body, want := range map[string][]string{
		`{}`:                                                                  {"name required", "scopes required"},
		`{"name":"","scopes":[]}`:                                             {"name required", "scopes required"},
		`{"name":"k","scopes":"read"}`:                                        {"scopes invalid_type"},
		`{"name":"k","scopes":[1]}`:                                           {"scopes[0] invalid_type"},
		`{"name":"k","scopes":["root"]}`:                                      {"scopes[0] invalid_value"},
		`{"name":"k","scopes":["read","read"]}`:                               {"scopes[1] invalid_value"},
		`{"name":"k","scopes":["root",5]}`:                                    {"scopes[1] invalid_type", "scopes[0] invalid_value"},
		`{"name":"k","scopes":[5,"read","root"]}`:                             {"scopes[0] invalid_type", "scopes[2] invalid_value"},
		`{"name":"k","scopes":["read"],"secret":"mine"}`:                      {"secret unknown_field"},
		`{"name":" k","scopes":["read"]}`:                                     {"name invalid_characters"},
		`{"name":"planner:heuristic","scopes":["write"]}`:                     {"name name_reserved"},
		`{"name":"Planner:x","scopes":["write"]}`:                             {"name name_reserved"},
		`{"name":"a\nb","scopes":["read"]}`:                                   {"name invalid_characters"},
		`{"name":"a\u202eb","scopes":["read"]}`:                               {"name invalid_characters"},
		`{"name":"` + strings.Repeat("x", 256) + `","scopes":["read"]}`:       {"name too_long"},
		`{"name":"k","scopes":["read"],"expiresAt":"1999-01-01T00:00:00Z"}`:   {"expiresAt out_of_range"},
		`{"name":"k","scopes":["read"],"expiresAt":"2200-01-01T00:00:00Z"}`:   {"expiresAt out_of_range"},
		`{"name":"k","scopes":["read"],"expiresAt":"soon","tenantId":"mine"}`: {"expiresAt invalid_time", "tenantId unknown_field"},
		`{"name":"\u0000","scopes":["read"]}`:                                 {"name invalid_characters"},
	} {
		a := s.call("POST", "/v1/keys", body, withKey(adminKey))
		require.Equal(t, want, a.complaints(), "%s: %s", body, a.body)
	}
	require.Empty(t, s.store.keys)
	id := s.makeKey("read")
	for body, want := range map[string][]string{
		`{"overlapMs":-1}`:             {"overlapMs out_of_range"},
		`{"overlapMs":86400001}`:       {"overlapMs out_of_range"},
		`{"overlapMs":"1h"}`:           {"overlapMs invalid_type"},
		`{"overlap":1,"overlapMs":-1}`: {"overlap unknown_field", "overlapMs out_of_range"},
	} {
		require.Equal(t, want, s.call("POST", "/v1/keys/"+id+"/rotate", body, withKey(adminKey)).complaints(), body)
	}
	for _, path := range []string{"/v1/audit?actor=me", "/v1/audit?from=x", "/v1/audit?object=", "/v1/keys?state=new", "/v1/keys?cursor=x", "/v1/audit?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z"} {
		s.call("GET", path, "", withKey(adminKey)).is(http.StatusBadRequest)
	}
}

func TestRevokedKeys(t *testing.T) {
	t.Parallel()
	s := newService(t)
	reader, admin := s.makeKey("read"), s.makeKey("admin")
	s.call("DELETE", "/v1/keys/"+reader, "", withKey(adminKey)).is(http.StatusNoContent)
	s.call("DELETE", "/v1/keys/"+reader, "", withKey(adminKey)).is(http.StatusNoContent)
	require.Equal(t, "revoked", s.call("GET", "/v1/keys/"+reader, "", withKey(adminKey)).is(http.StatusOK)["state"])
	require.Equal(t, "key_not_in_force", s.call("POST", "/v1/keys/"+reader+"/rotate", "", withKey(adminKey)).problem().Code)
	a := s.call("DELETE", "/v1/keys/"+admin, "", withKey(adminKey))
	require.Equal(t, http.StatusConflict, a.status)
	require.Equal(t, "last_admin_key", a.problem().Code)
	require.Len(t, s.call("GET", "/v1/keys?state=active", "", withKey(adminKey)).is(http.StatusOK)["items"], 1)
	require.Len(t, s.call("GET", "/v1/keys?state=revoked", "", withKey(adminKey)).is(http.StatusOK)["items"], 1)
	first := s.call("GET", "/v1/keys?limit=1", "", withKey(adminKey)).is(http.StatusOK)
	second := s.call("GET", "/v1/keys?limit=1&cursor="+first["nextCursor"].(string), "", withKey(adminKey)).is(http.StatusOK)
	require.NotEqual(t, first["items"], second["items"])
	require.Nil(t, second["nextCursor"])
}
