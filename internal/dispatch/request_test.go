package dispatch_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch"
	"rubato/internal/egress/egresstest"
	"rubato/internal/endpoints"
	"rubato/internal/secrets"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
	"rubato/internal/waittest"
)

// lockedAway gives a bundle secrets, and returns what makes a worker know them.
func (b *bundle) lockedAway(t *testing.T, values map[string]string) func(*dispatch.Config) {
	t.Helper()
	db, err := pg.Open(t.Context(), pg.Config{URL: b.url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	keyring, err := secrets.NewKeyring([]secrets.Key{{ID: "k1", Bytes: secrets.NewText(string(make([]byte, secrets.KeySize)))}})
	require.NoError(t, err)
	service := secrets.NewService(keystore.NewSecrets(db), keyring)
	for name, value := range values {
		_, _, err := service.Put(t.Context(), tenant, secrets.Request{Name: name, Value: secrets.NewText(value)})
		require.NoError(t, err)
	}
	vault := secrets.NewVault(keystore.NewSecrets(db), keyring, slog.New(slog.DiscardHandler))
	return func(c *dispatch.Config) { c.Secrets = vault }
}

// lastRun returns the newest run of an endpoint from the history.
func (b *bundle) lastRun(t *testing.T, e *endpoints.Endpoint) (status, reason, text string) {
	t.Helper()
	row := b.pool.QueryRow(t.Context(), "SELECT status, reason_code, coalesce(error, '') FROM runs WHERE endpoint_id = $1 ORDER BY id DESC LIMIT 1", e.ID)
	require.NoError(t, row.Scan(&status, &reason, &text))
	return status, reason, text
}

func (b *bundle) runNow(t *testing.T, e *endpoints.Endpoint) {
	t.Helper()
	_, err := b.service.RunNow(t.Context(), tenant, e.ID, endpoints.OneOffRequest{})
	require.NoError(t, err)
}

// TestOneOffRunsDoNotCountInStartLag requests a run while another is in flight, so that it has to
// wait.
func TestOneOffRunsDoNotCountInStartLag(t *testing.T) {
	t.Parallel()
	b, target := setup(t), startGated(t)
	e := b.register(t, target.Target, func(s *endpoints.Spec) { s.BaselineInterval = time.Hour })
	p := b.work(t, nil)
	waittest.Receive(t, target.arrived)
	b.runNow(t, e)
	target.letGo <- struct{}{}
	waittest.Receive(t, target.arrived)
	target.letGo <- struct{}{}
	b.await(t, 2, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	require.InDelta(t, 1, p.counter(t, "rubato_dispatch_start_lag_seconds"), 0)
}

// TestARunFillsInItsRequest sends one request with templates in every field, twice: the second run
// knows of the first.
func TestARunFillsInItsRequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	know := b.lockedAway(t, map[string]string{"token": "s3cr&t-value", "pin": "0042-0042"})
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("you sent s3cr&t-value and czNjciZ0LXZhbHVl")))
	e := b.register(t, target, func(s *endpoints.Spec) {
		s.Name, s.Key, s.Labels = "Nightly & <daily>", "nightly", map[string]string{"team": "blue/white"}
		s.Method, s.URL = "POST", target.URL()+`/teams/{{endpoint.labels.team}}?for={{run.scheduledFor | date "%F"}}`
		s.Query = map[string]string{"b": "{{endpoint.key}}", "a": "x y", "pin": `{{secret "pin"}}`}
		s.Headers = map[string]string{"Content-Type": "application/json", "x-run": "{{run.id}}", "X-Plain": "as it is"}
		s.Body = `{"name":"{{endpoint.name}}","attempt":{{run.attempt}},"last":{"status":{{last.status}},"code":{{last.statusCode}}},"at":{{last.finishedAt}}}`
		s.Auth = &endpoints.Auth{Type: endpoints.AuthBearer, Token: `{{secret "token"}}`}
	})
	b.work(t, know)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	b.runNow(t, e)
	b.await(t, 2, "SELECT count(*) FROM runs WHERE status = 'succeeded'")

	requests := target.Requests()
	require.Len(t, requests, 2)
	day := requests[0].Header.Get("Rubato-Scheduled-For")[:10]
	require.Equal(t, "/teams/blue%2Fwhite?for="+day+"&a=x+y&b=nightly&pin=0042-0042", requests[0].URI)
	require.Equal(t, "Bearer s3cr&t-value", requests[0].Header.Get("Authorization"))
	require.Equal(t, requests[0].Header.Get("Rubato-Run-Id"), requests[0].Header.Get("X-Run"))
	require.Equal(t, "as it is", requests[0].Header.Get("X-Plain"))
	require.JSONEq(t, `{"name":"Nightly & <daily>","attempt":1,"last":{"status":null,"code":null},"at":null}`, string(requests[0].Body))
	var second struct {
		Last struct {
			Status string
			Code   int
		}
		At time.Time
	}
	require.NoError(t, json.Unmarshal(requests[1].Body, &second))
	require.Equal(t, "succeeded", second.Last.Status)
	require.Equal(t, 200, second.Last.Code)
	require.WithinDuration(t, query[time.Time](t, b, "SELECT min(finished_at) FROM runs"), second.At, time.Millisecond)

	bodies := query[string](t, b, "SELECT string_agg(convert_from(body, 'UTF8'), ' ') FROM run_bodies")
	require.NotContains(t, bodies, "s3cr&t-value")
	require.NotContains(t, bodies, "czNjciZ0LXZhbHVl")
	require.Contains(t, bodies, "you sent")
}

