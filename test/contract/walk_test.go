package contract

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"rubato/internal/notices"
	"rubato/internal/secrets"
	"rubato/internal/signing"
	"rubato/internal/spending"
	keystore "rubato/internal/store/keys"
)

// elsewhere are the statuses that internal/httpapi provokes on every route, because a healthy
// server does not give them.
func elsewhere() []int {
	return []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable}
}

// provoke makes an operation answer with a status that no general case does, for a fresh object.
type provoke func(w *world, t *testing.T, o operation, id string) *answer

// provocations reach each remaining documented status. A new status in the contract needs an entry
// here.
func provocations() map[string]map[int]provoke {
	stopped := map[int]provoke{http.StatusConflict: onStoppedWorker, http.StatusUnprocessableEntity: withUsedKey}
	once := map[int]provoke{http.StatusConflict: onArchived, http.StatusUnprocessableEntity: withUsedKey}
	list := map[string]map[int]provoke{
		"createEndpoint": {http.StatusConflict: withTakenKey, http.StatusUnprocessableEntity: withBody(`{"name":""}`)},
		"patchEndpoint": {
			http.StatusConflict:            onArchived,
			http.StatusPreconditionFailed:  withBody(`{"name":"q"}`, header("If-Match", `"99"`)),
			http.StatusUnprocessableEntity: withBody(`{"name":""}`),
		},
		"archiveEndpoint": {http.StatusPreconditionFailed: withBody("", header("If-Match", `"99"`))},
		"pauseEndpoint":   {http.StatusConflict: onArchived, http.StatusUnprocessableEntity: withBody(`{"until":"1999-01-01T00:00:00Z"}`)},
		"putIntervalHint": {http.StatusConflict: onArchived, http.StatusUnprocessableEntity: withBody(`{"intervalMs":1}`)},
		"putOneShotHint":  {http.StatusConflict: onArchived, http.StatusUnprocessableEntity: withBody(`{}`)},
		"judgeNoise":      {http.StatusConflict: onArchived, http.StatusUnprocessableEntity: withBody(`{"path":"","state":"rejected"}`)},
		"resumeEndpoint":  once, "resetFailures": once,
		"runEndpoint":  once,
		"drainWorker":  stopped,
		"resumeWorker": stopped,
		"testEndpoint": once,
		"testRequest":  {http.StatusConflict: withLost(http.StatusOK), http.StatusUnprocessableEntity: withBody(`{"name":""}`)},
		"clearHints":   {http.StatusConflict: onArchived},
		"explain":      {http.StatusUnprocessableEntity: withBody(`{}`)},
		"createKey":    {http.StatusConflict: withLost(http.StatusCreated), http.StatusUnprocessableEntity: withBody(`{"name":""}`)},
		"rotateKey":    {http.StatusConflict: onRevoked, http.StatusUnprocessableEntity: withBody(`{"overlapMs":-1}`)},
		"revokeKey":    {http.StatusConflict: lastAdmin},
		"cancelRun":    {http.StatusConflict: onFinished, http.StatusUnprocessableEntity: withBody(`{"reason":"` + strings.Repeat("x", 501) + `"}`)},
		"rerunRun":     {http.StatusConflict: onUnfinished, http.StatusUnprocessableEntity: withBody(`{"as":"then","deadlineMs":0}`)},
		"putEndpointByKey": {
			http.StatusOK:                  withBody(minimal),
			http.StatusConflict:            onContestedKey,
			http.StatusPreconditionFailed:  withBody(minimal, header("If-None-Match", "*")),
			http.StatusUnprocessableEntity: withBody(strings.Replace(minimal, `{`, `{"key":"another",`, 1)),
		},
		"listPlannerSessions":      {http.StatusNotFound: unknownEndpoint},
		"undoPlannerSession":       {http.StatusConflict: changedNothing, http.StatusUnprocessableEntity: withUsedKey},
		"listPlannerSuggestions":   {http.StatusNotFound: unknownEndpoint},
		"approvePlannerSuggestion": {http.StatusConflict: decidedBefore, http.StatusUnprocessableEntity: withUsedKey},
		"rejectPlannerSuggestion":  {http.StatusConflict: decidedBefore, http.StatusUnprocessableEntity: withUsedKey},
		"putSecret": {
			http.StatusCreated: func(w *world, t *testing.T, o operation, _ string) *answer {
				return w.call(t, o.method, "/v1/secrets/fresh", `{"value":"v"}`)
			},
			http.StatusConflict:            withTooManySecrets,
			http.StatusUnprocessableEntity: withBody(`{"value":""}`),
		},
		"getSecret": {http.StatusNotFound: func(w *world, t *testing.T, o operation, _ string) *answer {
			return w.call(t, o.method, "/v1/secrets/unknown", "")
		}},
		"deleteSecret": {
			http.StatusNotFound: func(w *world, t *testing.T, o operation, _ string) *answer {
				return w.call(t, o.method, "/v1/secrets/unknown", "")
			},
			http.StatusConflict: inUse,
		},
		"putBudget": {
			http.StatusCreated: func(w *world, t *testing.T, o operation, _ string) *answer {
				return w.call(t, o.method, "/v1/budgets/label:team=fresh", `{"budget":"600/h"}`)
			},
			http.StatusConflict:            withTooManyBudgets,
			http.StatusUnprocessableEntity: withBody(`{"budget":"600"}`),
		},
		"putNoticeRule": {
			http.StatusCreated: func(w *world, t *testing.T, o operation, _ string) *answer {
				return w.call(t, o.method, "/v1/notice-rules/fresh", noticeRule)
			},
			http.StatusConflict:            withTooManyRules,
			http.StatusPreconditionFailed:  withBody(noticeRule, header("If-Match", `"99"`)),
			http.StatusUnprocessableEntity: withBody(`{"event":"failures","channel":{"kind":"slack","urlSecret":"untold"}}`),
		},
		"getNoticeRule": {http.StatusNotFound: func(w *world, t *testing.T, o operation, _ string) *answer {
			return w.call(t, o.method, "/v1/notice-rules/unknown", "")
		}},
		"deleteNoticeRule": {
			http.StatusNotFound: func(w *world, t *testing.T, o operation, _ string) *answer {
				return w.call(t, o.method, "/v1/notice-rules/unknown", "")
			},
			http.StatusPreconditionFailed: withBody("", header("If-Match", `"99"`)),
		},
		"testNoticeRule": {
			http.StatusNotFound: func(w *world, t *testing.T, o operation, _ string) *answer {
				return w.call(t, o.method, "/v1/notice-rules/unknown/test", "")
			},
			http.StatusConflict:            withLostTestOfARule,
			http.StatusUnprocessableEntity: withUsedKeyForARule,
		},
		"listNotices": {http.StatusNotFound: unknownEndpoint},
		"retryNotice": {http.StatusConflict: onSentAgain, http.StatusUnprocessableEntity: withUsedKey},
		"putMaintenanceWindow": {
			http.StatusCreated: func(w *world, t *testing.T, o operation, _ string) *answer {
				return w.call(t, o.method, "/v1/maintenance-windows/fresh", maintenanceWindow)
			},
			http.StatusConflict:            withTooManyWindows,
			http.StatusPreconditionFailed:  withBody(maintenanceWindow, header("If-None-Match", "*")),
			http.StatusUnprocessableEntity: withBody(`{"startsAt":"2026-12-01T22:00:00Z","endsAt":"2026-11-01T22:00:00Z"}`),
		},
		"deleteMaintenanceWindow": {http.StatusNotFound: func(w *world, t *testing.T, o operation, _ string) *answer {
			return w.call(t, o.method, "/v1/maintenance-windows/unknown", "")
		}},
		"createSigningKey": {http.StatusConflict: withLiveKeys, http.StatusUnprocessableEntity: withBody(`{"overlapMs":-1}`)},
		"watchEvents": {http.StatusNotFound: func(w *world, t *testing.T, o operation, _ string) *answer {
			return w.call(t, o.method, o.route+"?endpointId="+unknown("ep_"), "")
		}},
		"listEndpointRuns": {
			http.StatusNotFound: func(w *world, t *testing.T, o operation, _ string) *answer {
				return w.call(t, o.method, o.at("ep_x"), "")
			},
		},
		"listRuns": {http.StatusNotFound: func(w *world, t *testing.T, o operation, _ string) *answer {
			return w.call(t, o.method, o.route+"?endpointId="+unknown("ep_"), "")
		}},
	}
	maps.Copy(list, hostProvocations())
	return list
}

