package contract

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/planner"
)

// planned writes an analysis of a new endpoint with a suggestion, as a planner does.
func (w *world) planned(t *testing.T, tenant [16]byte) (session, suggestion string) {
	t.Helper()
	made := w.call(t, "POST", "/v1/endpoints", minimal).is(t, http.StatusCreated)["id"].(string)
	endpoint, err := endpoints.ParseID(made)
	require.NoError(t, err)
	s, g := planner.NewSessionID(), planner.NewSuggestionID()
	_, err = w.pool.Exec(t.Context(), `
		INSERT INTO planner_sessions (id, tenant_id, endpoint_id, version, started_at, finished_at, advisor, trigger, authority, outcome,
		                              reasoning, confidence, next_analysis_at, calls, changes, warnings, error, model, prompt_digest,
		                              prompt_tokens, completion_tokens, cost_micros)
		VALUES ($1, $2, $3, 1, now(), now(), 'heuristic', 'time_reached', 'act', 'acted', 'its answers change', 0.5,
		        now() + interval '1 hour', '[{"tool":"propose_interval","arguments":{"intervalMs":30000},"result":"taken","refused":false}]',
		        '["run every 30s for 1h0m0s: it changes"]', '[]', '', '', '', 0, 0, 0)`, [16]byte(s), tenant, [16]byte(endpoint))
	require.NoError(t, err)
	_, err = w.pool.Exec(t.Context(), `
		INSERT INTO planner_suggestions (id, tenant_id, endpoint_id, session_id, advisor, version, plan, reasoning, created_at, expires_at, state)
		VALUES ($1, $2, $3, $4, 'heuristic', 1, '{"interval":{"spanMs":30000,"ttlMs":3600000,"reason":"it changes"}}', 'its answers change',
		        now(), now() + interval '1 hour', 'pending')`, [16]byte(g), tenant, [16]byte(endpoint), [16]byte(s))
	require.NoError(t, err)
	return s.String(), g.String()
}

// decidedBefore asks for a decision on a suggestion that was rejected.
func decidedBefore(w *world, t *testing.T, o operation, id string) *answer {
	w.call(t, "POST", "/v1/planner/suggestions/"+id+"/reject", "").is(t, http.StatusOK)
	return w.call(t, o.method, o.at(id), "")
}

// changedNothing asks to undo an analysis that only suggested something.
func changedNothing(w *world, t *testing.T, o operation, _ string) *answer {
	session, _ := w.planned(t, [16]byte{15: 1})
	_, err := w.pool.Exec(t.Context(), `UPDATE planner_sessions SET outcome = 'suggested', authority = 'suggest' WHERE outcome = 'acted'`)
	require.NoError(t, err)
	return w.call(t, o.method, o.at(session), "")
}

// unknownEndpoint filters a list by an endpoint that does not exist.
func unknownEndpoint(w *world, t *testing.T, o operation, _ string) *answer {
	return w.call(t, o.method, o.route+"?endpointId="+unknown("ep_"), "")
}

// A suggestion that was approved is in force, under the name of the planner; the endpoint shows
// until when.
func TestApprovedSuggestionIsInForce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, id := w.planned(t, [16]byte{15: 1})
	approved := w.call(t, "POST", "/v1/planner/suggestions/"+id+"/approve", "").is(t, http.StatusOK)
	require.Equal(t, "approved", approved["state"])
	endpoint := w.call(t, "GET", "/v1/endpoints/"+approved["endpointId"].(string), "").is(t, http.StatusOK)
	hint := endpoint["hints"].(map[string]any)["interval"].(map[string]any)
	require.Equal(t, "planner:heuristic", hint["author"])
	require.InDelta(t, 30000, hint["intervalMs"], 0)

	_, id = w.planned(t, [16]byte{15: 1})
	pending := w.call(t, "GET", "/v1/planner/suggestions?state=pending", "").is(t, http.StatusOK)["items"].([]any)
	require.Equal(t, id, pending[0].(map[string]any)["id"])
	target := pending[0].(map[string]any)["endpointId"].(string)
	w.call(t, "PATCH", "/v1/endpoints/"+target, `{"name":"edited since"}`).is(t, http.StatusOK)
	stale := w.call(t, "POST", "/v1/planner/suggestions/"+id+"/approve", "")
	require.Equal(t, http.StatusConflict, stale.status)
	require.Equal(t, "suggestion_stale", stale.problem(t).Code)
	require.True(t, strings.HasPrefix(id, "sg_"))
	require.Equal(t, "pending", w.call(t, "GET", "/v1/planner/suggestions?endpointId="+target, "").is(t, http.StatusOK)["items"].([]any)[0].(map[string]any)["state"])
}

