package contract

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUnreadableStoredConfigurationIsReportedByEndpoint stores what no release of the server
// writes: a text where a flag belongs.
func TestUnreadableStoredConfigurationIsReportedByEndpoint(t *testing.T) {
	t.Parallel()
	w := setup(t)
	register := func(key string) string {
		made := w.call(t, "POST", "/v1/endpoints", strings.Replace(minimal, `{`, `{"key":"`+key+`",`, 1)).is(t, http.StatusCreated)
		return made["id"].(string) //nolint:forcetypeassert // The contract says so.
	}
	broken, whole := register("broken"), register("whole")
	_, err := w.pool.Exec(t.Context(), `UPDATE endpoints SET spec = spec || '{"sign": "yes"}' WHERE key = 'broken'`)
	require.NoError(t, err)

	const code = "stored_configuration_unreadable"
	line := `{"key":"broken",` + strings.TrimPrefix(minimal, `{`)
	for what, asked := range map[string]*answer{
		"Read":    w.call(t, "GET", "/v1/endpoints/"+broken, ""),
		"Edit":    w.call(t, "PATCH", "/v1/endpoints/"+broken, `{"name":"other"}`),
		"Pause":   w.call(t, "POST", "/v1/endpoints/"+broken+"/pause", `{}`),
		"Replace": w.call(t, "PUT", "/v1/endpoints/by-key/broken", minimal),
		"Export":  w.call(t, "GET", "/v1/endpoints:export", ""),
	} {
		told := asked.is(t, http.StatusInternalServerError)
		require.Equal(t, code, told["code"], what)
		require.Contains(t, told["detail"], broken, what)
		require.Contains(t, told["detail"], "because sign has the wrong type", what)
		require.Contains(t, told["detail"], "delete the endpoint", what)
	}
	imported := w.call(t, "POST", "/v1/endpoints:import", line+"\n"+strings.Replace(line, "broken", "fresh", 1)+"\n",
		header("Content-Type", lineMedia))
	require.Equal(t, http.StatusOK, imported.status)
	require.Contains(t, string(imported.body), code)
	require.Contains(t, string(imported.body), `"created"`, "the next line is carried out")

	items := w.call(t, "GET", "/v1/endpoints", "").is(t, http.StatusOK)["items"].([]any) //nolint:forcetypeassert // Likewise.
	require.Len(t, items, 3, "the list is whole")
	for _, item := range items {
		e := item.(map[string]any) //nolint:forcetypeassert // Likewise.
		if e["id"] != broken {
			require.NotContains(t, e, "warnings")
			continue
		}
		require.Equal(t, "broken", e["key"])
		mark := e["warnings"].([]any)[0].(map[string]any) //nolint:forcetypeassert // Likewise.
		require.Equal(t, code, mark["code"])
		require.Contains(t, mark["message"], broken)
	}

	require.Equal(t, http.StatusNoContent, w.call(t, "DELETE", "/v1/endpoints/"+broken, "").status, "the way out that the error names")
	require.Equal(t, http.StatusOK, w.call(t, "GET", "/v1/endpoints:export", "").status)
	w.call(t, "GET", "/v1/endpoints/"+whole, "").is(t, http.StatusOK)
}
