package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/waittest"
)

// The preview of an action equals the later decision, also for an endpoint with a Retry-After of
// its target.
func TestPreviewMatchesResult(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.HandlerFunc(func(a http.ResponseWriter, _ *http.Request) {
		a.Header().Set("Retry-After", "3600")
		a.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(target.Close)
	w := start(t, false)
	v := w.visitor(t)
	v.signIn(w.key)
	var e client.Endpoint
	w.api(t, http.MethodPost, "/v1/endpoints", map[string]any{"name": "busy", "url": target.URL, "baselineIntervalMs": 60_000, "planner": "off"}, &e)
	w.api(t, http.MethodPost, "/v1/endpoints/"+e.ID+"/run", map[string]any{}, nil)
	waittest.Until(t, func() bool {
		w.api(t, http.MethodGet, "/v1/endpoints/"+e.ID, nil, &e)
		return e.NextSource != nil && *e.NextSource == client.SourceRetryAfter
	})

	instant := regexp.MustCompile(`<strong><time datetime="([^"]+)"`)
	hint := url.Values{"interval": {"30s"}, "ttl": {"1h"}}
	for _, step := range []struct {
		action string
		fields url.Values
	}{{"hint", hint}, {"once", url.Values{"in": {"1m"}}}, {"clear", nil}, {"pause", url.Values{"until": {"2100-01-01T00:00"}}}, {"resume", nil}} {
		before := v.ask("/console/endpoints/"+e.ID+"/do/"+step.action, nil)
		if step.fields != nil {
			before = v.ask("/console/endpoints/"+e.ID+"/what/"+step.action, step.fields)
		}
		require.Equal(t, http.StatusOK, before.status, before.body)
		foreseen := instant.FindStringSubmatch(strings.Join(strings.Fields(before.body), " "))
		require.NotNil(t, foreseen, "%s: %s", step.action, before.body)
		after := v.ask("/console/endpoints/"+e.ID+"/do/"+step.action, url.Values{
			"interval": step.fields["interval"], "ttl": step.fields["ttl"], "in": step.fields["in"], "until": step.fields["until"],
		}, "HX-Request", "true")
		require.Equal(t, http.StatusOK, after.status, after.body)
		_, done, _ := strings.Cut(after.body, "data-done")
		followed := instant.FindStringSubmatch(done)
		require.NotNil(t, followed, "%s: %s", step.action, after.body)
		require.Equal(t, followed[1], foreseen[1], step.action)
	}

	w.api(t, http.MethodGet, "/v1/endpoints/"+e.ID, nil, &e)
	for address, waits := range map[string]bool{target.URL + "/other": true, "https://elsewhere.example/": false} {
		a := v.ask("/console/draft", url.Values{"endpoint": {e.ID}, "name": {e.Name}, "url": {address}, "baseline": {"interval"}, "baselineIntervalMs": {"1m"}})
		found := regexp.MustCompile(`<time datetime="([^"]+)"`).FindStringSubmatch(a.body)
		require.NotNil(t, found, a.body)
		at, err := time.Parse(time.RFC3339, found[1])
		require.NoError(t, err)
		require.Equal(t, waits, at.Equal(*e.NextRunAt), "%s is foreseen for %s, and %s is planned", at, address, e.NextRunAt)
	}
}

// Texts of the greatest permitted length stay inside the page.
func TestTheLongestTextsFit(t *testing.T) {
	t.Parallel()
	w := start(t, false)
	var e client.Endpoint
	w.api(t, http.MethodPost, "/v1/endpoints", map[string]any{
		"name": strings.Repeat("W", 255), "url": "https://example.com/" + strings.Repeat("u", 2000), "baselineIntervalMs": 3_600_000, "description": strings.Repeat("d", 4000),
		"labels": map[string]string{strings.Repeat("k", 63): strings.Repeat("v", 255)}, "headers": map[string]string{"X-" + strings.Repeat("h", 60): strings.Repeat("z", 3000)},
	}, &e)
	w.api(t, http.MethodPut, "/v1/endpoints/"+e.ID+"/hints/interval", map[string]any{"intervalMs": 1_800_000, "ttlMs": 3_600_000, "reason": strings.Repeat("H", 500)}, nil)
	chrome := browser(t)
	for _, pause := range []map[string]any{{"reason": strings.Repeat("R", 500)}, {"reason": strings.Repeat("R", 500), "until": "2100-01-01T00:00:00Z"}} {
		w.api(t, http.MethodPost, "/v1/endpoints/"+e.ID+"/pause", pause, nil)
		b := open(chrome, t, w, phone)
		b.visit("/console/signin")
		if eval[bool](b, "!!document.querySelector('#key')") {
			b.write("#key", w.key)
			b.click("[type=submit]")
			b.await("location.pathname === '/' && document.readyState === 'complete'")
		}
		for _, path := range []string{"/console/endpoints", "/console/endpoints/" + e.ID, "/console/endpoints/" + e.ID + "/edit"} {
			b.visit(path)
			b.await("document.readyState === 'complete' && document.querySelector('main').textContent.includes('WWWW') || document.querySelector('#f-name')?.value")
			b.shoot("long")
		}
	}
}

// The preview in the form of an existing endpoint shows the next runs of that endpoint, not of a
// new one.
func TestEditPreviewMatchesResult(t *testing.T) {
	t.Parallel()
	w := setup(t)
	v := w.visitor(t)
	v.signIn(w.key)
	e := w.endpoint(t, "demo-orders")
	w.api(t, http.MethodPatch, "/v1/endpoints/"+e.ID, map[string]any{"planner": "off"}, nil)
	waittest.Until(t, func() bool { return w.endpoint(t, "demo-orders").LastRun != nil })
	w.api(t, http.MethodPost, "/v1/endpoints/"+e.ID+"/pause", map[string]any{"until": "2100-01-01T00:00:00Z"}, nil)
	instant := regexp.MustCompile(`<time datetime="([^"]+)"`)
	first := func() string {
		t.Helper()
		a := v.ask("/console/draft", url.Values{"endpoint": {e.ID}, "name": {e.Name}, "url": {e.URL}, "baseline": {"interval"}, "baselineIntervalMs": {"1h"}})
		found := instant.FindStringSubmatch(a.body)
		require.NotNil(t, found, a.body)
		return found[1]
	}
	require.Equal(t, "2100-01-01T00:00:00Z", first(), "a pause holds")
	w.api(t, http.MethodPost, "/v1/endpoints/"+e.ID+"/resume", map[string]any{}, nil)
	e = w.endpoint(t, "demo-orders")
	at, err := time.Parse(time.RFC3339, first())
	require.NoError(t, err)
	require.True(t, e.NextRunAt.Equal(at), "%s is foreseen, and %s is planned", at, e.NextRunAt)
}
