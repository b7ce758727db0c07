package httpapi_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// route is an operation of the contract as a request.
type route struct {
	id, method, path, body string
	public, writes         bool
	success                int
}

// everyRoute returns all operations of the contract, with the ids put in and a body that is accepted.
func everyRoute(endpoint, run string) []route {
	bodies := map[string]string{
		"createEndpoint": minimal, "patchEndpoint": `{"name":"q"}`, "pauseEndpoint": `{"reason":"r"}`, "explain": `{"baselineIntervalMs":1000}`,
		"putIntervalHint": `{"intervalMs":5000,"ttlMs":60000}`, "putOneShotHint": `{"inMs":1000,"ttlMs":60000}`,
		"putEndpointByKey": minimal, "importEndpoints": minimal,
	}
	doc := loadContract()
	var list []route
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		for method, op := range doc.Paths.Value(path).Operations() {
			r := route{id: op.OperationID, method: method, body: bodies[op.OperationID], success: http.StatusOK}
			id := endpoint
			if strings.HasPrefix(path, "/v1/runs") {
				id = run
			}
			r.path = strings.NewReplacer("{id}", id, "{key}", "any").Replace(path)
			if op.Security != nil {
				r.public = len(*op.Security) == 0
				r.writes = !r.public && (*op.Security)[0]["bearer"][0] == "write"
			}
			switch op.OperationID {
			case "createEndpoint", "putEndpointByKey":
				r.success = http.StatusCreated
			case "runEndpoint":
				r.success = http.StatusAccepted
			case "archiveEndpoint":
				r.success = http.StatusNoContent
			}
			list = append(list, r)
		}
	}
	return list
}

func TestEveryOperationIsRouted(t *testing.T) {
	t.Parallel()
	routes := everyRoute("", "")
	require.Len(t, routes, 25)
	for _, r := range routes {
		t.Run(r.id, func(t *testing.T) {
			t.Parallel()
			s := newService(t, samples())
			s.server.Drain() // Streams that would go on end at once.
			id := s.register(minimal)
			r := routeOf(r.id, id, samples()[0].ID.String())
			require.Equal(t, r.success, s.call(r.method, r.path, r.body).status)
		})
	}
}

func routeOf(operation, endpoint, run string) route {
	routes := everyRoute(endpoint, run)
	return routes[slices.IndexFunc(routes, func(r route) bool { return r.id == operation })]
}

func TestKeys(t *testing.T) {
	t.Parallel()
	s := newService(t, samples())
	s.server.Drain() // Streams that would go on end at once.
	id := s.register(minimal)
	writes := s.store.writes
	for _, r := range everyRoute(id, samples()[0].ID.String()) {
		t.Run(r.id, func(t *testing.T) {
			if r.public {
				require.Equal(t, r.success, s.call(r.method, r.path, "", withKey("")).status)
				return
			}
			for name, change := range map[string]request{
				"None":         withKey(""),
				"Wrong":        withKey("rbt_wrong"),
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
			a := s.call(r.method, r.path, r.body, withKey(readKey))
			if r.writes {
				require.Equal(t, http.StatusForbidden, a.status)
				require.Equal(t, "insufficient_scope", a.problem().Code)
				require.Contains(t, a.problem().Detail, "write")
			} else {
				require.Equal(t, r.success, a.status, "%s", a.body)
			}
		})
	}
	require.Equal(t, writes, s.store.writes)
}

// TestTenantsAreIsolated: what belongs to somebody else looks exactly like what does not exist.
func TestTenantsAreIsolated(t *testing.T) {
	t.Parallel()
	s := newService(t, samples())
	id := s.register(minimal)
	const unknown = "ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"
	const unknownRun = "run_0193466f-2a10-8c3e-9d41-5a2f6c7d8e90"
	known := everyRoute(id, samples()[0].ID.String())
	writes := s.store.writes
	sameID := withHeader("X-Request-Id", "r1")
	for _, r := range known {
		if !strings.Contains(r.path, "ep_") && !strings.Contains(r.path, "run_") {
			continue
		}
		theirs := s.call(r.method, r.path, r.body, withKey(otherKey), sameID)
		missing := routeOf(r.id, unknown, unknownRun)
		none := s.call(missing.method, missing.path, missing.body, withKey(otherKey), sameID)
		require.Equal(t, http.StatusNotFound, theirs.status, r.id)
		require.Equal(t, string(none.body), string(theirs.body), r.id)
	}
	require.Empty(t, s.call("GET", "/v1/endpoints", "", withKey(otherKey)).is(http.StatusOK)["items"])
	require.Empty(t, s.call("GET", "/v1/runs", "", withKey(otherKey)).is(http.StatusOK)["items"])
	require.Equal(t, http.StatusNotFound, s.call("GET", "/v1/runs?endpointId="+id, "", withKey(otherKey)).status)
	require.Equal(t, writes, s.store.writes)
}