// hostProvocations are the provocations of the routes of hosts and budgets.
func hostProvocations() map[string]map[int]provoke {
	return map[string]map[int]provoke{
		"getBudget": {http.StatusNotFound: func(w *world, t *testing.T, o operation, _ string) *answer {
			return w.call(t, o.method, "/v1/budgets/label:team=unknown", "")
		}},
		"deleteBudget": {http.StatusNotFound: func(w *world, t *testing.T, o operation, _ string) *answer {
			return w.call(t, o.method, "/v1/budgets/label:team=unknown", "")
		}},
		"getHost": {http.StatusNotFound: func(w *world, t *testing.T, o operation, _ string) *answer {
			return w.call(t, o.method, "/v1/hosts/unknown.example", "")
		}},
		"patchHost": {
			http.StatusNotFound: func(w *world, t *testing.T, o operation, _ string) *answer {
				return w.call(t, o.method, "/v1/hosts/api.example.com:0", `{}`)
			},
			http.StatusUnprocessableEntity: withBody(`{"failuresToOpen":0,"windowMs":999}`),
		},
		"resetHost": {
			http.StatusNotFound: func(w *world, t *testing.T, o operation, _ string) *answer {
				return w.call(t, o.method, "/v1/hosts/unknown.example/reset", "")
			},
			http.StatusUnprocessableEntity: withUsedKeyForAHost,
		},
	}
}

