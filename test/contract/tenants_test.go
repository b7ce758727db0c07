package contract

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	keystore "rubato/internal/store/keys"
)

// state returns a digest of everything that the database holds, beside when keys were last used.
func (w *world) state(t *testing.T) map[string]string {
	t.Helper()
	rows, err := w.pool.Query(t.Context(), `
		SELECT relname::text FROM pg_class
		WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'goose_db_version'`)
	require.NoError(t, err)
	var tables []string
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		tables = append(tables, name)
	}
	require.NoError(t, rows.Err())
	require.Contains(t, tables, "audit_log")
	state := map[string]string{}
	for _, table := range tables {
		var digest string
		require.NoError(t, w.pool.QueryRow(t.Context(), `
			SELECT coalesce(md5(string_agg(row, ',' ORDER BY row)), 'empty')
			FROM (SELECT (to_jsonb(t) - 'last_used_at')::text AS row FROM `+table+` AS t) AS rows`).Scan(&digest))
		state[table] = digest
	}
	return state
}

// TestOtherTenantsAreOutOfReach asks every route that is about an object for one of another tenant:
// the answer is the one for an object that does not exist, and nothing is written.
func TestOtherTenantsAreOutOfReach(t *testing.T) {
	t.Parallel()
	w := setup(t)
	asked := 0
	for _, o := range operations() {
		if !strings.Contains(o.route, "{id}") || o.streams() {
			continue
		}
		asked++
		t.Run(o.OperationID, func(t *testing.T) {
			id := w.object(t, o)
			body := ""
			if o.method != http.MethodGet && o.method != http.MethodDelete {
				body = o.examples(t)[0]
			}
			before := w.state(t)
			same := header("X-Request-Id", "same")
			changes := []change{same, header("X-Tenant-Id", "00000000-0000-0000-0000-000000000001")}
			// Other changes refuse it.
			if o.method == http.MethodGet || o.Parameters.GetByInAndName("header", "If-Match") != nil {
				changes = append(changes, header("If-Match", `"1"`), header("If-Match", "*"))
			}
			for _, more := range changes {
				theirs := w.call(t, o.method, o.at(id), body, key(otherKey), more, same)
				none := w.call(t, o.method, o.at(o.unknown()), body, key(otherKey), more, same)
				want := http.StatusNotFound
				if strings.HasPrefix(o.route, "/v1/workers/") { // Every tenant sees the workers, and only the operator's gives them orders.
					want = http.StatusForbidden
				}
				require.Equal(t, want, theirs.status, "%s", theirs.body)
				require.Equal(t, strings.ReplaceAll(string(none.body), o.unknown(), id), string(theirs.body))
			}
			require.Equal(t, before, w.state(t))
		})
	}
	require.Greater(t, asked, 10)
}

