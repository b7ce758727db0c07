package contract

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// secretChain is a chain of steps with credentials in clear, one of an endpoint, one of a call,
// and one of each in a compensation.
const secretChain = `{"steps":[
	{"name":"a","endpointId":"ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90","request":{"headers":{"Authorization":"Bearer LITERAL-1","X-Shop":"7"}},
	 "compensation":{"request":{"url":"https://api.example.com/undo","headers":{"X-Api-Key":"LITERAL-2"}}}},
	{"name":"b","after":["a"],"request":{"url":"https://api.example.com/","headers":{"Cookie":"id=LITERAL-3","X-Token":"{{secret \"t\"}}"}},
	 "compensation":{"endpointId":"ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90","request":{"headers":{"Authorization":"LITERAL-4"}}}}]}`

// TestSecretHeadersOfChainsAreMasked stores a chain with credentials and looks at every answer that
// has its definition.
func TestSecretHeadersOfChainsAreMasked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	stored := w.call(t, "PUT", "/v1/chains/saga", secretChain)
	stored.is(t, http.StatusCreated)
	run := w.call(t, "POST", "/v1/chains/saga/run", `{}`)
	id := run.is(t, http.StatusAccepted)["id"].(string)
	reader := key(w.keys["read"])
	for _, a := range []*answer{
		stored, run, w.call(t, "GET", "/v1/chains/saga", "", reader), w.call(t, "GET", "/v1/chains", "", reader),
		w.call(t, "GET", "/v1/chains/saga/runs", "", reader), w.call(t, "GET", "/v1/chain-runs/"+id, "", reader),
		w.call(t, "GET", "/v1/audit?kind=chain", "", key(adminKey)),
		w.call(t, "POST", "/v1/chain-runs/"+id+"/cancel", ""),
	} {
		require.Less(t, a.status, http.StatusBadRequest, "%s", a.body)
		require.NotContains(t, string(a.body), "LITERAL", "%s", a.body)
	}
	shown := w.call(t, "GET", "/v1/chain-runs/"+id, "", reader)
	require.Equal(t, 5, strings.Count(string(shown.body), `"***"`), "%s", shown.body)
	require.Contains(t, string(shown.body), `"X-Shop":"7"`)

	var fields []string
	for _, warning := range stored.is(t, http.StatusCreated)["warnings"].([]any) {
		require.Equal(t, "secret_in_clear", warning.(map[string]any)["code"])
		fields = append(fields, warning.(map[string]any)["field"].(string))
	}
	require.Equal(t, []string{
		"steps.0.request.headers.Authorization", "steps.0.compensation.request.headers.X-Api-Key",
		"steps.1.request.headers.Cookie", "steps.1.compensation.request.headers.Authorization",
	}, fields)
}

// TestAMaskedHeaderOfAChainKeepsItsValue stores a definition as it was read, with its steps in
// another order.
func TestAMaskedHeaderOfAChainKeepsItsValue(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.call(t, "PUT", "/v1/chains/saga", secretChain).is(t, http.StatusCreated)
	read := w.call(t, "GET", "/v1/chains/saga", "").is(t, http.StatusOK)["definition"].(map[string]any)
	body, err := json.Marshal(read)
	require.NoError(t, err)
	require.EqualValues(t, 1, w.call(t, "PUT", "/v1/chains/saga", string(body)).is(t, http.StatusOK)["version"], "an equal definition changes nothing")

	steps := read["steps"].([]any)
	steps[0], steps[1] = steps[1], steps[0]
	body, err = json.Marshal(read)
	require.NoError(t, err)
	require.EqualValues(t, 2, w.call(t, "PUT", "/v1/chains/saga", string(body)).is(t, http.StatusOK)["version"])
	var headers []string
	rows, err := w.pool.Query(t.Context(), `
		SELECT jsonb_path_query(definition, '$.**.headers.*') #>> '{}' FROM chains WHERE name = 'saga'`)
	require.NoError(t, err)
	for rows.Next() {
		var value string
		require.NoError(t, rows.Scan(&value))
		headers = append(headers, value)
	}
	require.ElementsMatch(t, []string{"Bearer LITERAL-1", "7", "LITERAL-2", "id=LITERAL-3", `{{secret "t"}}`, "LITERAL-4"}, headers)
}

// TestAMaskWithoutAValueIsRefused sends masks that stand for nothing: in a new chain, of another
// step, of a header that is not secret, and beside another bad field.
func TestAMaskWithoutAValueIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	masked := strings.NewReplacer("Bearer LITERAL-1", "***").Replace(secretChain)
	w.requireRefused(t, w.call(t, "PUT", "/v1/chains/fresh", masked), meaning, "steps.0.request.headers.Authorization masked_value")

	w.call(t, "PUT", "/v1/chains/saga", secretChain).is(t, http.StatusCreated)
	before := w.state(t)
	w.requireRefused(t, w.call(t, "PUT", "/v1/chains/saga", strings.Replace(masked, `"name":"a"`, `"name":"c"`, 1)), meaning,
		"steps.0.request.headers.Authorization masked_value")
	both := w.call(t, "PUT", "/v1/chains/saga", `{"onFailure":"explode","steps":[
		{"name":"a","endpointId":"ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90","request":{"headers":{"X-Shop":"***"}}}]}`)
	w.requireRefused(t, both, meaning, "steps.0.request.headers.X-Shop masked_value")
	w.requireRefused(t, both, meaning, "onFailure invalid_value")
	require.Equal(t, before, w.state(t))
}
