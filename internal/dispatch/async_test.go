package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"rubato/internal/callbacks"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
	"rubato/internal/secrets"
	"rubato/internal/signing"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/items"
	"rubato/internal/store/pg"
	"rubato/internal/waittest"
)

const callbackBase = "https://rubato.example.com/v1/callbacks/"

// acceptingTarget answers every request by 202, and passes on the callback URL of each.
type acceptingTarget struct {
	server
	callbacks chan string
}

func startAccepting(t *testing.T) *acceptingTarget {
	t.Helper()
	a := &acceptingTarget{callbacks: make(chan string, 100)}
	a.server = serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		a.callbacks <- r.Header.Get("Rubato-Callback-Url")
	})
	return a
}

// server is a target that is an ordinary HTTP server.
type server struct{ *httptest.Server }

func serve(t *testing.T, handler http.HandlerFunc) server {
	t.Helper()
	s := server{httptest.NewServer(handler)}
	t.Cleanup(s.Close)
	return s
}

// URL is the URL of the server.
func (s server) URL() string { return s.Server.URL }

// token is the token of the next callback URL.
func (a *acceptingTarget) token(t *testing.T) string {
	t.Helper()
	token, is := strings.CutPrefix(waittest.Receive(t, a.callbacks), callbackBase)
	require.True(t, is)
	return token
}

