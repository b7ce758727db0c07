package contract

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	keystore "rubato/internal/store/keys"
)

// allProvocations are the provocations of every operation.
func allProvocations() map[string]map[int]provoke {
	all := provocations()
	maps.Copy(all, map[string]map[int]provoke{
		"sendCall":   {http.StatusConflict: withLost(http.StatusAccepted), http.StatusUnprocessableEntity: withBody(`{"url":"ftp://a"}`)},
		"cancelCall": {http.StatusConflict: onCanceled},
		"reportRun": {
			http.StatusUnauthorized: func(w *world, t *testing.T, o operation, _ string) *answer {
				return w.call(t, o.method, o.at(w.callback(t, "signed")), `{"status":"succeeded"}`)
			},
			http.StatusNotFound: func(w *world, t *testing.T, o operation, token string) *answer {
				return w.call(t, o.method, o.at("AAAA"+token[4:]), `{"status":"succeeded"}`)
			},
			http.StatusConflict: func(w *world, t *testing.T, o operation, token string) *answer {
				w.call(t, o.method, o.at(token), `{"status":"failed","error":"no room"}`, key("")).is(t, http.StatusOK)
				return w.call(t, o.method, o.at(token), `{"status":"succeeded"}`, key(""))
			},
			http.StatusUnprocessableEntity: withBody(`{"status":"progress","body":7,"error":"no"}`),
		},
		"replayDeadLetter":  {http.StatusConflict: onHandled, http.StatusUnprocessableEntity: withUsedKey},
		"discardDeadLetter": {http.StatusConflict: onHandled, http.StatusUnprocessableEntity: withBody(`{"reason":""}`)},
		"putChain": {
			http.StatusCreated: func(w *world, t *testing.T, o operation, _ string) *answer {
				return w.call(t, o.method, "/v1/chains/fresh", chain)
			},
			http.StatusUnprocessableEntity: withBody(`{"steps":[]}`),
		},
		"getChain":    {http.StatusNotFound: onUnknownChain},
		"deleteChain": {http.StatusNotFound: onUnknownChain},
		"runChain": {
			http.StatusNotFound: func(w *world, t *testing.T, o operation, _ string) *answer {
				return w.call(t, o.method, "/v1/chains/unknown/run", "{}")
			},
			http.StatusConflict: func(w *world, t *testing.T, o operation, _ string) *answer {
				w.call(t, o.method, o.at(""), `{"input":{"order":1},"idempotencyKey":"k"}`).is(t, http.StatusAccepted)
				return w.call(t, o.method, o.at(""), `{"input":{"order":2},"idempotencyKey":"k"}`)
			},
			http.StatusUnprocessableEntity: withBody(`{"input":{"other":1}}`),
		},
		"cancelChainRun": {http.StatusConflict: func(w *world, t *testing.T, o operation, id string) *answer {
			_, err := w.pool.Exec(t.Context(), "UPDATE chain_runs SET status = 'failed', ended_at = now() WHERE ended_at IS NULL")
			require.NoError(t, err)
			return w.call(t, o.method, o.at(id), "")
		}},
		"replayDeadLetters": {http.StatusConflict: withLost(http.StatusOK), http.StatusUnprocessableEntity: withBody(`{"perMinute":0}`)},
	})
	return all
}

func onCanceled(w *world, t *testing.T, o operation, id string) *answer {
	w.call(t, "DELETE", "/v1/calls/"+id, "").is(t, http.StatusOK)
	return w.call(t, o.method, o.at(id), "")
}

func onUnknownChain(w *world, t *testing.T, o operation, _ string) *answer {
	return w.call(t, o.method, "/v1/chains/unknown", "")
}

// chain is a chain of one step.
const chain = `{"inputs":{"order":{}},"steps":[{"name":"a","endpointId":"ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"}]}`

// chainRun returns the id of a run of a chain.
func (w *world) chainRun(t *testing.T) string {
	t.Helper()
	require.Less(t, w.call(t, "PUT", "/v1/chains/order", chain).status, http.StatusBadRequest)
	return w.call(t, "POST", "/v1/chains/order/run", "{}").is(t, http.StatusAccepted)["id"].(string)
}

func onHandled(w *world, t *testing.T, o operation, id string) *answer {
	w.call(t, "POST", "/v1/dead-letters/"+id+"/discard", `{"reason":"r"}`).is(t, http.StatusOK)
	return w.call(t, o.method, o.at(id), o.examples(t)[0])
}

// deadLetter returns the id of an open dead letter.
func (w *world) deadLetter(t *testing.T) string {
	t.Helper()
	endpoint := w.call(t, "POST", "/v1/endpoints", minimal).is(t, http.StatusCreated)["id"].(string)
	id := strings.TrimPrefix(w.run(t, endpoint), "run_")
	_, err := w.pool.Exec(t.Context(), `
		INSERT INTO dead_letters (id, tenant_id, endpoint_id, scheduled_for, created_at, attempt, infra_attempt, status, reason_code, request, sealed_under)
		VALUES ($1, $2, $3, now(), now(), 1, 0, 'failed', 'timeout', '{"request":{"url":"https://api.example.com/","method":"GET"},"key":"k"}', '')`,
		id, keystore.DefaultTenant, strings.TrimPrefix(endpoint, "ep_"))
	require.NoError(t, err)
	return "dl_" + id
}

// TestAReplayByFilterPassesRefusedDeadLetters has the oldest dead letters of an archived endpoint.
// They do not keep the others from their replay, and nothing remains in the end.
func TestAReplayByFilterPassesRefusedDeadLetters(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const all = "/v1/dead-letters/replay"
	refused := w.deadLetter(t)
	archived := w.call(t, "GET", "/v1/dead-letters/"+refused, "").is(t, http.StatusOK)["endpointId"].(string)
	w.call(t, "DELETE", "/v1/endpoints/"+archived, "").is(t, http.StatusNoContent)
	second := w.deadLetter(t)
	w.deadLetter(t)

	done := w.call(t, "POST", all, `{"limit":1}`).is(t, http.StatusOK)
	require.EqualValues(t, 1, done["replayed"])
	require.Equal(t, true, done["remaining"])
	require.Equal(t, second, done["next"])
	require.Equal(t, refused, done["refused"].([]any)[0].(map[string]any)["id"])

	done = w.call(t, "POST", all, `{"limit":1,"after":"`+second+`"}`).is(t, http.StatusOK)
	require.EqualValues(t, 1, done["replayed"])
	require.Equal(t, false, done["remaining"])
	require.Empty(t, done["refused"])

	done = w.call(t, "POST", all, `{"limit":1}`).is(t, http.StatusOK)
	require.EqualValues(t, 0, done["replayed"])
	require.Equal(t, false, done["remaining"], "only the refused one is left")
	require.Len(t, done["refused"], 1)
	require.NotContains(t, done, "next")

	w.requireRefused(t, w.call(t, "POST", all, `{"after":"ep_1","limit":0}`), meaning, "after invalid_id")
}
