package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/auth"
	"rubato/internal/errs"
)

// silent is a database that takes every question and answers none.
type silent struct{}

func (silent) wait(ctx context.Context) error {
	<-ctx.Done()
	return errs.Wrap(ctx.Err(), errs.Unavailable, "the database cannot be reached; try again")
}

func (s silent) FindKey(ctx context.Context, _ [sha256.Size]byte) (auth.Principal, error) {
	return auth.Principal{}, s.wait(ctx)
}

func (s silent) Open(ctx context.Context, _, _ [sha256.Size]byte, _ time.Duration) error {
	return s.wait(ctx)
}

func (s silent) Find(ctx context.Context, _ [sha256.Size]byte) (key [sha256.Size]byte, err error) {
	return key, s.wait(ctx)
}

func (s silent) Close(ctx context.Context, _ [sha256.Size]byte) error { return s.wait(ctx) }

// TestASilentDatabaseFailsWithinTheAPITimeout requires an error page as soon as a client of the API
// would get an error.
func TestASilentDatabaseFailsWithinTheAPITimeout(t *testing.T) {
	t.Parallel()
	cookie := &http.Cookie{Name: sessionCookie, Value: "x"}
	for name, tc := range map[string]struct {
		request *http.Request
		form    bool // that the key can be typed into again
	}{
		"Page":       {httptest.NewRequest(http.MethodGet, "/console/endpoints", nil), false},
		"SignInPage": {httptest.NewRequest(http.MethodGet, "/console/signin?to=%2Fconsole%2Fruns", nil), true},
		"SignIn": {
			httptest.NewRequest(http.MethodPost, "/console/signin", strings.NewReader(url.Values{"key": {"rbt_key"}, "to": {"/console/runs"}}.Encode())), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.request.AddCookie(cookie)
			tc.request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			synctest.Test(t, func(t *testing.T) {
				s := New(Config{Auth: auth.NewAuthenticator(silent{}), Sessions: silent{}, Logger: slog.New(slog.DiscardHandler)})
				answer, began := httptest.NewRecorder(), time.Now()
				s.ServeHTTP(answer, tc.request)
				require.LessOrEqual(t, time.Since(began), 20*time.Second)
				require.Equal(t, http.StatusServiceUnavailable, answer.Code)
				require.Equal(t, "2", answer.Header().Get("Retry-After"))
				require.Contains(t, answer.Body.String(), "The database cannot be reached; try again.")
				require.Equal(t, tc.form, strings.Contains(answer.Body.String(), `name="key"`))
				require.Equal(t, tc.form, strings.Contains(answer.Body.String(), `value="/console/runs"`), "where the sign-in leads stays")
			})
		})
	}
}

// A page that is opened while the database is unavailable reloads by itself if its request is safe.
// A form is never sent twice.
func TestAPageOfAnOutageIsNoDeadEnd(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		method string
		header http.Header
		says   string
		again  bool
	}{
		"Page":     {http.MethodGet, nil, `<a href="/console/runs?status=failed&amp;x=1">Try again</a>`, true},
		"Form":     {http.MethodPost, nil, `<a href="/">Back to the overview</a>`, false},
		"Fragment": {http.MethodGet, http.Header{http.CanonicalHeaderKey(fragmentHeader): {"true"}}, `role="alert"`, false},
		"LivePart": {http.MethodGet, http.Header{"Accept": {"text/event-stream"}}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := New(Config{Auth: auth.NewAuthenticator(silent{}), Sessions: unreachable{}, Logger: slog.New(slog.DiscardHandler)})
				r := httptest.NewRequest(tc.method, "/console/runs?status=failed&x=1", nil)
				if tc.method == http.MethodPost {
					r = httptest.NewRequest(tc.method, "/console/signout", nil)
				}
				maps.Copy(r.Header, tc.header)
				r.AddCookie(&http.Cookie{Name: sessionCookie, Value: "x"})
				answer := httptest.NewRecorder()
				s.ServeHTTP(answer, r)
				require.Equal(t, http.StatusServiceUnavailable, answer.Code)
				require.Contains(t, answer.Body.String(), tc.says)
				require.Equal(t, tc.again, answer.Header().Get("Refresh") == "5", answer.Header())
				require.Equal(t, tc.again, strings.Contains(answer.Body.String(), "Try again"))
				if name == "LivePart" {
					require.Equal(t, "the database cannot be reached", answer.Body.String(), "what the page says of it")
				}
			})
		})
	}
}