func withBody(body string, changes ...change) provoke {
	return func(w *world, t *testing.T, o operation, id string) *answer {
		return w.call(t, o.method, o.at(id), body, changes...)
	}
}

func onArchived(w *world, t *testing.T, o operation, id string) *answer {
	w.call(t, "DELETE", "/v1/endpoints/"+id, "").is(t, http.StatusNoContent)
	return w.call(t, o.method, o.at(id), o.examples(t)[0])
}

func onRevoked(w *world, t *testing.T, o operation, id string) *answer {
	w.call(t, "DELETE", "/v1/keys/"+id, "").is(t, http.StatusNoContent)
	return w.call(t, o.method, o.at(id), "")
}

func onFinished(w *world, t *testing.T, o operation, _ string) *answer {
	endpoint := w.call(t, "POST", "/v1/endpoints", minimal).is(t, http.StatusCreated)["id"].(string)
	return w.call(t, o.method, o.at(w.run(t, endpoint)), "")
}

func onUnfinished(w *world, t *testing.T, o operation, _ string) *answer {
	return w.call(t, o.method, o.at(w.liveRun(t)), "")
}

// onContestedKey requests a key that another request takes and releases between the server's reads.
func onContestedKey(w *world, t *testing.T, o operation, _ string) *answer {
	_, err := w.pool.Exec(t.Context(), `
		CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
		CREATE TRIGGER lose BEFORE INSERT ON endpoints FOR EACH ROW WHEN (NEW.spec ->> 'key' = 'contested') EXECUTE FUNCTION lose()`)
	require.NoError(t, err)
	return w.call(t, o.method, strings.Replace(o.route, "{key}", "contested", 1), minimal)
}

func lastAdmin(w *world, t *testing.T, o operation, _ string) *answer {
	for _, k := range w.call(t, "GET", "/v1/keys", "").is(t, http.StatusOK)["items"].([]any) {
		if k := k.(map[string]any); slices.Contains(k["scopes"].([]any), any("admin")) {
			return w.call(t, o.method, o.at(k["id"].(string)), "")
		}
	}
	return nil
}