// Undo removes the changes of an analysis by name and keeps a user's hint, and the planner may not
// write it again. A cleared hint is named as well.
func TestAnAnalysisIsUndone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	session, suggestion := w.planned(t, [16]byte{15: 1})
	target := w.call(t, "POST", "/v1/planner/suggestions/"+suggestion+"/approve", "").is(t, http.StatusOK)["endpointId"].(string)
	w.call(t, "PUT", "/v1/endpoints/"+target+"/hints/one-shot", `{"inMs":600000,"ttlMs":3600000,"reason":"mine"}`).is(t, http.StatusOK)

	undone := w.call(t, "POST", "/v1/planner/sessions/"+session+"/undo", "").is(t, http.StatusOK)
	hints := undone["hints"].(map[string]any)
	require.Nil(t, hints["interval"])
	require.NotNil(t, hints["oneShot"], "a person's")
	removed := warningOf(t, undone, "hint_removed")
	require.Contains(t, removed, "removed the interval hint of planner:heuristic: every 30s")
	require.Contains(t, removed, "the planner writes no other before")
	var held int
	require.NoError(t, w.pool.QueryRow(t.Context(), `
		SELECT count(*) FROM planner_holds WHERE kind = 'interval' AND until > now() + interval '3 hours 59 minutes'`).Scan(&held))
	require.Equal(t, 1, held)

	again := w.call(t, "POST", "/v1/planner/sessions/"+session+"/undo", "").is(t, http.StatusOK)
	require.Contains(t, warningOf(t, again, "nothing_in_force"), "has ended")
	cleared := w.call(t, "DELETE", "/v1/endpoints/"+target+"/hints", "").is(t, http.StatusOK)
	require.NotContains(t, warningOf(t, cleared, "hint_removed"), "planner", "whose hint it was")
}

// warningOf returns the message of the only warning with a code.
func warningOf(t *testing.T, answer map[string]any, code string) (message string) {
	t.Helper()
	for _, raw := range answer["warnings"].([]any) {
		if w := raw.(map[string]any); w["code"] == code {
			require.Empty(t, message)
			message = w["message"].(string)
		}
	}
	require.NotEmpty(t, message, "%v", answer["warnings"])
	return message
}

// A new endpoint has the authority observe by default. A registration with act gets a warning about
// its limits.
func TestNewEndpointIsObservedByDefault(t *testing.T) {
	t.Parallel()
	w := setup(t)
	made := w.call(t, "POST", "/v1/endpoints", `{"name":"n","url":"https://example.com/","baselineIntervalMs":10000}`).is(t, http.StatusCreated)
	require.Equal(t, "observe", made["planner"])
	for body, bounds := range map[string]string{
		`{"name":"n","url":"https://example.com/","timeoutMs":1000,"baselineIntervalMs":10000,"planner":"act"}`:                                            "every 10s to every 1m20s; never faster than the baseline, because minIntervalMs is not set",
		`{"name":"n","url":"https://example.com/","timeoutMs":1000,"baselineIntervalMs":10000,"planner":"act","minIntervalMs":2000,"maxIntervalMs":60000}`: "every 2s to every 1m0s",
	} {
		made = w.call(t, "POST", "/v1/endpoints", body).is(t, http.StatusCreated)
		require.Contains(t, warningOf(t, made, "planner_bounds"), bounds)
	}
}
