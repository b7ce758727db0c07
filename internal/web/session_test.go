package web

import (
	"context"
	"crypto/sha256"
	"log/slog"
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

// Whoever comes while the database is silent is told so, by the page that was asked for, as soon as a client of the API is.
func TestASilentDatabaseIsToldWithinTheTimeOfTheAPI(t *testing.T) {
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

// once is a database that lets somebody in the second time that it is asked.
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

func TestATicketIsSpentOnceItHasLetSomebodyIn(t *testing.T) {
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
