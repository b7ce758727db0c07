package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPutByKeyCreatesReplacesAndLeavesTheSame(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const path = "/v1/endpoints/by-key/shop"
	const body = `{"name":"Shop","url":"https://a.example/","baselineIntervalMs":60000,"headers":{"Authorization":"secret"}}`

	first := s.call("PUT", path, body)
	created := first.is(http.StatusCreated)
	require.Equal(t, "shop", created["key"])
	require.Equal(t, `"1"`, first.header.Get("ETag"))
	require.Equal(t, "/v1/endpoints/"+created["id"].(string), first.header.Get("Location")) //nolint:forcetypeassert // The contract was checked.
	writes := s.store.writes

	same := s.call("PUT", path, body)
	require.Equal(t, created["id"], same.is(http.StatusOK)["id"])
	require.Equal(t, `"1"`, same.header.Get("ETag"))
	s.call("PUT", path, strings.Replace(body, `"secret"`, `"***"`, 1)).is(http.StatusOK)
	require.Equal(t, writes, s.store.writes, "what is the same is not written, a mask included")

	replaced := s.call("PUT", path, `{"key":"shop","name":"Shop 2","url":"https://a.example/","baselineIntervalMs":60000}`)
	require.Equal(t, "Shop 2", replaced.is(http.StatusOK)["name"])
	require.Equal(t, `"2"`, replaced.header.Get("ETag"))
	require.Empty(t, s.only().Spec.Headers, "what is not given has its default")
}

func TestPutByKeyHonoursConditions(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const path = "/v1/endpoints/by-key/shop"
	s.call("PUT", path, minimal, withHeader("If-None-Match", "*")).is(http.StatusCreated)
	for name, tc := range map[string]struct {
		header, value, path string
		status              int
		says                string // in the detail
	}{
		"OnlyCreate":      {"If-None-Match", "*", path, 412, "exists already"},
		"NotThisVersion":  {"If-None-Match", `"1"`, path, 412, "has the version that If-None-Match names"},
		"NotOtherVersion": {"If-None-Match", `"7"`, path, 200, ""},
		"ThisVersion":     {"If-Match", `"1"`, path, 200, ""},
		"OtherVersion":    {"If-Match", `"2"`, path, 412, "was changed since it was read"},
		"Weak":            {"If-Match", `W/"1"`, path, 412, "was changed since it was read"},
		"OnlyReplace":     {"If-Match", "*", path, 200, ""},
		"NothingThere":    {"If-Match", "*", path + "2", 412, "there is no such endpoint"},
		"Garbage":         {"If-None-Match", "1", path, 400, ""},
	} {
		a := s.call("PUT", tc.path, minimal, withHeader(tc.header, tc.value))
		require.Equal(t, tc.status, a.status, "%s: %s", name, a.body)
		if tc.says != "" {
			require.Contains(t, a.problem().Detail, tc.says, name)
		}
	}
	require.Equal(t, int64(1), s.only().Version)
}

func TestPutByKeyRefuses(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for name, tc := range map[string]struct{ path, body, want string }{
		"OtherKey": {"a", `{"key":"b","name":"p","url":"https://a.example/","baselineIntervalMs":60000}`, "key key_mismatch"},
		"BadKey":   {"A%20b", minimal, "key invalid_characters"},
		"Mask":     {"a", `{"name":"p","url":"https://a.example/","baselineIntervalMs":60000,"headers":{"Cookie":"***"}}`, "headers.Cookie masked_value"},
		"Missing":  {"a", `{"url":"https://a.example/","baselineIntervalMs":60000}`, "name required"},
	} {
		a := s.call("PUT", "/v1/endpoints/by-key/"+tc.path, tc.body)
		require.Equal(t, http.StatusUnprocessableEntity, a.status, "%s: %s", name, a.body)
		require.Contains(t, a.complaints(), tc.want, name)
	}
	require.Zero(t, s.store.writes)
}

func TestListsReturnTheRequestedFields(t *testing.T) {
	t.Parallel()
	s := newService(t, samples())
	id := s.register(minimal)
	raw := func(path string) *answer { // The contract says that the other required ones are left out, which a schema cannot.
		w := s.send("GET", path)
		return &answer{t: t, status: w.Code, header: w.Header(), body: w.Body.Bytes()}
	}
	require.JSONEq(t, `{"items":[{"id":"`+id+`","name":"p"}]}`, string(raw("/v1/endpoints?fields=id,name,key").body))
	list := raw("/v1/runs?fields=status,%20id&limit=1").is(http.StatusOK)
	require.Len(t, list["items"].([]any)[0], 2) //nolint:forcetypeassert // Fails loudly.
	require.NotEmpty(t, list["nextCursor"])
	a := s.call("GET", "/v1/endpoints?fields=id,url2", "")
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Contains(t, a.problem().Errors[0].Message, `"url2" is no field`)
	require.Contains(t, a.problem().Errors[0].Message, "nextRunAt")
	require.Equal(t, http.StatusBadRequest, s.call("GET", "/v1/runs?fields=", "").status)
	require.Equal(t, http.StatusBadRequest, s.call("GET", "/v1/endpoints/"+id+"/runs?fields=url", "").status)
}