// unreachable is a database that cannot be reached.
type unreachable struct{ silent }

func (unreachable) Find(context.Context, [sha256.Size]byte) (key [sha256.Size]byte, err error) {
	return key, errs.New(errs.Unavailable, "", "the database cannot be reached; try again")
}

// TestDisconnectedClientsAreNoError disconnects while the page is rendered. Nothing is sent, and no
// error is logged.
func TestDisconnectedClientsAreNoError(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]http.Header{"Page": nil, "Data": {http.CanonicalHeaderKey(fragmentHeader): {"true"}}, "LivePart": {"Accept": {"text/event-stream"}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var logged bytes.Buffer
			s := New(Config{
				Auth: auth.NewAuthenticator(silent{}), Sessions: silent{},
				Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelInfo})),
			})
			gone, leave := context.WithCancel(t.Context())
			leave()
			r := httptest.NewRequest(http.MethodGet, "/console/endpoints/ep_x/data", nil).WithContext(gone)
			maps.Copy(r.Header, header)
			r.AddCookie(&http.Cookie{Name: sessionCookie, Value: "x"})
			answer := httptest.NewRecorder()
			s.ServeHTTP(answer, r)
			require.Empty(t, logged.String())
			require.Empty(t, answer.Body.String())
		})
	}
}

// known is a database that knows one visitor.
type known struct{ silent }

func (known) FindKey(context.Context, [sha256.Size]byte) (auth.Principal, error) {
	return auth.Principal{Name: "somebody", Scopes: []auth.Scope{auth.Admin}}, nil
}

func (known) Find(context.Context, [sha256.Size]byte) (key [sha256.Size]byte, err error) {
	return key, nil
}

// The API gives a test the time that its target may take, and so does the page that shows it.
func TestAPageThatSendsATestWaitsForIt(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/console/notices/rules/x/test", "/console/draft/try", "/console/endpoints/ep_x/do/test"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var cut error
				api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if strings.HasSuffix(r.URL.Path, "/test") {
						time.Sleep(40 * time.Second)
						cut = r.Context().Err()
					}
					_, _ = w.Write([]byte("{}"))
				})
				s := New(Config{API: api, Auth: auth.NewAuthenticator(known{}), Sessions: known{}, Logger: slog.New(slog.DiscardHandler)})
				r := httptest.NewRequest(http.MethodPost, path, nil).WithContext(t.Context())
				r.AddCookie(&http.Cookie{Name: sessionCookie, Value: "x"})
				began := time.Now()
				s.ServeHTTP(httptest.NewRecorder(), r)
				require.Equal(t, 40*time.Second, time.Since(began))
				require.NoError(t, cut)
			})
		})
	}
}

// once is a session store that accepts a session from the second request on.
type once struct {
	silent
	asked bool
}

func (o *once) Open(ctx context.Context, _, _ [sha256.Size]byte, _ time.Duration) error {
	if !o.asked {
		o.asked = true
		return o.wait(ctx)
	}
	return nil
}

func TestASignInTicketWorksOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ticket := NewTicket("rbt_key")
		s := New(Config{Auth: auth.NewAuthenticator(silent{}), Sessions: &once{}, Logger: slog.New(slog.DiscardHandler), Ticket: ticket})
		for _, want := range []int{http.StatusServiceUnavailable, http.StatusSeeOther, http.StatusForbidden} {
			answer := httptest.NewRecorder()
			s.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, ticket.Path(), nil))
			require.Equal(t, want, answer.Code)
		}
	})
}
