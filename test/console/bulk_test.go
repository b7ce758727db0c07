package console

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
)

// A bulk pause goes on past an endpoint that cannot be paused, and its answer names that endpoint.
func TestABulkActionGoesOnPastARefusal(t *testing.T) {
	t.Parallel()
	w := setup(t)
	v := w.visitor(t)
	v.signIn(w.key)
	archived, prices, orders := w.endpoint(t, "demo-report").ID, w.endpoint(t, "demo-prices").ID, w.endpoint(t, "demo-orders").ID
	w.api(t, http.MethodDelete, "/v1/endpoints/"+archived, nil, nil)
	a := v.ask("/console/endpoints/bulk", url.Values{"action": {"pause"}, "reason": {"stock-taking"}, "id": {prices, archived, orders, "ep_x"}})
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Contains(t, a.body, "2 endpoints paused.")
	require.Contains(t, a.body, "1 endpoint was not changed:")
	require.Contains(t, a.body, "archived")
	require.Contains(t, a.body, "ep_x: ")
	require.Equal(t, client.EndpointStatePaused, w.endpoint(t, "demo-prices").State)
	require.Equal(t, client.EndpointStatePaused, w.endpoint(t, "demo-orders").State)
}

// A bulk pause with a missing or unreadable field is refused as a whole and changes nothing.
func TestABulkPauseIsCheckedBeforeItBegins(t *testing.T) {
	t.Parallel()
	w := start(t, true)
	v := w.visitor(t)
	v.signIn(w.key)
	e := w.endpoint(t, "demo-orders")
	for says, form := range map[string]url.Values{
		"must be set: a reason for the pause": {"for": {"1h"}}, "must be in the future": {"reason": {"x"}, "until": {"2020-01-01T00:00"}},
		"keep one of the two": {"reason": {"x"}, "for": {"1h"}, "until": {"2090-01-01T00:00"}}, "for</code>": {"reason": {"x"}, "for": {"soon"}},
		"No endpoints selected": {"id": {}},
	} {
		if form["id"] == nil {
			form["id"] = []string{e.ID}
		}
		form["action"] = []string{"pause"}
		a := v.ask("/console/endpoints/bulk", form)
		require.Equal(t, http.StatusUnprocessableEntity, a.status, says)
		require.Contains(t, a.body, says)
	}
	require.Equal(t, e.Version, w.endpoint(t, "demo-orders").Version)
	require.Equal(t, client.EndpointStateActive, w.endpoint(t, "demo-orders").State)
	a := v.ask("/console/endpoints/bulk/ask", url.Values{"action": {"resume"}, "id": {e.ID}})
	require.Equal(t, http.StatusUnprocessableEntity, a.status)
	require.Contains(t, a.body, "not paused")
}

// undoOf returns the undo form of the answer to a bulk action.
func undoOf(t *testing.T, a answer) url.Values {
	t.Helper()
	form := url.Values{}
	for _, field := range regexp.MustCompile(`name="(action|id|until|reason)" value="([^"]*)"`).FindAllStringSubmatch(a.body, -1) {
		form.Add(field[1], field[2])
	}
	require.NotEmpty(t, form["id"], a.body)
	return form
}

// Undo resumes exactly the endpoints that the bulk action paused. Endpoints that were paused
// before, or have another pause since, stay paused.
func TestTheUndoOfABulkPauseResumesItsOwnPausesAlone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	v := w.visitor(t)
	v.signIn(w.key)
	w.pause(t, "demo-orders", "since yesterday")
	ids := []string{w.endpoint(t, "demo-orders").ID, w.endpoint(t, "demo-prices").ID, w.endpoint(t, "demo-report").ID}
	before := time.Now()
	a := v.ask("/console/endpoints/bulk", url.Values{"action": {"pause"}, "reason": {"stock-taking"}, "for": {"1h"}, "id": ids})
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Contains(t, a.body, "2 endpoints paused.")
	require.Contains(t, a.body, "Undo: resume these 2 endpoints")
	paused := w.endpoint(t, "demo-prices")
	require.Equal(t, "stock-taking", *paused.PauseReason)
	require.WithinDuration(t, before.Add(time.Hour), *paused.PausedUntil, time.Minute)
	require.Equal(t, "since yesterday", *w.endpoint(t, "demo-orders").PauseReason)

	w.api(t, http.MethodPost, "/v1/endpoints/"+ids[2]+"/resume", map[string]any{}, nil)
	w.pause(t, "demo-report", "by another one")
	a = v.ask("/console/endpoints/bulk/undo", undoOf(t, a))
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Contains(t, a.body, "1 endpoint resumed, as before.")
	require.Contains(t, a.body, "changed since then")
	require.Equal(t, client.EndpointStateActive, w.endpoint(t, "demo-prices").State)
	require.Equal(t, client.EndpointStatePaused, w.endpoint(t, "demo-orders").State)
	require.Equal(t, client.EndpointStatePaused, w.endpoint(t, "demo-report").State)

	a = v.ask("/console/endpoints/bulk", url.Values{"action": {"resume"}, "id": ids[:1]})
	require.Contains(t, a.body, "1 endpoint resumed.")
	a = v.ask("/console/endpoints/bulk/undo", undoOf(t, a))
	require.Contains(t, a.body, "1 endpoint paused, as before.")
	require.Equal(t, "since yesterday", *w.endpoint(t, "demo-orders").PauseReason, "the pause is as it was")
}