// withTooManySecrets asks for one secret more than a tenant can have.
func withTooManySecrets(w *world, t *testing.T, o operation, _ string) *answer {
	_, err := w.pool.Exec(t.Context(), `
		INSERT INTO secrets (tenant_id, name, description, version, sealed_under, sealed, created_at, created_by, updated_at, updated_by)
		SELECT $1, 'many-' || n, '', 1, 'k1', decode(repeat('00', 29), 'hex'), now(), '', now(), '' FROM generate_series(1, $2::integer) AS n`,
		keystore.DefaultTenant, secrets.MaxPerTenant)
	require.NoError(t, err)
	a := w.call(t, o.method, "/v1/secrets/one-more", `{"value":"v"}`)
	_, err = w.pool.Exec(t.Context(), "DELETE FROM secrets WHERE name LIKE 'many-%'")
	require.NoError(t, err)
	return a
}

// onStoppedWorker gives an order to a worker that has stopped.
func onStoppedWorker(w *world, t *testing.T, o operation, _ string) *answer {
	a := w.call(t, o.method, o.at(w.worker(t, "inactive")), "")
	require.Equal(t, "worker_stopped", a.problem(t).Code)
	return a
}

// withTooManyBudgets asks for one shared budget more than a tenant can have.
func withTooManyBudgets(w *world, t *testing.T, o operation, _ string) *answer {
	_, err := w.pool.Exec(t.Context(), `
		INSERT INTO budgets (tenant_id, name, budget, price, stepped_at, created_at, updated_at)
		SELECT $1, 'label:many=' || n, '1/h', 1, now(), now(), now() FROM generate_series(1, $2::integer) AS n`,
		keystore.DefaultTenant, spending.MaxPerTenant)
	require.NoError(t, err)
	a := w.call(t, o.method, "/v1/budgets/tenant", `{"budget":"1/h"}`)
	_, err = w.pool.Exec(t.Context(), "DELETE FROM budgets WHERE name LIKE 'label:many=%'")
	require.NoError(t, err)
	return a
}

// withTooManyRules asks for one notice rule more than a tenant can have.
func withTooManyRules(w *world, t *testing.T, o operation, _ string) *answer {
	_, err := w.pool.Exec(t.Context(), `
		INSERT INTO notice_rules (id, tenant_id, name, event, threshold, labels, recovery, remind_ms, enabled, channel, version, created_at, created_by,
		                          updated_at, updated_by, scan_from)
		SELECT gen_random_uuid(), $1, 'many-' || n, 'lost', 1, '{}', true, 0, false, '{"kind": "slack"}', 1, now(), '', now(), '', now()
		FROM generate_series(1, $2::integer) AS n`,
		keystore.DefaultTenant, notices.MaxRules)
	require.NoError(t, err)
	a := w.call(t, o.method, "/v1/notice-rules/one-more", noticeRule)
	_, err = w.pool.Exec(t.Context(), "DELETE FROM notice_rules WHERE name LIKE 'many-%'")
	require.NoError(t, err)
	return a
}

// withTooManyWindows is withTooManyRules for maintenance windows.
func withTooManyWindows(w *world, t *testing.T, o operation, _ string) *answer {
	_, err := w.pool.Exec(t.Context(), `
		INSERT INTO maintenance_windows (tenant_id, name, labels, starts_at, ends_at, reason, created_at, created_by)
		SELECT $1, 'many-' || n, '{}', '2026-01-01', '2026-01-02', '', now(), '' FROM generate_series(1, $2::integer) AS n`,
		keystore.DefaultTenant, notices.MaxWindows)
	require.NoError(t, err)
	a := w.call(t, o.method, "/v1/maintenance-windows/one-more", maintenanceWindow)
	_, err = w.pool.Exec(t.Context(), "DELETE FROM maintenance_windows WHERE name LIKE 'many-%'")
	require.NoError(t, err)
	return a
}

