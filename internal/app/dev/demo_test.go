package dev

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/app"
	"rubato/internal/egress"
	"rubato/internal/endpoints"
)

func TestDemoEndpointsAreValidAndAllDifferent(t *testing.T) {
	t.Parallel()
	service := endpoints.NewService(nil, app.NewTargets(egress.Rules{Allow: loopback()}, false))
	specs := demoEndpoints("http://127.0.0.1:4711")

	require.Len(t, specs, 6)
	keys := map[string]bool{}
	for _, spec := range specs {
		require.NoError(t, service.Check(spec), spec.Key)
		require.True(t, strings.HasPrefix(spec.Key, "demo-"))
		keys[spec.Key] = true
	}
	require.Len(t, keys, 6)
}

// Every endpoint calls something that the target serves.
func TestDemoTargetServesEveryEndpoint(t *testing.T) {
	t.Parallel()
	target := demoTarget()
	for _, spec := range demoEndpoints("") {
		require.NotEqual(t, http.StatusNotFound, ask(target, spec.Method, spec.URL).Code, spec.Key)
	}
}

func TestDemoAnswersChange(t *testing.T) {
	t.Parallel()
	target := demoTarget()

	var statuses []int
	for range 10 {
		statuses = append(statuses, ask(target, http.MethodGet, "/flaky").Code)
	}
	require.Equal(t, []int{500, 500, 500, 200, 200, 500, 500, 500, 200, 200}, statuses)
	require.NotEqual(t, ask(target, http.MethodGet, "/prices").Body.String(), ask(target, http.MethodGet, "/prices").Body.String())
	for n := range int64(1000) {
		require.GreaterOrEqual(t, price(n), int64(240))
		require.LessOrEqual(t, price(n), int64(340))
	}
}

func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}
