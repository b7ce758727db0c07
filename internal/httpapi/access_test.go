package httpapi_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/httpapi"
	"rubato/internal/spending"
	"rubato/internal/stats"
)

// route is a request for an operation of the contract.
type route struct {
	id, method, path, body string
	public                 bool
	scope                  string
	success                int
}

// ids fill the placeholders of routes.
type ids struct{ endpoint, run, key, signing string }

// ofPlanner returns the object ID for a planner route. Only the tenant of the test has such an
// object.
func (is ids) ofPlanner(path string) string {
	known := !strings.HasSuffix(is.endpoint, "0193466f-2a10-7c3e-9d41-5a2f6c7d8e90")
	switch {
	case strings.HasPrefix(path, "/v1/planner/sessions") && known:
		return sampleSession.String()
	case strings.HasPrefix(path, "/v1/planner/sessions"):
		return "ps_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"
	case known:
		return sampleSuggestion.String()
	default:
		return "sg_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"
	}
}

// ofNotices returns the object ID for a notice route, likewise.
func (is ids) ofNotices() string {
	if strings.HasSuffix(is.endpoint, "0193466f-2a10-7c3e-9d41-5a2f6c7d8e90") {
		return "ntc_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"
	}
	return sampleNotice.String()
}

// ofLetters is ofPlanner for dead letters.
func (is ids) ofLetters() string {
	if strings.HasSuffix(is.endpoint, "0193466f-2a10-7c3e-9d41-5a2f6c7d8e90") {
		return "dl_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"
	}
	return sampleLetter().ID.String()
}

// everyRoute returns a request for each operation of the contract, with ids filled in and a valid
// body.
func everyRoute(is ids) []route {
	bodies := map[string]string{
		"createEndpoint": minimal, "sendCall": `{"url":"https://p.example/"}`, "reportRun": `{"status":"succeeded"}`, "patchEndpoint": `{"name":"q"}`, "pauseEndpoint": `{"reason":"r"}`, "explain": `{"baselineIntervalMs":1000}`,
		"createKey": `{"name":"k","scopes":["read"]}`, "rotateKey": `{"overlapMs":1000}`,
		"putIntervalHint": `{"intervalMs":5000,"ttlMs":60000}`, "putOneShotHint": `{"inMs":1000,"ttlMs":60000}`,
		"discardDeadLetter": `{"reason":"r"}`, "judgeNoise": `{"path":"$.now","state":"rejected"}`, "cancelRun": `{"reason":"r"}`, "putEndpointByKey": minimal, "importEndpoints": minimal,
		"putSecret": `{"value":"v"}`, "putBudget": `{"budget":"600/h"}`, "putChain": minimalChain, "patchHost": `{"windowMs":60000}`, "testRequest": minimal, "createSigningKey": `{"overlapMs":0}`,
		"putNoticeRule":        `{"event":"lost","channel":{"kind":"slack","urlSecret":"any"}}`,
		"putMaintenanceWindow": `{"startsAt":"2026-01-01T00:00:00Z","endsAt":"2026-01-02T00:00:00Z"}`,
	}
	doc := loadContract()
	var list []route
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		for method, op := range doc.Paths.Value(path).Operations() {
			r := route{id: op.OperationID, method: method, body: bodies[op.OperationID], success: http.StatusOK}
			id, name := is.endpoint, "any"
			switch {
			case strings.HasPrefix(path, "/v1/budgets"):
				name = spending.Tenant
			case op.OperationID == "rerunRun" && is.run == samples()[3].ID.String():
				id = samples()[0].ID.String() // The live run cannot be repeated.
			case strings.HasPrefix(path, "/v1/runs"):
				id = is.run
			case strings.HasPrefix(path, "/v1/calls"):
				id = sampleCall().ID.String()
			case strings.HasPrefix(path, "/v1/chain-runs"):
				id = standingChainRun().String()
			case strings.HasPrefix(path, "/v1/dead-letters"):
				id = is.ofLetters()
			case strings.HasPrefix(path, "/v1/workers"):
				id = stats.WorkerName([16]byte{9})
			case strings.HasPrefix(path, "/v1/keys"):
				id = is.key
			case strings.HasPrefix(path, "/v1/planner"):
				id = is.ofPlanner(path)
			case strings.HasPrefix(path, "/v1/notices"):
				id = is.ofNotices()
			case strings.HasPrefix(path, "/v1/signing-keys"):
				id = cmp.Or(is.signing, standingSigningKey)
			}
			r.path, r.scope = strings.NewReplacer("{id}", id, "{key}", "any", "{name}", name, "{host}", standingHost, "{version}", "1", "{token}", strings.Repeat("t", 96)).Replace(path), "read"
			if op.Security != nil {
				if r.public = len(*op.Security) == 0; !r.public {
					r.scope = (*op.Security)[0]["bearer"][0]
				}
			}
			switch op.OperationID {
			case "createEndpoint", "createKey", "putEndpointByKey", "createSigningKey":
				r.success = http.StatusCreated
			case "runEndpoint", "sendCall", "cancelRun", "rerunRun", "replayDeadLetter", "runChain", "cancelChainRun":
				r.success = http.StatusAccepted
			case "archiveEndpoint", "revokeKey", "deleteBudget", "deleteChain", "deleteSecret", "deleteSigningKey", "deleteNoticeRule", "deleteMaintenanceWindow":
				r.success = http.StatusNoContent
			}
			list = append(list, r)
		}
	}
	return list
}