// TestARequestThatCannotBeFilledInIsNotSent: the run fails by its own reason, counts as a failure,
// and is not tried again.
func TestARequestThatCannotBeFilledInIsNotSent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit func(*endpoints.Spec)
		sql  string // change of the stored row since the claim
		want string
	}{
		"LineBreak": {
			edit: func(s *endpoints.Spec) { s.Headers = map[string]string{"X-Breaking": `{{secret "breaking"}}`} },
			want: `nothing was sent: headers.X-Breaking: line 1, column 1: secret "breaking" holds a line break or a control character, which no header may`,
		},
		"Length": {
			edit: func(s *endpoints.Spec) { s.Query = map[string]string{"q": `{{secret "long"}}`} },
			want: "nothing was sent: query.q: line 1, column 1: secret \"long\" makes the text longer than 2048 bytes",
		},
		"SecretIsGone": {
			edit: func(s *endpoints.Spec) {
				s.Auth = &endpoints.Auth{Type: endpoints.AuthBasic, Username: "ada", Password: `{{secret "gone"}}`}
			},
			sql:  "DELETE FROM secrets WHERE name = 'gone'",
			want: `nothing was sent: auth.password: line 1, column 1: secret "gone": there is no such secret`,
		},
		"WrittenByAnEarlierRelease": {
			sql:  `UPDATE endpoints SET spec = spec || '{"method": "POST", "body": "a {{mustache}}"}'`,
			want: `nothing was sent: body: at line 1, column 5: "mustache" is not known here`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			know := b.lockedAway(t, map[string]string{"breaking": "a\r\nX-Admin: 1", "long": string(make([]byte, 3000)), "gone": "gone-gone"})
			target := answering(t)
			e := b.register(t, target, func(s *endpoints.Spec) {
				s.Retry.MaxAttempts = 3
				if tc.edit != nil {
					tc.edit(s)
				}
			})
			if tc.sql != "" {
				b.exec(t, "SET session_replication_role = replica; "+tc.sql)
			}
			b.work(t, know)
			b.awaitTimely(t, 1)

			status, reason, text := b.lastRun(t, e)
			require.Equal(t, "failed", status)
			require.Equal(t, "template_failed", reason)
			require.Contains(t, text, tc.want)
			require.NotContains(t, text, "X-Admin")
			require.Zero(t, target.Conns())
			require.Equal(t, 1, b.state(t, e).FailureCount)
		})
	}
}

// tokens is a token server: it counts, and answers with the next token while it is well.
type tokens struct {
	mu     sync.Mutex
	issued int
	asked  int
	ill    bool
}

func (s *tokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	user, password, _ := r.BasicAuth()
	if s.ill || user != "rubato" || password != "client-s3cret" {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	s.issued++
	_, _ = fmt.Fprintf(w, `{"access_token":"token-number-%d","token_type":"Bearer","expires_in":3600}`, s.issued)
}

func (s *tokens) counts() (issued, asked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issued, s.asked
}

func startTokens(t *testing.T) (*tokens, *httptest.Server) {
	t.Helper()
	issuer := &tokens{}
	server := httptest.NewServer(issuer)
	t.Cleanup(server.Close)
	return issuer, server
}

func oauth2(server *httptest.Server) *endpoints.Auth {
	return &endpoints.Auth{Type: endpoints.AuthOAuth2, TokenURL: server.URL, ClientID: "rubato", ClientSecret: `{{secret "client"}}`}
}

// TestAnAccessTokenIsKeptUntilTheTargetRefusesIt: three runs, two tokens. A refused run is not
// repeated by itself.
func TestAnAccessTokenIsKeptUntilTheTargetRefusesIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	know := b.lockedAway(t, map[string]string{"client": "client-s3cret"})
	issuer, server := startTokens(t)
	var mu sync.Mutex
	var seen []string
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Header.Get("Authorization"))
		if len(seen) == 2 {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, "hello "+r.Header.Get("Authorization"))
	}))
	t.Cleanup(target.Close)
	e := b.register(t, answering(t), func(s *endpoints.Spec) { s.URL, s.Auth = target.URL, oauth2(server) })
	b.work(t, know)
	b.awaitTimely(t, 1)
	for n := range 2 {
		b.runNow(t, e)
		b.awaitTimely(t, n+2)
	}

	require.Equal(t, []string{"Bearer token-number-1", "Bearer token-number-1", "Bearer token-number-2"}, seen)
	issued, asked := issuer.counts()
	require.Equal(t, 2, issued)
	require.Equal(t, 2, asked)
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM runs WHERE status = 'failed' AND reason_code = 'http_status' AND status_code = 401"))
	require.NotContains(t, query[string](t, b, "SELECT string_agg(convert_from(body, 'UTF8'), ' ') FROM run_bodies"), "token-number")
}

