package httpapi_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"rubato/internal/auth"
	"rubato/internal/errs"
	"rubato/internal/httpapi"
)

// faultyKeys is an auth.Store that fails.
type faultyKeys struct{ err error }

func (k faultyKeys) FindKey(context.Context, [sha256.Size]byte) (auth.Principal, error) {
	return auth.Principal{}, k.err
}

// TestEveryRouteReportsStoreErrors requires the status of the contract from every route with a key
// if the database is unavailable or broken.
func TestEveryRouteReportsStoreErrors(t *testing.T) {
	t.Parallel()
	for status, fault := range map[int]error{
		http.StatusServiceUnavailable:  errs.Wrap(errors.New("dial"), errs.Unavailable, "the database cannot be reached; try again"),
		http.StatusInternalServerError: errors.New("boom"),
	} {
		s := newService(t)
		s.server = httpapi.New(httpapi.Config{
			Auth: auth.NewAuthenticator(faultyKeys{fault}), Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		})
		for _, r := range everyRoute(ids{"ep_x", "run_x", "key_x", "sgk_x"}) {
			if r.public {
				continue
			}
			a := s.call(r.method, r.path, r.body)
			require.Equal(t, status, a.status, r.id)
		}
	}
}

// TestEveryRouteIsLimited: every route with a key counts towards the quota, and a refused request
// has no effect.
func TestEveryRouteIsLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // No time passes, so no request is granted again.
		s := newServiceWith(t, httpapi.Config{Rate: 1}, samples())
		is := ids{s.register(minimal), samples()[0].ID.String(), s.makeKey("read"), standingSigningKey}
		for range 10 {
			s.call("GET", "/v1/endpoints", "", withKey(adminKey))
		}
		writes := s.store.writes
		for _, r := range everyRoute(is) {
			want := http.StatusTooManyRequests
			if r.public {
				want = r.success
			}
			require.Equal(t, want, s.call(r.method, r.path, r.body, withKey(adminKey)).status, r.id)
		}
		require.Equal(t, writes, s.store.writes)
	})
}

// FuzzRequest sends random methods, paths, queries and headers. No answer is a 5xx, each one
// conforms to the contract, and a refusal writes nothing.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/v1/endpoints", "limit=1&cursor=x", "k", `"1"`)
	f.Add("POST", "/v1/endpoints/ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90/pause", "", "", "*")
	f.Add("POST", "/v1/keys/key_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90/rotate", "overlapMs=1", "\x00", "W/\"x\"")
	f.Add("GET", "/v1/audit", "from=2026-01-01T00:00:00Z&actor=key_1&kind=&object=%ff", "", "")
	f.Add("DELETE", "/v1/runs/%00", "%zz;&&=", "a b", `"`)
	f.Add("OPTIONS", "//v1/../x", "?", "é", "")
	f.Fuzz(func(t *testing.T, method, path, query, once, match string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://rubato.example/", strings.NewReader(minimal))
		if err != nil || !strings.HasPrefix(path, "/") {
			return // Nothing that a server could get.
		}
		if r.URL, err = r.URL.Parse("http://rubato.example" + path + "?" + query); err != nil {
			return
		}
		s := newService(t)
		writes := s.store.writes
		withKey(adminKey)(r)
		r.Header.Set("Content-Type", "application/json")
		r.Header["Idempotency-Key"], r.Header["If-Match"] = []string{once}, []string{match}
		w := httptest.NewRecorder()
		s.server.ServeHTTP(w, r)
		require.Less(t, w.Code, 500, "%s %s: %s", method, r.URL, w.Body)
		if w.Code >= 400 {
			require.Equal(t, writes, s.store.writes, "%s %s", method, r.URL)
			require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		}
	})
}
