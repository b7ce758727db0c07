package contract

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEndpointVersionsAreListedAndRead edits an endpoint twice and looks back.
func TestEndpointVersionsAreListedAndRead(t *testing.T) {
	t.Parallel()
	w := setup(t)
	made := w.call(t, "POST", "/v1/endpoints", `{"name":"one","url":"https://p.example/","baselineIntervalMs":60000,"headers":{"Authorization":"hidden","X":"shown"}}`).
		is(t, http.StatusCreated)
	path := "/v1/endpoints/" + made["id"].(string) //nolint:forcetypeassert // The contract says so.
	w.call(t, "PATCH", path, `{"name":"two","retry":{"maxAttempts":2}}`).is(t, http.StatusOK)
	w.call(t, "PATCH", path, `{"headers":{"Authorization":"changed"}}`).is(t, http.StatusOK)
	w.call(t, "POST", path+"/pause", `{}`).is(t, http.StatusOK)

	page := w.call(t, "GET", path+"/versions?limit=2", "").is(t, http.StatusOK)
	items := page["items"].([]any) //nolint:forcetypeassert // Likewise.
	require.Len(t, items, 2)
	third, second := items[0].(map[string]any), items[1].(map[string]any) //nolint:forcetypeassert // Likewise.
	require.EqualValues(t, 3, third["version"])
	require.Equal(t, []any{"headers"}, third["changes"])
	require.Equal(t, []any{"name", "retry"}, second["changes"])
	require.NotEmpty(t, third["changedBy"])
	last := w.call(t, "GET", path+"/versions?limit=2&cursor="+page["nextCursor"].(string), "").is(t, http.StatusOK) //nolint:forcetypeassert // Likewise.
	require.NotContains(t, last, "nextCursor")
	first := last["items"].([]any)[0].(map[string]any) //nolint:forcetypeassert // Likewise.
	require.EqualValues(t, 1, first["version"])
	require.NotContains(t, first, "changes")

	entries := w.call(t, "GET", "/v1/audit?object="+made["id"].(string), "").is(t, http.StatusOK)["items"].([]any) //nolint:forcetypeassert // Likewise.
	require.Equal(t, third["auditId"], entries[1].(map[string]any)["id"], "the entry before that of the pause")    //nolint:forcetypeassert // Likewise.

	whole := w.call(t, "GET", path+"/versions/1", "").is(t, http.StatusOK)
	spec := whole["spec"].(map[string]any) //nolint:forcetypeassert // Likewise.
	require.Equal(t, "one", spec["name"])
	require.EqualValues(t, 60000, spec["baselineIntervalMs"])
	require.Equal(t, map[string]any{"Authorization": "***", "X": "shown"}, spec["headers"])
	require.Equal(t, []any{"name", "retry"}, w.call(t, "GET", path+"/versions/2", "").is(t, http.StatusOK)["changes"])

	missing := w.call(t, "GET", path+"/versions/4", "").is(t, http.StatusNotFound)
	require.Contains(t, missing["detail"], "there is no version 4")
	refused := w.call(t, "GET", path+"/versions/latest", "")
	require.Equal(t, http.StatusBadRequest, refused.status)
	require.Equal(t, "version", refused.problem(t).Errors[0].Field)
	for _, reader := range []string{path + "/versions", path + "/versions/1"} {
		require.Equal(t, http.StatusNotFound, w.call(t, "GET", reader, "", key(otherKey)).status)
	}
}