// onSentAgain asks for a notice that waits to be sent again already.
func onSentAgain(w *world, t *testing.T, o operation, id string) *answer {
	w.call(t, o.method, o.at(id), "").is(t, http.StatusOK)
	return w.call(t, o.method, o.at(id), "")
}

// withUsedKeyForARule asks under an Idempotency-Key that was used for another rule.
func withUsedKeyForARule(w *world, t *testing.T, o operation, _ string) *answer {
	used := header("Idempotency-Key", "used-for-a-rule")
	w.call(t, "PUT", "/v1/notice-rules/other", noticeRule)
	w.call(t, o.method, "/v1/notice-rules/other/test", "", used).is(t, http.StatusOK)
	return w.call(t, o.method, o.at(""), "", used)
}

// withUsedKeyForAHost uses one key for two hosts.
func withUsedKeyForAHost(w *world, t *testing.T, o operation, _ string) *answer {
	used := header("Idempotency-Key", "used-for-a-host")
	w.call(t, "PATCH", "/v1/hosts/other.example", `{"windowMs":60000}`).is(t, http.StatusOK)
	w.call(t, o.method, "/v1/hosts/other.example/reset", "", used).is(t, http.StatusOK)
	return w.call(t, o.method, o.at(""), "", used)
}

// inUse deletes a secret that an endpoint refers to.
func inUse(w *world, t *testing.T, o operation, _ string) *answer {
	body := strings.Replace(minimal, `{`, `{"headers":{"X-Key":"{{secret \"payment-key\"}}"},`, 1)
	id := w.call(t, "POST", "/v1/endpoints", body).is(t, http.StatusCreated)["id"].(string)
	a := w.call(t, o.method, o.at(""), "")
	require.Contains(t, string(a.body), id)
	w.call(t, "DELETE", "/v1/endpoints/"+id, "").is(t, http.StatusNoContent)
	return a
}

// withLiveKeys makes signing keys until there is one too many.
func withLiveKeys(w *world, t *testing.T, o operation, _ string) (a *answer) {
	for range signing.MaxLive + 1 {
		a = w.call(t, o.method, o.route, "")
	}
	return a
}

func withTakenKey(w *world, t *testing.T, o operation, _ string) *answer {
	body := strings.Replace(minimal, `{`, `{"key":"taken",`, 1)
	w.call(t, o.method, o.route, body).is(t, http.StatusCreated)
	return w.call(t, o.method, o.route, body)
}

// withUsedKey asks under an Idempotency-Key that was used for another object.
func withUsedKey(w *world, t *testing.T, o operation, id string) *answer {
	used := header("Idempotency-Key", "used-for-"+o.OperationID)
	require.Less(t, w.call(t, o.method, o.at(w.object(t, o)), "", used).status, http.StatusBadRequest)
	return w.call(t, o.method, o.at(id), "", used)
}

// withLost repeats an Idempotency-Key. The server executed the first request and died before it
// stored the answer, whose status is given.
func withLost(status int) func(w *world, t *testing.T, o operation, _ string) *answer {
	return func(w *world, t *testing.T, o operation, _ string) *answer {
		t.Helper()
		used := header("Idempotency-Key", "lost-"+o.OperationID)
		w.call(t, o.method, o.route, o.examples(t)[0], used).is(t, status)
		_, err := w.pool.Exec(t.Context(), "UPDATE idempotency_keys SET status = NULL, locked_until = now()")
		require.NoError(t, err)
		return w.call(t, o.method, o.route, o.examples(t)[0], used)
	}
}

// withLostTestOfARule is the same for the test of a notice rule.
func withLostTestOfARule(w *world, t *testing.T, o operation, _ string) *answer {
	used := header("Idempotency-Key", "lost-test-of-a-rule")
	w.call(t, o.method, o.at(""), "", used).is(t, http.StatusOK)
	_, err := w.pool.Exec(t.Context(), "UPDATE idempotency_keys SET status = NULL, locked_until = now()")
	require.NoError(t, err)
	return w.call(t, o.method, o.at(""), "", used)
}