func TestEveryOperationIsRouted(t *testing.T) {
	t.Parallel()
	routes := everyRoute(ids{})
	require.Len(t, routes, 99)
	for _, r := range routes {
		t.Run(r.id, func(t *testing.T) {
			t.Parallel()
			s := newService(t, samples())
			s.server.Drain()                                                                                              // Streams that would go on end at once.
			r := routeOf(r.id, ids{s.register(minimal), samples()[3].ID.String(), s.makeKey("read"), standingSigningKey}) // The live run, so that it can be canceled.
			require.Equal(t, r.success, s.call(r.method, r.path, r.body, withKey(adminKey)).status)
		})
	}
}

// The scope of a key is checked before the request: 403 comes before 400, 404, 412, 413, 415 and
// 422.
func TestScopesAreCheckedBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	s := newService(t, samples())
	is := ids{s.register(minimal), samples()[3].ID.String(), s.makeKey("read"), standingSigningKey}
	unknown := ids{"nonsense", "nonsense", "nonsense", "nonsense"}
	writes, tried := s.store.writes, 0
	for _, r := range everyRoute(is) {
		if r.public || r.scope == "read" {
			continue
		}
		tried++
		for name, wrong := range map[string]struct {
			path, body string
			change     []request
		}{
			"NoJSON":         {r.path, "{", nil},
			"OtherJSON":      {r.path, `[null]`, nil},
			"BadFields":      {r.path, `{"name":"","url":"ftp://x","baselineIntervalMs":-1,"nonsense":1}`, nil},
			"Empty":          {r.path, "", nil},
			"MediaType":      {r.path, "<a/>", []request{withHeader("Content-Type", "text/xml")}},
			"Huge":           {r.path, `{"name":"` + strings.Repeat("x", 2<<20) + `"}`, nil},
			"Query":          {r.path + "?nonsense=1", r.body, nil},
			"UnreadQuery":    {r.path + "?a=%zz", r.body, nil},
			"IfMatch":        {r.path, r.body, []request{withHeader("If-Match", "nonsense")}},
			"IdempotencyKey": {r.path, r.body, []request{withHeader("Idempotency-Key", "")}},
			"Unknown":        {routeOf(r.id, unknown).path, r.body, nil},
		} {
			a := s.call(r.method, wrong.path, wrong.body, append(wrong.change, withKey(readKey))...)
			require.Equal(t, http.StatusForbidden, a.status, "%s %s", r.id, name)
			require.Equal(t, "insufficient_scope", a.problem().Code, "%s %s", r.id, name)
		}
	}
	require.Greater(t, tried, 25)
	require.Equal(t, writes, s.store.writes)
}

// makeKey returns the id of a new key.
func (s *service) makeKey(scope string) string {
	s.t.Helper()
	body := `{"name":"k","scopes":["` + scope + `"]}`
	return s.call("POST", "/v1/keys", body, withKey(adminKey)).is(http.StatusCreated)["id"].(string) //nolint:forcetypeassert // The contract was checked.
}

func routeOf(operation string, is ids) route {
	routes := everyRoute(is)
	return routes[slices.IndexFunc(routes, func(r route) bool { return r.id == operation })]
}

// TestWrongKeysFromOneAddressAreThrottled: wrong keys are throttled on all routes together, and
// valid keys are not.
func TestWrongKeysFromOneAddressAreThrottled(t *testing.T) {
	t.Parallel()
	s := newServiceWith(t, httpapi.Config{Rate: 500})
	for range 10 {
		require.Equal(t, http.StatusUnauthorized, s.call("GET", "/v1/endpoints", "", withKey("rbt_wrong")).status)
	}
	late := s.call("GET", "/v1/runs", "", withKey("rbt_other"))
	require.Equal(t, http.StatusTooManyRequests, late.status)
	require.Equal(t, "too_many_attempts", late.problem().Code)
	require.NotEmpty(t, late.header.Get("Retry-After"))
	require.Equal(t, http.StatusUnauthorized, s.call("GET", "/v1/endpoints", "", withKey("")).status, "no key is no guess")
	elsewhere := func(r *http.Request) { r.RemoteAddr = "198.51.100.7:1" }
	s.call("GET", "/v1/endpoints", "", elsewhere).is(http.StatusOK)
	s.call("GET", "/v1/endpoints", "").is(http.StatusOK) // It was right a moment ago, so it is looked up beside wrong ones.
}

func TestKeysOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const body = `{"name":"one more","scopes":["read"]}`
	made := s.call("POST", "/v1/keys", body, withKey(adminKey))
	for range 19 {
		require.Equal(t, http.StatusCreated, s.call("POST", "/v1/keys", body, withKey(adminKey)).status)
	}
	full := s.call("POST", "/v1/keys", body, withKey(adminKey))
	require.Equal(t, http.StatusConflict, full.status)
	require.Equal(t, "too_many_keys", full.problem().Code)
	id := made.is(http.StatusCreated)["id"].(string) //nolint:forcetypeassert // The contract was checked.
	require.Equal(t, http.StatusNoContent, s.call("DELETE", "/v1/keys/"+id, "", withKey(adminKey)).status)
	require.Equal(t, http.StatusCreated, s.call("POST", "/v1/keys", body, withKey(adminKey)).status, "a revoked key leaves room")
}

func TestKeys(t *testing.T) {
	t.Parallel()
	s := newService(t, samples())
	s.server.Drain() // Streams that would go on end at once.
	is := ids{s.register(minimal), samples()[3].ID.String(), s.makeKey("read"), standingSigningKey}
	writes := s.store.writes
	for i, r := range everyRoute(is) {
		t.Run(r.id, func(t *testing.T) {
			if r.public {
				require.Equal(t, r.success, s.call(r.method, r.path, r.body, withKey("")).status)
				return
			}
			for name, change := range map[string]request{
				"None":         withKey(""),
				"Wrong":        func(q *http.Request) { withKey("rbt_wrong")(q); q.RemoteAddr = fmt.Sprintf("198.51.100.%d:1", i) },
				"Empty":        withHeader("Authorization", "Bearer "),
				"OtherScheme":  withHeader("Authorization", "Basic "+writeKey),
				"NoScheme":     withHeader("Authorization", writeKey),
				"TwoKeys":      withHeader("Authorization", "Bearer "+writeKey+" "+writeKey),
				"TwoHeaders":   func(q *http.Request) { q.Header.Add("Authorization", "Bearer "+writeKey) },
				"ControlBytes": withHeader("Authorization", "Bearer "+writeKey+"\x00"),
				"Huge":         withKey(strings.Repeat("x", 1<<20)),
				"Query":        func(q *http.Request) { withKey("")(q); q.URL.RawQuery = "access_token=" + writeKey },
			} {
				a := s.call(r.method, r.path, r.body, change)
				require.Equal(t, http.StatusUnauthorized, a.status, name)
				require.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
			}
			for _, key := range []string{readKey, writeKey} {
				if r.scope == "write" && key == writeKey { // It may, and would write.
					continue
				}
				switch a := s.call(r.method, r.path, r.body, withKey(key)); {
				case r.scope != "read":
					require.Equal(t, http.StatusForbidden, a.status)
					require.Equal(t, "insufficient_scope", a.problem().Code)
					require.Contains(t, a.problem().Detail, r.scope)
				default:
					require.Equal(t, r.success, a.status, "%s", a.body)
				}
			}
		})
	}
	require.Equal(t, writes, s.store.writes)
}

// TestTenantsAreIsolated requires the same response for another tenant's object as for a missing
// one.
func TestTenantsAreIsolated(t *testing.T) {
	t.Parallel()
	s := newService(t, samples())
	mine := ids{s.register(minimal), samples()[0].ID.String(), s.makeKey("read"), standingSigningKey}
	unknown := ids{
		"ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90", "run_0193466f-2a10-8c3e-9d41-5a2f6c7d8e90", "key_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90",
		"sgk_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90",
	}
	writes := s.store.writes
	sameID := withHeader("X-Request-Id", "r1")
	for _, r := range everyRoute(mine) {
		if !strings.Contains(r.path, "_0") {
			continue
		}
		theirs := s.call(r.method, r.path, r.body, withKey(otherKey), sameID)
		missing := routeOf(r.id, unknown)
		none := s.call(missing.method, missing.path, missing.body, withKey(otherKey), sameID)
		want := http.StatusNotFound
		if strings.HasPrefix(r.path, "/v1/workers/") { // Every tenant sees the workers, and only the operator's gives them orders.
			want = http.StatusForbidden
		}
		require.Equal(t, want, theirs.status, r.id)
		require.Equal(t, string(none.body), string(theirs.body), r.id)
	}
	id := mine.endpoint
	require.Empty(t, s.call("GET", "/v1/keys", "", withKey(otherKey)).is(http.StatusOK)["items"])
	require.Empty(t, s.call("GET", "/v1/audit", "", withKey(otherKey)).is(http.StatusOK)["items"])
	require.Empty(t, s.call("GET", "/v1/endpoints", "", withKey(otherKey)).is(http.StatusOK)["items"])
	require.Empty(t, s.call("GET", "/v1/runs", "", withKey(otherKey)).is(http.StatusOK)["items"])
	require.Equal(t, http.StatusNotFound, s.call("GET", "/v1/runs?endpointId="+id, "", withKey(otherKey)).status)
	require.Equal(t, writes, s.store.writes)
}