// TestListsShowOneTenantAlone asks every list in the name of another tenant.
func TestListsShowOneTenantAlone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	endpoint := w.call(t, "POST", "/v1/endpoints", minimal).is(t, http.StatusCreated)["id"].(string)
	run := w.run(t, endpoint)
	w.planned(t, keystore.DefaultTenant)
	w.call(t, "PUT", "/v1/secrets/mine", `{"value":"v"}`).is(t, http.StatusCreated)
	w.call(t, "PUT", "/v1/budgets/tenant", `{"budget":"600/h"}`).is(t, http.StatusCreated)
	w.call(t, "PATCH", "/v1/hosts/mine.example", `{"windowMs":1000}`).is(t, http.StatusOK)
	w.call(t, "POST", "/v1/signing-keys", "").is(t, http.StatusCreated)
	w.call(t, "PUT", "/v1/notice-rules/mine", noticeRule).is(t, http.StatusCreated)
	w.call(t, "PUT", "/v1/maintenance-windows/mine", maintenanceWindow).is(t, http.StatusCreated)
	w.deadNotice(t, keystore.DefaultTenant)
	w.deadLetter(t)
	w.call(t, "POST", "/v1/calls", `{"url":"https://api.example.com/"}`).is(t, http.StatusAccepted)
	w.chainRun(t)
	lists := 0
	for _, o := range operations() {
		if o.method != http.MethodGet || o.scope() == "" || strings.Contains(o.route, "{") || o.streams() {
			continue
		}
		mine := w.call(t, "GET", o.route, "").is(t, http.StatusOK)
		if _, list := mine["items"]; !list {
			continue
		}
		// Workers serve every tenant, and their list says nothing about runs.
		if o.OperationID == "listWorkers" {
			continue
		}
		lists++
		theirs := w.call(t, "GET", o.route, "", key(otherKey))
		require.NotContains(t, string(theirs.body), endpoint, o.OperationID)
		require.NotContains(t, string(theirs.body), run, o.OperationID)
		if o.OperationID != "listKeys" { // The other tenant has a key, of course.
			require.Empty(t, theirs.is(t, http.StatusOK)["items"], o.OperationID)
			require.NotEmpty(t, mine["items"], o.OperationID)
		}
		w.otherCursors(t, o)
	}
	require.GreaterOrEqual(t, lists, 4)
	require.Equal(t, http.StatusNotFound, w.call(t, "GET", "/v1/runs?endpointId="+endpoint, "", key(otherKey)).status)
	require.Empty(t, w.call(t, "GET", "/v1/audit?object="+endpoint, "", key(otherKey)).is(t, http.StatusOK)["items"])
	require.Len(t, w.call(t, "GET", "/v1/keys", "", key(otherKey)).is(t, http.StatusOK)["items"], 1)
}

// otherCursors requires that a cursor of one tenant is none for another.
func (w *world) otherCursors(t *testing.T, o operation) {
	t.Helper()
	if o.Parameters.GetByInAndName(openapi3.ParameterInQuery, "limit") == nil { // A list that is always short.
		return
	}
	cursor, more := w.call(t, "GET", o.route+"?limit=1", "").is(t, http.StatusOK)["nextCursor"].(string)
	if !more {
		return
	}
	w.call(t, "GET", o.route+"?limit=1&cursor="+cursor, "").is(t, http.StatusOK)
	stolen := w.call(t, "GET", o.route+"?limit=1&cursor="+cursor, "", key(otherKey))
	require.Equal(t, "invalid_cursor", stolen.problem(t).Code, o.OperationID)
}

// crossing calls an operation without an object in its route, as another tenant, about an endpoint
// of the first one.
type crossing func(w *world, t *testing.T, o operation, endpoint string)