// unknown returns an id that no object has.
func unknown(prefix string) string { return prefix + "0193466f-2a10-7c3e-9d41-5a2f6c7d8e90" }

func (o operation) unknown() string {
	if strings.HasPrefix(o.route, "/v1/callbacks/") {
		return strings.Repeat("t", 96)
	}
	for route, prefix := range map[string]string{"/v1/keys": "key_", "/v1/calls": "call_", "/v1/runs": "run_", "/v1/signing-keys": "sgk_", "/v1/planner/sessions": "ps_", "/v1/planner/suggestions": "sg_", "/v1/notices": "ntc_", "/v1/dead-letters": "dl_", "/v1/chain-runs": "chr_"} {
		if strings.HasPrefix(o.route, route) {
			return unknown(prefix)
		}
	}
	return unknown("ep_")
}

// TestEveryRouteKeepsTheContract asks every route for everything that the contract says of it. Each
// answer must have a status that is documented and its shape, and each documented status must have
// been seen.
func TestEveryRouteKeepsTheContract(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, o := range operations() {
		t.Run(o.OperationID, func(t *testing.T) {
			seen := elsewhere()
			note := func(a *answer, want int) {
				t.Helper()
				require.Equal(t, want, a.status, "%s", a.body)
				seen = append(seen, a.status)
			}
			w.walkAnswers(t, o, &seen)
			if o.scope() != "" {
				w.walkAccess(t, o, note)
			}
			w.walkRefusals(t, o, note)
			for status, provoke := range allProvocations()[o.OperationID] {
				note(provoke(w, t, o, w.object(t, o)), status)
			}
			for text := range o.Responses.Map() {
				status, err := strconv.Atoi(text)
				require.NoError(t, err)
				require.Contains(t, seen, status, "%s documents a status that was never answered: add how it comes about to provocations", o.OperationID)
			}
		})
	}
	w.call(t, "GET", "/v1/audit?limit=500", "").is(t, http.StatusOK) // All that was done has words of the contract.
}

// walkAnswers sends every example of the contract, which must succeed.
func (w *world) walkAnswers(t *testing.T, o operation, seen *[]int) {
	t.Helper()
	for _, body := range o.examples(t) {
		a := w.send(t, o, w.object(t, o), body)
		require.Less(t, a.status, http.StatusBadRequest, "an example of the contract is refused: %s: %s", body, a.body)
		*seen = append(*seen, a.status)
	}
	if o.RequestBody != nil {
		for media := range o.RequestBody.Value.Content {
			a := w.call(t, o.method, o.at(w.object(t, o)), o.examples(t)[0], header("Content-Type", media))
			require.Less(t, a.status, http.StatusBadRequest, "%s: %s", media, a.body)
		}
	}
}

// walkAccess sends what no key, a wrong key and a key with too narrow a scope may not.
func (w *world) walkAccess(t *testing.T, o operation, note func(*answer, int)) {
	t.Helper()
	id, body := w.object(t, o), o.examples(t)[0]
	before := w.state(t)
	note(w.send(t, o, id, body, key("")), http.StatusUnauthorized)
	note(w.send(t, o, id, body, key("rbt_wrong"), header("X-Forwarded-For", anAddress(o.OperationID))), http.StatusUnauthorized)
	narrower := map[string][]string{"read": nil, "write": {"read"}, "admin": {"read", "write"}}[o.scope()]
	for _, scope := range narrower {
		note(w.send(t, o, id, body, key(w.keys[scope])), http.StatusForbidden)
	}
	require.Equal(t, before, w.state(t), "a refusal wrote something")
	if len(narrower) == 0 { // There is a key without any scope only past the API.
		note(w.send(t, o, id, body, key(w.scopeless(t))), http.StatusForbidden)
	}
}

