package httpapi_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/api"
	"rubato/internal/errs"
)

func TestUnknownRoutesAndMethods(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, path := range []string{
		"/", "/v1", "/v1/", "/v1/endpoints/", "//v1/endpoints", "/v1//endpoints", "/V1/endpoints", "/v1/Endpoints", "/v1/endpoints;x",
		"/v1/../healthz", "/v1/%2e%2e/healthz", "/debug/pprof/", "/metrics", "/v1/endpoints/x/y/z", "/v1/key", "/v1/endpoints%2f",
	} {
		a := s.call("GET", path, "")
		require.Equal(t, http.StatusNotFound, a.status, path)
		require.Equal(t, "route_not_found", a.problem().Code, path)
	}
	for _, r := range [][2]string{
		{"PUT", "/v1/endpoints"},
		{"DELETE", "/v1/endpoints"},
		{"HEAD", "/v1/explain"},
		{"HEAD", "/v1/events"},
		{"HEAD", "/v1/endpoints:export"},
		{"TRACE", "/v1/endpoints"},
		{"GET", "/v1/explain"},
		{"POST", "/healthz"},
		{"GET", "/v1/endpoints/ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90/pause"},
	} {
		a := s.call(r[0], r[1], "")
		require.Equal(t, http.StatusMethodNotAllowed, a.status, "%v", r)
		require.NotEmpty(t, a.header.Get("Allow"), "%v", r)
	}
}

// TestHeadIsAGetWithoutABody uses a real listener, because net/http drops the body of a HEAD there.
func TestHeadIsAGetWithoutABody(t *testing.T) {
	t.Parallel()
	s := newService(t)
	listener := httptest.NewServer(s.server)
	t.Cleanup(listener.Close)
	ask := func(method, path, key string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, listener.URL+path, http.NoBody)
		require.NoError(t, err)
		withKey(key)(r)
		response, err := listener.Client().Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, method == http.MethodHead, len(body) == 0, "%s %s", method, path)
		return response
	}
	for _, path := range []string{
		"/v1/endpoints", "/v1/endpoints/" + s.register(minimal), "/v1/endpoints/ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90", "/v1/endpoints?limit=0",
		"/v1/nothing", "/openapi.yaml", "/healthz",
	} {
		head, get := ask(http.MethodHead, path, writeKey), ask(http.MethodGet, path, writeKey)
		require.Equal(t, get.StatusCode, head.StatusCode, path)
		require.Equal(t, get.Header.Get("Content-Type"), head.Header.Get("Content-Type"), path)
		require.Equal(t, get.Header.Get("ETag"), head.Header.Get("ETag"), path)
		require.NotEmpty(t, head.Header.Get("X-Request-Id"), path)
	}
	require.Equal(t, http.StatusUnauthorized, ask(http.MethodHead, "/v1/endpoints", "rbt_nobody").StatusCode)
	require.Equal(t, "OPTIONS, GET, HEAD, POST", s.call("PUT", "/v1/endpoints", "").header.Get("Allow"))
	require.Equal(t, "OPTIONS, GET", s.call("PUT", "/v1/events", "").header.Get("Allow"))
	options := httptest.NewRecorder()
	s.server.ServeHTTP(options, httptest.NewRequestWithContext(t.Context(), http.MethodOptions, "/v1/stats", http.NoBody))
	require.Equal(t, "OPTIONS, GET, HEAD", options.Header().Get("Allow"))
}

func TestFaultsAreLoggedOnceAndNotShown(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err    error
		status int
		level  slog.Level
	}{
		"Plain":       {errors.New("password=hunter2"), http.StatusInternalServerError, slog.LevelError},
		"Internal":    {errs.Wrap(errors.New("password=hunter2"), errs.Internal, "password=hunter2"), http.StatusInternalServerError, slog.LevelError},
		"UnknownCode": {errs.New("strange", "hunter2", "hunter2"), http.StatusInternalServerError, slog.LevelError},
		"Unavailable": {
			errs.Wrap(errors.New("dial hunter2"), errs.Unavailable, "the database cannot be reached; try again"), http.StatusServiceUnavailable,
			slog.LevelWarn,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			s.store.err = tc.err
			a := s.call("POST", "/v1/endpoints", minimal, withHeader("X-Request-Id", "req-7"))
			require.Equal(t, tc.status, a.status)
			require.NotContains(t, string(a.body), "hunter2")
			require.Equal(t, "req-7", a.header.Get("X-Request-Id"))
			require.Equal(t, 1, strings.Count(s.logs.String(), "request failed"))
			require.Contains(t, s.logs.String(), "hunter2")
			require.Contains(t, s.logs.String(), "level="+tc.level.String()+` msg="request failed" component=httpapi request_id=req-7`)
			if tc.status == http.StatusServiceUnavailable {
				require.Equal(t, "2", a.header.Get("Retry-After"))
			}
		})
	}
}

// TestDisconnectedClientIsNotLoggedAsAnError: an answer that fails because the client disconnected
// is not logged as an error.
func TestDisconnectedClientIsNotLoggedAsAnError(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.store.err = context.Canceled
	ctx, hangUp := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/endpoints", strings.NewReader(minimal))
	r.Header.Set("Content-Type", "application/json")
	withKey(adminKey)(r)
	hangUp()
	s.server.ServeHTTP(httptest.NewRecorder(), r)
	require.Contains(t, s.logs.String(), `level=DEBUG msg="request failed"`)
}

func TestPanicsAreAnswered(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.store.endpoints = nil // Writing to a nil map panics.
	a := s.call("POST", "/v1/endpoints", minimal)
	require.Equal(t, http.StatusInternalServerError, a.status)
	require.Contains(t, s.logs.String(), "nil map")
	require.NotContains(t, string(a.body), "nil map")
	require.Contains(t, s.metrics(), "\nrubato_panics_total{source=\"request\"} 1\n")
}

func TestUserErrorsAreNotLogged(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.call("POST", "/v1/endpoints", `{`)
	s.call("GET", "/nowhere", "")
	require.NotContains(t, s.logs.String(), "request failed")
	require.NotContains(t, s.logs.String(), "nowhere")
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, hostile := range []string{"", "a b", "a\nb", strings.Repeat("x", 65), "é", `"`} {
		got := s.call("GET", "/healthz", "", withHeader("X-Request-Id", hostile)).header.Get("X-Request-Id")
		require.NotEqual(t, hostile, got)
		require.NotEmpty(t, got)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	s := newService(t)
	require.Equal(t, "ok", s.call("GET", "/healthz", "").is(http.StatusOK)["status"])
	require.Equal(t, "ready", s.call("GET", "/readyz", "").is(http.StatusOK)["status"])
	s.ready = errors.New("no connection to db.internal")
	a := s.call("GET", "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.NotContains(t, string(a.body), "db.internal")
	s.ready = &errs.Error{
		Code: errs.Unavailable, Reason: "not_ready", Message: "not now",
		Fields: []errs.Field{{Field: "database", Code: "not_ready", Message: "the database does not answer, since noon"}},
		Err:    errors.New("no connection to db.internal"),
	}
	a = s.call("GET", "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Contains(t, string(a.body), `"field":"database"`)
	require.Contains(t, string(a.body), "the database does not answer, since noon")
	require.Contains(t, s.logs.String(), `level=DEBUG msg="request failed"`, "a probe asks every second: its answer is no news")
	require.NotContains(t, string(a.body), "db.internal")
	require.Equal(t, "ok", s.call("GET", "/healthz", "").is(http.StatusOK)["status"])
	require.Equal(t, api.OpenAPI(), string(s.call("GET", "/openapi.yaml", "").body))
}