// crossings is how each operation that is about more than one object could reach another tenant's.
func crossings() map[string]crossing {
	list := map[string]crossing{
		"putEndpointByKey": func(w *world, t *testing.T, o operation, endpoint string) {
			made := w.call(t, o.method, strings.Replace(o.route, "{key}", "mine", 1), minimal, key(otherKey)).is(t, http.StatusCreated)
			require.NotEqual(t, endpoint, made["id"], "a key is a name within one tenant")
		},
		"exportEndpoints": func(w *world, t *testing.T, o operation, endpoint string) {
			for _, query := range []string{"", "?key=mine", "?name=p", "?namePrefix=p", "?state=active"} {
				require.Contains(t, string(w.send(t, o, "", "").body), endpoint)
				require.NotContains(t, string(w.call(t, o.method, o.route+query, "", key(otherKey)).body), endpoint, query)
			}
		},
		"importEndpoints": func(w *world, t *testing.T, o operation, endpoint string) {
			for _, name := range []string{`"id":"` + endpoint + `"`, `"key":"mine"`} {
				a := w.send(t, o, "", strings.Replace(minimal, `{`, `{`+name+`,`, 1)+"\n", key(otherKey))
				require.NotContains(t, string(a.body), endpoint)
				require.Regexp(t, `"status":"(created|unchanged)"`, string(a.body), "to this tenant the other one's endpoint is not there")
			}
		},
		"putSecret": func(w *world, t *testing.T, o operation, _ string) {
			w.call(t, o.method, "/v1/secrets/mine", `{"value":"v"}`).is(t, http.StatusCreated)
			theirs := w.call(t, o.method, "/v1/secrets/mine", `{"value":"w"}`, key(otherKey)).is(t, http.StatusCreated)
			require.EqualValues(t, 1, theirs["version"], "a name is a name within one tenant")
			require.EqualValues(t, 1, w.call(t, "GET", "/v1/secrets/mine", "").is(t, http.StatusOK)["version"])
			body := strings.Replace(minimal, `{`, `{"headers":{"X-Key":"{{secret \"only-mine\"}}"},`, 1)
			w.call(t, o.method, "/v1/secrets/only-mine", `{"value":"v"}`).is(t, http.StatusCreated)
			refused := w.call(t, "POST", "/v1/endpoints", body, key(otherKey))
			require.Equal(t, http.StatusUnprocessableEntity, refused.status)
			require.Equal(t, "secret_unknown", refused.problem(t).Errors[0].Code)
		},
		"testRequest": func(w *world, t *testing.T, o operation, _ string) {
			w.call(t, "PUT", "/v1/secrets/untold", `{"value":"v"}`).is(t, http.StatusCreated)
			body := strings.Replace(minimal, `{`, `{"headers":{"X-Key":"{{secret \"untold\"}}"},`, 1)
			refused := w.call(t, o.method, o.route, body, key(otherKey))
			require.Equal(t, http.StatusUnprocessableEntity, refused.status)
			require.Equal(t, "secret_unknown", refused.problem(t).Errors[0].Code)
		},
		"getSecret": func(w *world, t *testing.T, o operation, _ string) {
			w.call(t, "PUT", "/v1/secrets/shown", `{"value":"v"}`).is(t, http.StatusCreated)
			require.Equal(t, http.StatusNotFound, w.call(t, o.method, "/v1/secrets/shown", "", key(otherKey)).status)
		},
		"deleteSecret": func(w *world, t *testing.T, o operation, _ string) {
			w.call(t, "PUT", "/v1/secrets/kept", `{"value":"v"}`).is(t, http.StatusCreated)
			require.Equal(t, http.StatusNotFound, w.call(t, o.method, "/v1/secrets/kept?force=true", "", key(otherKey)).status)
			w.call(t, "GET", "/v1/secrets/kept", "").is(t, http.StatusOK)
		},
		"putChain":      crossPutChain,
		"getChain":      crossChain,
		"deleteChain":   crossChain,
		"runChain":      crossRunChain,
		"listChainRuns": crossListChainRuns,
		"putBudget": func(w *world, t *testing.T, o operation, _ string) {
			w.call(t, o.method, "/v1/budgets/host:mine.example", `{"budget":"600/h"}`).is(t, http.StatusCreated)
			w.call(t, o.method, "/v1/budgets/host:mine.example", `{"budget":"1/h"}`, key(otherKey)).is(t, http.StatusCreated)
			require.Equal(t, "600/h", w.call(t, "GET", "/v1/budgets/host:mine.example", "").is(t, http.StatusOK)["budget"])
		},
		"getBudget": func(w *world, t *testing.T, o operation, _ string) {
			w.call(t, "PUT", "/v1/budgets/host:shown.example", `{"budget":"600/h"}`).is(t, http.StatusCreated)
			require.Equal(t, http.StatusNotFound, w.call(t, o.method, "/v1/budgets/host:shown.example", "", key(otherKey)).status)
		},
		"deleteBudget": func(w *world, t *testing.T, o operation, _ string) {
			w.call(t, "PUT", "/v1/budgets/host:kept.example", `{"budget":"600/h"}`).is(t, http.StatusCreated)
			require.Equal(t, http.StatusNotFound, w.call(t, o.method, "/v1/budgets/host:kept.example", "", key(otherKey)).status)
			w.call(t, "GET", "/v1/budgets/host:kept.example", "").is(t, http.StatusOK)
		},
		"putNoticeRule": func(w *world, t *testing.T, o operation, endpoint string) {
			w.call(t, o.method, "/v1/notice-rules/mine", noticeRule).is(t, http.StatusCreated)
			theirs := w.call(t, o.method, "/v1/notice-rules/mine", noticeRule, key(otherKey)).is(t, http.StatusCreated)
			require.EqualValues(t, 1, theirs["version"], "a name is a name within one tenant")
			refused := w.call(t, o.method, "/v1/notice-rules/theirs", strings.Replace(noticeRule, `{`, `{"endpointId":"`+endpoint+`",`, 1), key(otherKey))
			require.Equal(t, http.StatusUnprocessableEntity, refused.status)
			require.Equal(t, "endpoint_unknown", refused.problem(t).Errors[0].Code)
			w.call(t, "PUT", "/v1/secrets/hidden", `{"value":"v"}`)
			refused = w.call(t, o.method, "/v1/notice-rules/theirs", `{"event":"lost","channel":{"kind":"slack","urlSecret":"hidden"}}`, key(otherKey))
			require.Equal(t, "secret_unknown", refused.problem(t).Errors[0].Code)
		},
		"getNoticeRule": func(w *world, t *testing.T, o operation, _ string) {
			w.call(t, "PUT", "/v1/notice-rules/shown", noticeRule).is(t, http.StatusCreated)
			require.Equal(t, http.StatusNotFound, w.call(t, o.method, "/v1/notice-rules/shown", "", key(otherKey)).status)
		},
		"testNoticeRule": func(w *world, t *testing.T, o operation, _ string) {
			w.call(t, "PUT", "/v1/notice-rules/tested", noticeRule).is(t, http.StatusCreated)
			require.Equal(t, http.StatusNotFound, w.call(t, o.method, "/v1/notice-rules/tested/test", "", key(otherKey)).status)
		},
		"deleteNoticeRule": func(w *world, t *testing.T, o operation, _ string) {
			w.call(t, "PUT", "/v1/notice-rules/kept", noticeRule).is(t, http.StatusCreated)
			require.Equal(t, http.StatusNotFound, w.call(t, o.method, "/v1/notice-rules/kept", "", key(otherKey)).status)
			w.call(t, "GET", "/v1/notice-rules/kept", "").is(t, http.StatusOK)
		},
		"putMaintenanceWindow": func(w *world, t *testing.T, o operation, endpoint string) {
			w.call(t, o.method, "/v1/maintenance-windows/mine", maintenanceWindow).is(t, http.StatusCreated)
			w.call(t, o.method, "/v1/maintenance-windows/mine", maintenanceWindow, key(otherKey)).is(t, http.StatusCreated)
			refused := w.call(t, o.method, "/v1/maintenance-windows/theirs", strings.Replace(maintenanceWindow, `{`, `{"endpointId":"`+endpoint+`",`, 1), key(otherKey))
			require.Equal(t, "endpoint_unknown", refused.problem(t).Errors[0].Code)
		},
		"deleteMaintenanceWindow": func(w *world, t *testing.T, o operation, _ string) {
			w.call(t, "PUT", "/v1/maintenance-windows/kept", maintenanceWindow).is(t, http.StatusCreated)
			require.Equal(t, http.StatusNotFound, w.call(t, o.method, "/v1/maintenance-windows/kept", "", key(otherKey)).status)
			w.call(t, o.method, "/v1/maintenance-windows/kept", "").is(t, http.StatusNoContent)
		},
		"watchEvents": func(w *world, t *testing.T, o operation, endpoint string) {
			require.Equal(t, http.StatusNotFound, w.call(t, o.method, o.route+"?endpointId="+endpoint, "", key(otherKey)).status)
			place := strings.Fields(string(w.send(t, o, "", "").body))[3] // "retry: 1000", "id: ..."
			w.call(t, "POST", "/v1/endpoints/"+endpoint+"/pause", "{}").is(t, http.StatusOK)
			theirs := w.call(t, "POST", "/v1/endpoints", minimal, key(otherKey)).is(t, http.StatusCreated)["id"].(string)
			last := w.call(t, "POST", "/v1/endpoints", minimal).is(t, http.StatusCreated)["id"].(string)
			// News from before the place may come again: a place lies before whatever any database
			// of the server has still open.
			after := header("Last-Event-ID", place)
			require.NotContains(t, w.streamed(t, o, theirs, key(otherKey), after), endpoint)
			require.NotContains(t, w.streamed(t, o, last, key(adminKey), after), theirs)
		},
	}
	maps.Copy(list, hostCrossings())
	return list
}

