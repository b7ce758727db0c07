package httpapi_test

import (
	"encoding/base64"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecisionsArePaged(t *testing.T) {
	t.Parallel()
	s := newService(t)
	id, other := s.register(minimal), s.register(minimal)
	path := "/v1/endpoints/" + id + "/decisions"
	page := s.call("GET", path+"?limit=2", "").is(http.StatusOK)
	items := page["items"].([]any)
	require.Len(t, items, 2)
	first := items[0].(map[string]any)
	require.Equal(t, "register", first["cause"])
	require.EqualValues(t, 1, first["version"])
	require.Equal(t, map[string]any{"now": "2026-03-01T12:00:00Z"}, first["input"])
	require.NotContains(t, first, "runId")
	cursor := page["nextCursor"].(string)
	rest := s.call("GET", path+"?limit=2&cursor="+cursor, "").is(http.StatusOK)
	require.Len(t, rest["items"], 1)
	require.NotContains(t, rest, "nextCursor")
	for _, bad := range []string{
		path + "?cursor=AAAA", path + "?cursor=" + base64.RawURLEncoding.EncodeToString(make([]byte, 40)),
		"/v1/endpoints/" + other + "/decisions?cursor=" + cursor,
	} {
		a := s.call("GET", bad, "")
		require.Equal(t, http.StatusBadRequest, a.status)
		require.Equal(t, []string{"cursor invalid_cursor"}, a.complaints(), bad)
	}
}