// scopeless makes a key that may do nothing.
func (w *world) scopeless(t *testing.T) string {
	t.Helper()
	made := w.call(t, "POST", "/v1/keys", `{"name":"none","scopes":["read"]}`).is(t, http.StatusCreated)
	_, err := w.pool.Exec(t.Context(), "UPDATE api_keys SET scopes = '{}' WHERE prefix = $1", made["prefix"])
	require.NoError(t, err)
	return made["secret"].(string)
}

// walkRefusals sends what every route refuses in the same way.
func (w *world) walkRefusals(t *testing.T, o operation, note func(*answer, int)) {
	t.Helper()
	id, body := w.object(t, o), o.examples(t)[0]
	before := w.state(t)
	a := w.call(t, o.method, o.at(id)+"?unknown=1", body, header("Content-Type", o.media()))
	note(a, http.StatusBadRequest)
	require.Equal(t, "unknown_parameter", a.problem(t).Errors[0].Code)
	if id != "" {
		note(w.call(t, o.method, o.at(o.unknown()), body), http.StatusNotFound)
		note(w.call(t, o.method, o.at("%ff"), body), http.StatusBadRequest)
	}
	switch {
	case o.lines():
		w.walkMedia(t, o, id, note)
	case o.method != http.MethodGet && o.method != http.MethodDelete:
		w.walkBodies(t, o, id, note)
		w.walkMedia(t, o, id, note)
	}
	require.Equal(t, before, w.state(t), "a refusal wrote something")
}

func (w *world) walkBodies(t *testing.T, o operation, id string, note func(*answer, int)) {
	t.Helper()
	for body, code := range map[string]string{
		`{"unknownField":1}`: "unknown_field", `{"a":1,"a":1}`: "", `[]`: "", `{`: "", `{}{}`: "", "\xff": "", "null": "",
	} {
		a := w.call(t, o.method, o.at(id), body)
		note(a, http.StatusBadRequest)
		if code != "" {
			require.Equal(t, code, a.problem(t).Errors[0].Code)
		}
	}
	note(w.call(t, o.method, o.at(id), strings.Repeat(" ", 600<<10)), http.StatusRequestEntityTooLarge)
}

func (w *world) walkMedia(t *testing.T, o operation, id string, note func(*answer, int)) {
	t.Helper()
	note(w.send(t, o, id, "{}", header("Content-Type", "application/yaml")), http.StatusUnsupportedMediaType)
	note(w.send(t, o, id, "{}", header("Content-Encoding", "gzip")), http.StatusUnsupportedMediaType)
}

// TestEveryErrorOfTheContractIsAProblem: no route documents an error in another form.
func TestEveryErrorOfTheContractIsAProblem(t *testing.T) {
	t.Parallel()
	for _, o := range operations() {
		for status, r := range o.Responses.Map() {
			if status < "400" {
				continue
			}
			content := r.Value.Content["application/problem+json"]
			require.NotNil(t, content, "%s %s", o.OperationID, status)
			require.Equal(t, "#/components/schemas/Problem", content.Schema.Ref)
			require.Len(t, r.Value.Content, 1)
		}
		if o.scope() != "" {
			for _, status := range []string{"401", "403", "429", "500", "503"} {
				require.NotNil(t, o.Responses.Value(status), "%s does not document %s, which every route with a key may answer", o.OperationID, status)
			}
		}
		if o.method == http.MethodPost && (o.scope() == "write" || o.scope() == "admin") {
			taken := o.Parameters.GetByInAndName(openapi3.ParameterInHeader, "Idempotency-Key") != nil
			require.Equal(t, !o.streams(), taken, "%s: an Idempotency-Key is for every POST that changes something, but for streams", o.OperationID)
			require.True(t, taken || strings.Contains(o.Description, "Idempotency-Key"), "%s says nothing of the Idempotency-Key", o.OperationID)
		}
	}
}

// anAddress returns a client address for a text, so that the wrong keys of all operations do not
// come from one.
func anAddress(of string) string {
	sum := sha256.Sum256([]byte(of))
	return fmt.Sprintf("198.51.%d.%d", sum[0], sum[1])
}