// hostCrossings are the crossings of the routes of hosts.
func hostCrossings() map[string]crossing {
	return map[string]crossing{
		"getHost": func(w *world, t *testing.T, o operation, _ string) {
			w.call(t, "PATCH", "/v1/hosts/shown.example", `{"windowMs":1000}`).is(t, http.StatusOK)
			require.Equal(t, http.StatusNotFound, w.call(t, o.method, "/v1/hosts/shown.example", "", key(otherKey)).status)
		},
		"patchHost": func(w *world, t *testing.T, o operation, _ string) {
			w.call(t, o.method, "/v1/hosts/mine.example", `{"windowMs":1000}`).is(t, http.StatusOK)
			w.call(t, o.method, "/v1/hosts/mine.example", `{"windowMs":2000}`, key(otherKey)).is(t, http.StatusOK)
			require.EqualValues(t, 1000, w.call(t, "GET", "/v1/hosts/mine.example", "").is(t, http.StatusOK)["windowMs"])
		},
		"resetHost": func(w *world, t *testing.T, o operation, _ string) {
			w.call(t, "PATCH", "/v1/hosts/kept.example", `{"windowMs":1000}`).is(t, http.StatusOK)
			require.Equal(t, http.StatusNotFound, w.call(t, o.method, "/v1/hosts/kept.example/reset", "", key(otherKey)).status)
		},
	}
}

