package console

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/errs"
	"rubato/internal/web"
)

// through returns the world behind a proxy. meddle may answer a request in place of the server.
func (w *world) through(t *testing.T, meddle func(http.ResponseWriter, *http.Request, http.Handler)) *world {
	t.Helper()
	target, err := url.Parse(w.url)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	// The browser or the server closed the connection.
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	s := httptest.NewServer(http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) { meddle(a, r, proxy) }))
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	behind := *w
	behind.url, behind.link = s.URL, s.URL+strings.TrimPrefix(w.link, w.url)
	return &behind
}

// pause pauses an endpoint through the API with a reason, which only a live page can show.
func (w *world) pause(t *testing.T, key, reason string) {
	t.Helper()
	w.api(t, http.MethodPost, "/v1/endpoints/"+w.endpoint(t, key).ID+"/pause", client.PauseRequest{Reason: &reason}, nil)
}

// A page becomes live in any order of its scripts, however slowly they load.
func TestAPageIsLiveHoweverSlowlyItsScriptsCome(t *testing.T) {
	t.Parallel()
	var scripts atomic.Int64
	w := setup(t).through(t, func(a http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, ".js") && scripts.Add(1) > 1 {
			select {
			case <-time.After(time.Second): // Long enough for a script that came to start before the next is there.
			case <-r.Context().Done():
			}
		}
		next.ServeHTTP(a, r)
	})
	b := open(browser(t), t, w, wide)
	b.visit(w.link)
	scripts.Store(0)
	b.visit("/console/endpoints/" + w.endpoint(t, "demo-report").ID)
	b.says("Why the next run is due then")
	w.pause(t, "demo-report", "seen live")
	b.says("until resumed: seen live")
	b.clean()
}

// streamed reports whether a request is for a live part.
func streamed(r *http.Request) bool { return r.Header.Get("Accept") == "text/event-stream" }

// A stream that is refused or ends is opened again, and meanwhile the page shows that it is not
// live.
func TestPageReconnectsItsStream(t *testing.T) {
	t.Parallel()
	const up, refusing, gone = 0, 1, 2
	var state atomic.Int64
	cut := make(chan struct{})
	w := setup(t).through(t, func(a http.ResponseWriter, r *http.Request, next http.Handler) {
		if !streamed(r) {
			next.ServeHTTP(a, r)
			return
		}
		switch state.Load() {
		case refusing:
			http.Error(a, "the database is away", http.StatusServiceUnavailable)
			return
		case gone:
			panic(http.ErrAbortHandler)
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go func() {
			select {
			case <-cut:
				cancel()
			case <-ctx.Done():
			}
		}()
		next.ServeHTTP(a, r.WithContext(ctx))
	})
	b := open(browser(t), t, w, phone)
	b.visit(w.link)
	b.says("Overview")
	state.Store(refusing)
	b.visit("/console/endpoints/" + w.endpoint(t, "demo-report").ID)
	b.says("Not live since")
	b.says("UTC: the database is away. The page reconnects automatically.")
	b.accessible()
	b.shoot("stale")
	state.Store(gone)
	b.says("UTC: the server does not respond. The page reconnects automatically.")
	w.pause(t, "demo-report", "while nobody listened")
	state.Store(up)
	b.says("until resumed: while nobody listened")
	b.await("!document.body.innerText.includes('Not live since')")
	cut <- struct{}{} // Taken by the stream that is open.
	w.pause(t, "demo-report", "after the cut")
	b.says("until resumed: after the cut")
}

// away is a session store that cannot be reached until it is back. It has no session then.
type away struct {
	web.Sessions
	back atomic.Bool
}

func (a *away) Find(context.Context, [sha256.Size]byte) (key [sha256.Size]byte, err error) {
	if a.back.Load() {
		return key, errs.New(errs.NotFound, "", "there is no such session")
	}
	return key, errs.New(errs.Unavailable, "", "the database cannot be reached; try again")
}

// A page that is opened during an outage loads by itself afterwards: here the sign-in, which leads
// back to that page.
func TestPageOpenedDuringAnOutageLoadsAfterwards(t *testing.T) {
	t.Parallel()
	sessions := &away{}
	s := httptest.NewServer(web.New(web.Config{Sessions: sessions, Logger: slog.New(slog.DiscardHandler)}))
	t.Cleanup(s.Close)
	b := open(browser(t), t, &world{url: s.URL}, phone)
	b.visit("/console/signin")
	eval[bool](b, `document.cookie = "rubato_session=x; Path=/"; true`)
	b.visit("/console/runs?status=failed")
	b.says("The database cannot be reached")
	require.Equal(t, "/console/runs?status=failed", read[string](b, `document.querySelector("main a").getAttribute("href")`))
	b.shoot("outage")
	b.accessible()
	sessions.back.Store(true)
	b.await("location.pathname === '/console/signin'")
	require.Equal(t, "?to=%2Fconsole%2Fruns%3Fstatus%3Dfailed", read[string](b, "location.search"))
}

// TestEndpointListShowsALostServer stops the server and starts it again. A search that fails
// meanwhile does not ask the user to check its effect.
func TestEndpointListShowsALostServer(t *testing.T) {
	t.Parallel()
	var gone atomic.Bool
	w := setup(t).through(t, func(a http.ResponseWriter, r *http.Request, next http.Handler) {
		if gone.Load() {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(a, r)
	})
	b := open(browser(t), t, w, wide)
	b.visit(w.link)
	b.visit("/console/endpoints")
	b.says("demo-report")
	gone.Store(true)
	b.says("UTC: the server does not respond. The page reconnects automatically.")
	b.shoot("list-stale")
	b.write("[name=q]", "demo-p")
	b.says("The server did not respond. Try again.")
	require.False(t, eval[bool](b, "document.body.innerText.includes('Check whether')"))
	gone.Store(false)
	b.await("!document.body.innerText.includes('Not live since')")
	w.pause(t, "demo-report", "x")
	b.await("document.querySelector('#row-" + w.endpoint(t, "demo-report").ID + " .badge').innerText === 'paused'")
}

// The answer to an action updates the page, however slow the stream is.
func TestActionUpdatesPageWithoutStream(t *testing.T) {
	t.Parallel()
	w := setup(t).through(t, func(a http.ResponseWriter, r *http.Request, next http.Handler) {
		if streamed(r) {
			<-r.Context().Done()
			return
		}
		next.ServeHTTP(a, r)
	})
	b := open(browser(t), t, w, wide)
	b.visit(w.link)
	b.visit("/console/endpoints/" + w.endpoint(t, "demo-report").ID)
	b.do("archive", "Archive permanently", nil, "Endpoint archived")
	b.says("The endpoint is archived and never runs again")
	require.Zero(t, eval[int](b, "document.querySelectorAll('[hx-get*=\"/do/\"]').length"))
	b.clean()
}

// A live page with an expired session leads to the sign-in, and from there back.
func TestALivePageEndsWithItsSession(t *testing.T) {
	t.Parallel()
	w := setup(t)
	b := open(browser(t), t, w, wide)
	b.visit(w.link)
	b.visit("/console/workers")
	b.says("Heartbeat")
	w.sql(t, "DELETE FROM console_sessions")
	b.await("location.pathname === '/console/signin'")
	require.Equal(t, "?to=%2Fconsole%2Fworkers", read[string](b, "location.search"))
	b.clean()
}
