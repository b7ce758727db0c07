package web

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/auth"
	"rubato/internal/errs"
)

// countingKeys is a database that knows the key "right" and counts the look-ups.
type countingKeys struct {
	silent
	asked int
}

func (d *countingKeys) FindKey(_ context.Context, hash [sha256.Size]byte) (auth.Principal, error) {
	d.asked++
	if hash == auth.Hash("right") {
		return auth.Principal{Name: "ann", Scopes: []auth.Scope{auth.Admin}}, nil
	}
	return auth.Principal{}, errs.New(errs.NotFound, "", "there is no such key")
}

func (d *countingKeys) Open(context.Context, [sha256.Size]byte, [sha256.Size]byte, time.Duration) error {
	return nil
}

func TestWrongKeysInARowAreThrottledOnSignIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		door := &countingKeys{}
		s := New(Config{
			Auth: auth.NewAuthenticator(door), Sessions: door, Logger: slog.New(slog.DiscardHandler),
			Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, // The test's requests come from there.
		})
		try := func(key, client string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, "/console/signin", strings.NewReader(url.Values{"key": {key}}.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("X-Forwarded-For", client)
			answer := httptest.NewRecorder()
			s.ServeHTTP(answer, r)
			return answer
		}
		refused := 0
		for range 31 {
			if try("wrong", "203.0.113.9").Code == http.StatusTooManyRequests {
				refused++
			}
		}
		require.Equal(t, 21, refused)
		require.Equal(t, 10, door.asked, "a refused attempt costs the database nothing")
		answer := try("right", "203.0.113.9")
		require.Equal(t, http.StatusTooManyRequests, answer.Code, "also the right key waits, or guesses could go on")
		require.Equal(t, "6", answer.Header().Get("Retry-After"))
		require.Contains(t, answer.Body.String(), "Try again in 6 s.")
		require.Equal(t, http.StatusSeeOther, try("right", "203.0.113.10").Code, "another client does not wait")
		time.Sleep(6 * time.Second)
		require.Equal(t, http.StatusSeeOther, try("right", "203.0.113.9").Code)
	})
}

func TestAnErrorOfAFieldIsSaidOnce(t *testing.T) {
	t.Parallel()
	answer := httptest.NewRecorder()
	s := New(Config{
		API: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"status":400,"title":"Bad Request","detail":"the cursor is not one of ours","errors":[{"field":"cursor","message":"cursor is not one of ours"}]}`))
		}),
		Auth: auth.NewAuthenticator(known{}), Sessions: known{}, Logger: slog.New(slog.DiscardHandler),
	})
	r := httptest.NewRequest(http.MethodGet, "/console/endpoints?cursor=x", nil)
	r.AddCookie(&http.Cookie{Name: sessionCookie, Value: "x"})
	s.ServeHTTP(answer, r)
	require.Equal(t, http.StatusBadRequest, answer.Code)
	require.Equal(t, 1, strings.Count(answer.Body.String(), "cursor is not one of ours"))
}