// TestATokenIsKeptWhereAnotherHostRefuses redirects to a host that gets no token. Its 401 does not
// invalidate the cached token.
func TestATokenIsKeptWhereAnotherHostRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	know := b.lockedAway(t, map[string]string{"client": "client-s3cret"})
	issuer, server := startTokens(t)
	other := egresstest.Start(t, egresstest.Answer(egresstest.Status("401 Unauthorized", "")))
	target := egresstest.Start(t, egresstest.Answer(egresstest.Redirect("302 Found", other.URL())))
	e := b.register(t, target, func(s *endpoints.Spec) { s.FollowRedirects, s.Auth = 1, oauth2(server) })
	b.work(t, know)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status_code = 401")
	b.runNow(t, e)
	b.await(t, 2, "SELECT count(*) FROM runs WHERE status_code = 401")

	require.Empty(t, other.Requests()[0].Header.Get("Authorization"))
	issued, _ := issuer.counts()
	require.Equal(t, 1, issued)
}

// TestWithoutAnAccessTokenNothingIsSent, and the attempts that follow do not press the token
// server.
func TestWithoutAnAccessTokenNothingIsSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	know := b.lockedAway(t, map[string]string{"client": "client-s3cret"})
	issuer := &tokens{ill: true}
	server := httptest.NewServer(issuer)
	t.Cleanup(server.Close)
	target := answering(t)
	e := b.register(t, target, func(s *endpoints.Spec) {
		s.Auth = oauth2(server)
		s.Retry = endpoints.Retry{MaxAttempts: 3, Backoff: time.Millisecond, MaxBackoff: time.Millisecond}
	})
	b.work(t, know)
	b.await(t, 3, "SELECT count(*) FROM runs WHERE status = 'failed' AND reason_code = 'auth_failed'")

	_, _, text := b.lastRun(t, e)
	require.Equal(t, "nothing was sent: getting an access token: the token server answered 500", text)
	require.Zero(t, target.Conns())
	_, asked := issuer.counts()
	require.Equal(t, 1, asked)
	require.Equal(t, 1, b.state(t, e).FailureCount)
}

// TestAWaitForATokenEndsWithTheRun cancels a run that waits for its access token.
func TestAWaitForATokenEndsWithTheRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	know := b.lockedAway(t, map[string]string{"client": "client-s3cret"})
	hangs, over := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		hangs <- struct{}{}
		<-over
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	target := answering(t)
	b.register(t, target, func(s *endpoints.Spec) { s.Auth = oauth2(server) })
	p := b.work(t, know)
	waittest.Receive(t, hangs)
	b.exec(t, "UPDATE live_runs SET cancel_requested_at = now(), cancel_requested_by = 'ada', cancel_reason = ''")
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'canceled'")
	require.Zero(t, target.Conns())
	p.stop(t)
}

// TestSecretsStayWithTheirHost: a header that holds a secret under an unsuspicious name does not
// follow a redirect to another port.
func TestSecretsStayWithTheirHost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	know := b.lockedAway(t, map[string]string{"one": "value-of-one", "two": "value-of-two"})
	other := answering(t)
	target := egresstest.Start(t, egresstest.Answer(egresstest.Redirect("307 Temporary Redirect", other.URL()+"/elsewhere")))
	b.register(t, target, func(s *endpoints.Spec) {
		s.FollowRedirects = 1
		s.Headers = map[string]string{"X-Odd": `{{secret "one"}}`, "X-Plain": "{{run.attempt}}"}
		s.Auth = &endpoints.Auth{Type: endpoints.AuthAPIKey, Header: "X-Strange", Value: `{{secret "two"}}`}
	})
	b.work(t, know)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")

	first, second := target.Requests()[0].Header, other.Requests()[0].Header
	require.Equal(t, "value-of-one", first.Get("X-Odd"))
	require.Equal(t, "value-of-two", first.Get("X-Strange"))
	require.Empty(t, second.Get("X-Odd"))
	require.Empty(t, second.Get("X-Strange"))
	require.Equal(t, "1", second.Get("X-Plain"))
}