// TestNoOperationReachesAnotherTenant asks every operation that names no object by its id, and is
// no list: those have their own tests.
func TestNoOperationReachesAnotherTenant(t *testing.T) {
	t.Parallel()
	w := setup(t)
	endpoint := w.call(t, "PUT", "/v1/endpoints/by-key/mine", minimal).is(t, http.StatusCreated)["id"].(string)
	before := w.endpoint(t, endpoint)
	asked := 0
	for _, o := range operations() {
		cross := crossings()[o.OperationID]
		if cross == nil {
			require.False(t, o.streams() || strings.Contains(o.route, "{key}") || strings.Contains(o.route, "{name}") || strings.Contains(o.route, "{host}"), "say in crossings how %s could reach another tenant", o.OperationID)
			continue
		}
		asked++
		t.Run(o.OperationID, func(t *testing.T) { cross(w, t, o, endpoint) })
	}
	require.Len(t, crossings(), asked)
	w.call(t, "POST", "/v1/endpoints/"+endpoint+"/resume", "").is(t, http.StatusOK)
	require.Equal(t, before, w.endpoint(t, endpoint))
}

// endpoint returns the configuration of an endpoint, read as the first tenant.
func (w *world) endpoint(t *testing.T, id string) map[string]any {
	t.Helper()
	e := w.call(t, "GET", "/v1/endpoints/"+id, "").is(t, http.StatusOK)
	delete(e, "nextRunAt") // Pausing and resuming moves it.
	return e
}

func crossPutChain(w *world, t *testing.T, o operation, _ string) {
	w.call(t, o.method, "/v1/chains/mine", chain).is(t, http.StatusCreated)
	w.call(t, o.method, "/v1/chains/mine", chain, key(otherKey)).is(t, http.StatusCreated)
}

func crossChain(w *world, t *testing.T, o operation, _ string) {
	w.call(t, "PUT", "/v1/chains/shown", chain)
	require.Equal(t, http.StatusNotFound, w.call(t, o.method, "/v1/chains/shown", "", key(otherKey)).status)
	w.call(t, "GET", "/v1/chains/shown", "").is(t, http.StatusOK)
}

func crossRunChain(w *world, t *testing.T, o operation, _ string) {
	w.call(t, "PUT", "/v1/chains/kept", chain).is(t, http.StatusCreated)
	require.Equal(t, http.StatusNotFound, w.call(t, o.method, "/v1/chains/kept/run", "{}", key(otherKey)).status)
}

func crossListChainRuns(w *world, t *testing.T, _ operation, _ string) {
	w.chainRun(t)
	require.Empty(t, w.call(t, "GET", "/v1/chains/order/runs", "", key(otherKey)).is(t, http.StatusOK)["items"])
}