// suspensions is a store of suspended runs with a database connection of its own.
func (b *bundle) suspensions(t *testing.T) *items.Suspensions {
	t.Helper()
	db, err := pg.Open(t.Context(), pg.Config{URL: b.url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return items.NewSuspensions(endpointstore.NewStates(db, 0))
}

// suspending lets a worker suspend runs, with its requests naming a callback URL.
func suspending(store *items.Suspensions) func(*dispatch.Config) {
	return func(c *dispatch.Config) { c.Suspensions, c.PublicURL = store, "https://rubato.example.com" }
}

// asynchronous is an edit for an endpoint with asynchronous runs.
func asynchronous(callback endpoints.CallbackPolicy) func(*endpoints.Spec) {
	return func(s *endpoints.Spec) { s.Method, s.Async.Timeout, s.Async.Callback = "POST", time.Hour, callback }
}

// TestACallbackEndsASuspendedRun has one slot for two endpoints whose targets answer 202. Both runs
// are suspended at the same time, and each ends by its callback, once.
func TestACallbackEndsASuspendedRun(t *testing.T) {
	t.Parallel()
	b, target := setup(t), startAccepting(t)
	store := b.suspensions(t)
	for range 2 {
		b.register(t, target, asynchronous(endpoints.CallbackURL))
	}
	b.work(t, func(c *dispatch.Config) {
		suspending(store)(c)
		c.Slots = 1
	})
	first, second := target.token(t), target.token(t)
	b.await(t, 2, "SELECT count(*) FROM suspensions")
	registry := prometheus.NewRegistry()
	service := dispatch.NewCallbacks(store, nil, slog.New(slog.DiscardHandler), registry)

	_, err := service.Report(t.Context(), first, callbacks.Report{Status: "FAILED"})
	require.Equal(t, []errs.Field{{Field: "status", Code: "invalid_value", Message: "must be succeeded, failed or progress"}}, errs.FieldsOf(err))

	going, err := service.Report(t.Context(), first, callbacks.Report{Status: callbacks.Progress})
	require.NoError(t, err)
	require.Equal(t, runs.Running, going.Status)
	require.Greater(t, time.Until(going.Until), 59*time.Minute)

	done, err := service.Report(t.Context(), first, callbacks.Report{Status: callbacks.Succeeded, Body: json.RawMessage(`{"rows":7}`)})
	require.NoError(t, err)
	require.Equal(t, runs.Succeeded, done.Status)
	run, err := b.runs.Get(t.Context(), tenant.TenantID, done.RunID)
	require.NoError(t, err)
	require.JSONEq(t, `{"rows":7}`, string(run.Outcome.Body))
	require.Equal(t, http.StatusAccepted, run.Outcome.StatusCode)
	require.Positive(t, run.Outcome.Phases.Wait, "of the answer 202")

	_, err = service.Report(t.Context(), first, callbacks.Report{Status: callbacks.Failed})
	require.Equal(t, errs.Conflict, errs.CodeOf(err), err)
	story, err := b.runs.Events(t.Context(), tenant.TenantID, done.RunID)
	require.NoError(t, err)
	var kinds []runs.EventKind
	for _, e := range story {
		kinds = append(kinds, e.Kind)
	}
	require.Equal(t, []runs.EventKind{runs.EventClaimed, runs.EventStarted, runs.EventSuspended, runs.EventFinished, runs.EventLateResult}, kinds)

	failed, err := service.Report(t.Context(), second, callbacks.Report{Status: callbacks.Failed, Error: "no room on the disk"})
	require.NoError(t, err)
	require.Equal(t, runs.Failed, failed.Status)
	run, err = b.runs.Get(t.Context(), tenant.TenantID, failed.RunID)
	require.NoError(t, err)
	require.Equal(t, runs.CallbackFailed, run.Outcome.Reason)
	require.Equal(t, "the target reported: no room on the disk", run.Outcome.Error)
	b.await(t, 0, "SELECT count(*) FROM suspensions")
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP rubato_callbacks_ended_total Suspended runs that a report of their target ended, by status. A worker does not count them as finished.
# TYPE rubato_callbacks_ended_total counter
rubato_callbacks_ended_total{status="failed"} 1
rubato_callbacks_ended_total{status="succeeded"} 1
`)))
}

// TestAWrongCallbackTokenChangesNothing changes every byte of a token, and cuts and extends it.
func TestAWrongCallbackTokenChangesNothing(t *testing.T) {
	t.Parallel()
	b, target := setup(t), startAccepting(t)
	store := b.suspensions(t)
	b.register(t, target, asynchronous(endpoints.CallbackURL))
	b.work(t, suspending(store))
	token := target.token(t)
	b.await(t, 1, "SELECT count(*) FROM suspensions")
	service := dispatch.NewCallbacks(store, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	for _, text := range []string{"", token[1:], token + "A", token[:95] + "="} {
		_, err := service.Report(t.Context(), text, callbacks.Report{Status: callbacks.Succeeded})
		require.Equal(t, errs.Malformed, errs.CodeOf(err), "%s: %v", text, err)
	}
	var wrong []string
	for i := range len(token) {
		other := byte('A')
		if token[i] == 'A' {
			other = 'B'
		}
		wrong = append(wrong, token[:i]+string(other)+token[i+1:])
	}
	for _, text := range wrong {
		_, err := service.Report(t.Context(), text, callbacks.Report{Status: callbacks.Succeeded})
		require.Equal(t, errs.NotFound, errs.CodeOf(err), "%s: %v", text, err)
	}
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM suspensions"))
}

// TestAnEarlyCallbackWaitsForTheSuspension has a target that calls back before it answers 202.
func TestAnEarlyCallbackWaitsForTheSuspension(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.suspensions(t)
	service := dispatch.NewCallbacks(store, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	reported := make(chan error, 1)
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Rubato-Callback-Url"), callbackBase)
		began := make(chan struct{})
		go func(ctx context.Context) {
			close(began)
			_, err := service.Report(ctx, token, callbacks.Report{Status: callbacks.Succeeded})
			reported <- err
		}(context.WithoutCancel(r.Context()))
		<-began
		w.WriteHeader(http.StatusAccepted)
	})
	b.register(t, target, asynchronous(endpoints.CallbackURL))
	b.work(t, suspending(store))
	require.NoError(t, waittest.Receive(t, reported))
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
}

// TestASignedCallbackNeedsASignature reports without a signature, with a wrong one, and with one.
func TestASignedCallbackNeedsASignature(t *testing.T) {
	t.Parallel()
	b, target := setup(t), startAccepting(t)
	safe, store := b.safe(t), b.suspensions(t)
	_, key, err := safe.signing.Create(t.Context(), tenant, signing.Request{})
	require.NoError(t, err)
	b.register(t, target, asynchronous(endpoints.CallbackSigned))
	b.work(t, func(c *dispatch.Config) {
		suspending(store)(c)
		safe.open(c)
	})
	token := target.token(t)
	b.await(t, 1, "SELECT count(*) FROM suspensions")
	service := dispatch.NewCallbacks(store, safe.vault, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	report := callbacks.Report{Status: callbacks.Succeeded, Raw: []byte(`{"status":"succeeded"}`), Header: http.Header{}}
	sign := func(with secrets.Text, at time.Time) {
		report.Header, err = signing.Sign(signing.Message{ID: "msg_1", At: at, Body: report.Raw}, []secrets.Text{with})
		require.NoError(t, err)
	}
	refused := func(about string) {
		_, err := service.Report(t.Context(), token, report)
		require.Equal(t, errs.Unauthorized, errs.CodeOf(err), "%s: %v", about, err)
	}
	refused("no signature")
	sign(signing.NewText(), time.Now())
	refused("another key")
	sign(key, time.Now().Add(-time.Hour))
	refused("an old one")
	sign(key, time.Now())
	report.Raw = []byte(`{"status":"failed"}`)
	refused("another body")
	report.Raw = []byte(`{"status":"succeeded"}`)
	_, err = service.Report(t.Context(), token, report)
	require.NoError(t, err)
}

// TestAStatusURLEndsASuspendedRun has a target with a status URL that says 202 once, then fails,
// and then redirects to the result.
func TestAStatusURLEndsASuspendedRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.suspensions(t)
	var asked atomic.Int32
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "1")
		switch r.URL.Path {
		case "/":
			w.Header().Set("Location", "/status/7")
			w.WriteHeader(http.StatusAccepted)
		case "/status/7":
			switch asked.Add(1) {
			case 1:
				w.WriteHeader(http.StatusAccepted)
			case 2:
				w.WriteHeader(http.StatusBadGateway)
			default:
				http.Redirect(w, r, "/result/7", http.StatusSeeOther)
			}
		default:
			_, _ = fmt.Fprintf(w, "%s %s, shop %s, type %q, callback %q, length %d", r.Method, r.URL.Path,
				r.Header.Get("X-Shop"), r.Header.Get("Content-Type"), r.Header.Get("Rubato-Callback-Url"), r.ContentLength)
		}
	})
	e := b.register(t, target, func(s *endpoints.Spec) {
		asynchronous(endpoints.CallbackNone)(s)
		s.Headers = map[string]string{"X-Shop": "7", "Content-Type": "application/json"}
		s.Body = "{}"
	})
	p := b.work(t, suspending(store))
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded' AND status_code = 200")
	id := query[[16]byte](t, b, "SELECT id FROM runs WHERE endpoint_id = $1", [16]byte(e.ID))
	run, err := b.runs.Get(t.Context(), tenant.TenantID, id)
	require.NoError(t, err)
	require.Equal(t, `GET /result/7, shop 7, type "", callback "", length 0`, string(run.Outcome.Body))
	require.InDelta(t, 3, p.counter(t, "rubato_dispatch_polls_total"), 0)
}

// TestA202ThatNothingCanEndFailsItsRun has a worker without a public URL, and a target without a
// status URL.
func TestA202ThatNothingCanEndFailsItsRun(t *testing.T) {
	t.Parallel()
	b, target := setup(t), startAccepting(t)
	b.register(t, target, asynchronous(endpoints.CallbackURL))
	b.work(t, func(c *dispatch.Config) { c.Suspensions = b.suspensions(t) })
	require.Empty(t, waittest.Receive(t, target.callbacks))
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'failed' AND reason_code = 'no_status_url'")
}