// Nothing is paused before the dialog is confirmed, and its answer offers the undo.
func TestABulkPauseShowsItsEffectFirst(t *testing.T) {
	t.Parallel()
	w := setup(t)
	b := open(browser(t), t, w, wide)
	b.visit(w.link)
	b.visit("/console/endpoints")
	b.says("demo-heartbeat")
	b.click("[data-tick-all]")
	b.says("6 selected")
	b.click("[name=action][value=pause]")
	b.await("document.querySelector('dialog[open] h2')?.innerText === 'Pause 6 endpoints'")
	b.await("document.activeElement.name === 'reason'")
	b.says("Due times during the pause are recorded as skipped.")
	b.shoot("bulk-ask")
	b.accessible()
	var list client.EndpointList
	w.api(t, http.MethodGet, "/v1/endpoints?state=paused", nil, &list)
	require.Empty(t, list.Items, "nothing is paused yet")
	b.write("dialog [name=reason]", "stock-taking")
	b.click("dialog [type=submit]")
	b.says("6 endpoints paused.")
	w.api(t, http.MethodGet, "/v1/endpoints?state=paused", nil, &list)
	require.Len(t, list.Items, 6)
	b.await("document.querySelectorAll('#endpoints [data-tick]:checked').length === 0")
	b.await("[...document.querySelectorAll('#endpoints .badge')].every((badge) => badge.innerText === 'paused')")
	b.shoot("bulk-done")
	b.accessible()
	b.click("dialog [type=submit]")
	b.says("6 endpoints resumed, as before.")
	w.api(t, http.MethodGet, "/v1/endpoints?state=paused", nil, &list)
	require.Empty(t, list.Items)
	b.click("dialog footer [data-close]")
	b.await("[...document.querySelectorAll('#endpoints .badge')].every((badge) => badge.innerText !== 'paused')")
	b.clean()
}

// On a list that is longer than the screen, the buttons of bulk actions stay in view.
func TestBulkActionsAreInViewOnALongList(t *testing.T) {
	t.Parallel()
	w := start(t, false)
	for i := range 30 {
		w.api(t, http.MethodPost, "/v1/endpoints", map[string]any{
			"name": fmt.Sprintf("endpoint-%d", i), "url": "https://example.com/", "baselineIntervalMs": 86_400_000, "startAt": time.Now().Add(time.Hour),
		}, nil)
	}
	b := open(browser(t), t, w, wide)
	b.visit(w.link)
	b.visit("/console/endpoints")
	b.click("[data-tick-all]")
	b.says("30 selected")
	eval[bool](b, "scrollTo(0, 0); true")
	require.Greater(t, eval[int64](b, "document.documentElement.scrollHeight"), b.screen.height+b.screen.height/2)
	b.await(`(() => { const box = document.querySelector(".bulk").getBoundingClientRect(); return box.top > 0 && box.bottom <= innerHeight })()`)
	b.shoot("bulk-long")
	b.click("[name=action][value=pause]")
	b.says("22 more")
	b.shoot("bulk-long-ask")
	b.clean()
}

// A dialog opened by its address is a page with the styles and the frame of all pages, and its form
// works.
func TestADialogOpenedByItsAddressIsAPage(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.api(t, http.MethodPut, "/v1/notice-rules/broken", map[string]any{
		"event": "failures", "failures": 3, "channel": map[string]any{"kind": "webhook", "url": "https://example.com/"},
	}, nil)
	w.api(t, http.MethodPut, "/v1/maintenance-windows/night", map[string]any{
		"startsAt": time.Now().Add(-time.Hour), "endsAt": time.Now().Add(time.Hour), "reason": "x",
	}, nil)
	b := open(browser(t), t, w, wide)
	b.visit(w.link)
	e := "/console/endpoints/" + w.endpoint(t, "demo-report").ID + "/do/"
	for _, path := range []string{
		"/console/notices/rules/new", "/console/notices/rules/broken/edit", "/console/notices/rules/broken/delete", "/console/notices/windows/new",
		"/console/notices/windows/night/edit", "/console/notices/windows/night/end", e + "pause", e + "hint", e + "archive",
	} {
		b.visit(path)
		b.await("document.querySelector('header.top nav a[aria-current]') && document.querySelector('.standalone article h2')")
		b.settled()
		require.Equal(t, "rgb", read[string](b, "getComputedStyle(document.querySelector('.standalone article')).borderTopColor.slice(0, 3)"), path)
		require.GreaterOrEqual(t, eval[int](b, "document.styleSheets.length"), 2, path)
	}
	b.visit("/console/notices/rules/new")
	b.shoot("rule-new")
	b.accessible()
	b.visit(e + "pause")
	b.shoot("pause-page")
	b.write("[name=reason]", "by its page")
	b.click(".standalone [type=submit]")
	b.says("Endpoint paused.")
	require.Equal(t, client.EndpointStatePaused, w.endpoint(t, "demo-report").State)
	b.visit(e + "resume")
	b.click(".standalone footer [data-close]")
	b.await("location.pathname === '/console/endpoints'")
	b.clean()
}

// An address with a trailing slash redirects to the page without it.
func TestASlashAtTheEndLeadsToThePage(t *testing.T) {
	t.Parallel()
	w := start(t, false)
	v := w.visitor(t)
	v.signIn(w.key)
	for path, want := range map[string]string{
		"/console/endpoints/?q=a": "/console/endpoints?q=a", "/console/runs/": "/console/runs", "/console/notices/rules/new/": "/console/notices/rules/new",
	} {
		a := v.ask(path, nil)
		require.Equal(t, http.StatusSeeOther, a.status, path)
		require.Equal(t, want, a.header.Get("Location"))
	}
	require.Equal(t, http.StatusNotFound, v.ask("/console/nothing", nil).status)
}

// Pages are compressed, and the live stream of a list sends only the rows that changed.
func TestAListSendsChangedRowsAlone(t *testing.T) {
	t.Parallel()
	w := start(t, false)
	for i := range 50 {
		w.api(t, http.MethodPost, "/v1/endpoints", map[string]any{
			"name": fmt.Sprintf("endpoint-%d", i), "key": fmt.Sprintf("k-%d", i), "url": "https://example.com/", "baselineIntervalMs": 86_400_000, "jitterMs": 0,
			"startAt": time.Now().Add(time.Hour),
		}, nil)
	}
	v := w.visitor(t)
	v.signIn(w.key)
	whole := v.ask("/console/endpoints", nil, "HX-Request", "true")
	packed := v.ask("/console/endpoints", nil, "HX-Request", "true", "Accept-Encoding", "gzip")
	require.Equal(t, "gzip", packed.header.Get("Content-Encoding"))
	require.Less(t, len(packed.body)*5, len(whole.body))
	known := func(body string) string {
		list := []string{regexp.MustCompile(`data-frame="([^"]+)"`).FindStringSubmatch(body)[1]}
		for _, tag := range regexp.MustCompile(`data-tag="([^"]+)"`).FindAllStringSubmatch(body, -1) {
			list = append(list, tag[1])
		}
		return strings.Join(list, ",")
	}
	ask := func() answer {
		return v.ask("/console/endpoints", nil, "HX-Request", "true", "Accept-Encoding", "gzip", "Rubato-Rows", known(whole.body))
	}
	a := ask()
	require.Equal(t, http.StatusNoContent, a.status)
	require.Empty(t, a.body)
	w.pause(t, "k-7", "x")
	a = ask()
	require.Equal(t, "rows", a.header.Get("Rubato-Part"))
	t.Logf("the list is %d bytes, %d compressed; one changed row is %d", len(whole.body), len(packed.body), len(a.body))
	require.Less(t, len(a.body)*3, len(packed.body))
	w.api(t, http.MethodDelete, "/v1/endpoints/"+w.endpoint(t, "k-9").ID, nil, nil)
	a = ask()
	require.Empty(t, a.header.Get("Rubato-Part"), "other endpoints are listed now")
}
