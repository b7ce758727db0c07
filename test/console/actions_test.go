package console

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/waittest"
)

// Every action shows its effect before it is confirmed, acts through the API, and then shows the
// decision.
func TestEveryActionIsConfirmedDoneAndShown(t *testing.T) {
	t.Parallel()
	w := setup(t)
	chrome := browser(t)
	b := open(chrome, t, w, wide)
	b.visit(w.link)
	prices := w.endpoint(t, "demo-prices")
	b.visit("/console/endpoints/" + prices.ID)
	b.says("Why the next run is due then")

	b.do("hint", "Set the hint", func() {
		b.write("[name=interval]", "3s")
		b.await("document.querySelector('#effect').innerText.includes('interval hint')")
		b.accessible()
		b.shoot("hint")
		b.write("[name=interval]", "soon")
		b.await("document.querySelector('#effect').innerText.includes('such as 30s')")
		b.write("[name=interval]", "3s")
		b.await("document.querySelector('#effect').innerText.includes('3 s')")
	}, "Hint set.")
	require.Equal(t, int64(3000), w.endpoint(t, "demo-prices").Hints.Interval.IntervalMs)
	b.says("Hint: every 3 s")

	b.do("once", "Set the hint", func() { b.write("[name=in]", "40m") }, "Hint set.")
	require.NotNil(t, w.endpoint(t, "demo-prices").Hints.OneShot)
	b.do("clear", "Clear hints", func() {
		b.says("interval hint of dev: every 3 s, until ")
		b.says("one-shot hint of dev: one run at ")
	}, "Removed the interval hint of dev: every 3s until ")
	left := w.endpoint(t, "demo-prices").Hints
	require.Nil(t, left.Interval)
	if left.OneShot != nil { // The search for noise may ask for its next look at any time.
		require.Equal(t, "noise", left.OneShot.Author)
	}

	b.do("pause", "Pause", func() {
		b.await("document.querySelector('#effect .steps')")
		b.write("[name=until]", "")
		b.await("document.querySelector('#effect').innerText.includes('until it is resumed')")
		b.write("[name=reason]", "<b>maintenance</b>")
	}, "Endpoint paused")
	require.True(t, w.endpoint(t, "demo-prices").PausedIndefinitely)
	b.says("until resumed: <b>maintenance</b>")
	b.do("resume", "Resume", func() { b.await("document.querySelector('#effect .steps')") }, "Endpoint resumed")
	require.Equal(t, client.EndpointStateActive, w.endpoint(t, "demo-prices").State)

	b.visit("/console/endpoints/" + w.endpoint(t, "demo-report").ID)
	b.do("test", "Send test request", nil, "Test request sent")
	b.do("run", "Run now", nil, "A run is queued")
	report := w.endpoint(t, "demo-report").ID
	waittest.Until(t, func() bool {
		var list client.RunList
		w.api(t, http.MethodGet, "/v1/endpoints/"+report+"/runs?status=succeeded", nil, &list)
		return slices.ContainsFunc(list.Items, func(r client.Run) bool { return r.Source == "manual" })
	})
	b.visit("/console/endpoints/" + report)
	b.await("document.querySelector('#parts').innerText.includes('asked for')")

	w.live(t, "demo-flaky", 1)
	b.visit("/console/endpoints/" + w.endpoint(t, "demo-flaky").ID)
	b.await("document.querySelector('[hx-get$=reset]')")
	b.do("reset", "Reset failures", nil, "Failures reset")
	b.do("archive", "Archive permanently", nil, "Endpoint archived")
	b.says("The endpoint is archived and never runs again")
	b.clean()
}

// do opens the dialog of an action, fills it in, confirms it, and waits for a text of the answer.
func (b *tab) do(action, verb string, fill func(), done string) {
	b.t.Helper()
	b.click("[hx-get$='/do/" + action + "']")
	b.await("document.querySelector('#dialog[open]')")
	if fill != nil {
		fill()
	}
	require.Equal(b.t, verb, read[string](b, "document.querySelector('#dialog [type=submit]').innerText"))
	b.click("#dialog [type=submit]")
	b.await("document.querySelector('#dialog [data-done]')")
	b.says(done)
	b.click("#dialog footer [data-close]")
	b.await("!document.querySelector('#dialog').open")
}

// The form of an endpoint previews its runs and shows every error at its field. The endpoint is
// then found, paused with others, and edited.
func TestAnEndpointIsWrittenFoundPausedAndEdited(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var sent atomic.Pointer[[]string]
	sent.Store(&[]string{})
	target := httptest.NewServer(http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) {
		sent.Store(new(append(*sent.Load(), r.URL.RequestURI())))
		a.Header().Set("X-Served", "&lt;b&gt;")
		a.Header().Set("Content-Type", "application/json")
		_, _ = a.Write([]byte(`{"status": "ok"}`))
	}))
	defer target.Close()
	chrome := browser(t)
	b := open(chrome, t, w, phone)
	b.visit(w.link)
	b.visit("/console/endpoints/new")
	b.write("[name=name]", "Morning report")
	b.click("[name=baseline][value=cron]")
	b.write("[name=baselineCron]", "0 9 * * FUN")
	b.await("document.querySelector('[data-error-of=baselineCron]').textContent.includes('day of week')")
	b.write("[name=baselineCron]", "30 2 * * *")
	b.write("[name=timezone]", "Europe/Berlin")
	b.await("document.querySelector('#draft').innerText.includes('At 02:30.') && document.querySelectorAll('#draft .due li').length === 10")
	b.await("document.querySelector('[data-error-of=baselineCron]').textContent === ''")
	b.write("[name=url]", "ftp://shop.example.com/")
	b.write("[name=minIntervalMs]", "a while")
	b.click("[type=submit]:not(.ghost)")
	b.await("document.querySelector('[data-error-of=minIntervalMs]').textContent.includes('such as 30s')")
	b.accessible()
	b.shoot("refused")
	b.write("[name=minIntervalMs]", "")
	b.click(".submit [type=submit]")
	b.await("document.querySelector('[data-error-of=url]').textContent !== ''")
	b.forget() // The browser logs the status of the refusal.
	b.write("[name=url]", target.URL+"/report?x=<script>")
	b.write("[name=headers]", "X-Team: <img src=x onerror=alert(1)>")
	b.write("[name=labels]", "team=shop\nrank=1")
	b.write("[name=query]", "full=1")
	b.write("[name=authType]", "bearer")
	b.write("[name=authToken]", "in the clear")
	b.click("#try")
	b.await("document.querySelector('#tried').innerText.includes('Nothing was sent')")
	b.await("document.querySelector('[data-error-of=authToken]').textContent.includes('secret')")
	b.write("[name=authType]", "")
	b.click("details:has([name=rule0Type]) summary")
	b.write("[name=rule0Type]", "json")
	b.write("[name=rule0Of]", "$.[")
	b.await("document.querySelector('[data-error-of=rule0]').textContent !== ''")
	b.write("[name=rule0Of]", "$.status")
	b.write("[name=rule0Value]", "ok")
	b.await("document.querySelector('[data-error-of=rule0]').textContent === ''")
	b.click("details:has([name=rule0Type]) [data-add-row]")
	b.write("[name=rule1Type]", "latency")
	b.write("[name=rule1Of]", "20s")
	b.click("#try")
	b.await("document.querySelector('#tried').innerText.includes('succeeded')")
	b.await("document.querySelector('#tried').innerText.includes('X-Served: &lt;b&gt;')")
	require.Equal(t, []string{"/report?x=<script>&full=1"}, *sent.Load(), "sent once, and nothing is registered")
	b.accessible()
	b.shoot("tried")
	b.click(".submit [type=submit]")
	b.await("location.pathname.startsWith('/console/endpoints/ep_')")
	b.says("<img src=x onerror=alert(1)>")
	require.Zero(t, eval[int](b, "document.querySelectorAll('main img').length"))

	var list client.EndpointList
	w.api(t, http.MethodGet, "/v1/endpoints?label=team:shop", nil, &list)
	require.Len(t, list.Items, 1)
	made := list.Items[0]
	require.Equal(t, "Morning report", made.Name)
	require.Equal(t, map[string]string{"full": "1"}, *made.Query)
	require.Equal(t, []client.SuccessRule{{Type: "json", JSONPath: new("$.status"), Value: "ok"}, {Type: "latency", MaxLatencyMs: new(int64(20_000))}}, *made.SuccessRules)

	b.visit("/console/endpoints")
	b.write("[name=label]", "team=shop")
	b.await("document.querySelectorAll('#endpoints tbody tr').length === 1 && location.search.includes('team')")
	b.write("[name=label]", "")
	b.write("[name=q]", "demo-p")
	b.await("document.querySelectorAll('#endpoints tbody tr').length === 1 && document.querySelector('#endpoints').innerText.includes('demo-prices')")
	b.write("[name=q]", "")
	b.await("document.querySelectorAll('#endpoints tbody tr').length === 7")
	b.visit("/console/endpoints/" + made.ID + "/edit")
	b.await("document.querySelectorAll('#draft .due li').length === 10")
	b.write("[name=name]", "Evening report")
	b.write("[name=labels]", "team=shop")
	b.click(".submit [type=submit]")
	b.await("location.pathname === '/console/endpoints/" + made.ID + "'")
	var edited client.Endpoint
	w.api(t, http.MethodGet, "/v1/endpoints/"+made.ID, nil, &edited)
	require.Equal(t, "Evening report", edited.Name)
	require.Equal(t, map[string]string{"team": "shop"}, edited.Labels)
	require.Equal(t, made.Headers, edited.Headers)
	require.Equal(t, made.Query, edited.Query)
	require.Equal(t, made.SuccessRules, edited.SuccessRules)
	require.Equal(t, made.BaselineCron, edited.BaselineCron)
	b.clean()
}

// Answers of a target are shown as text and never as markup.
func TestNothingFromATargetIsMarkup(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const hostile = `</pre><script>window.hit=1</script><img src=x onerror="window.hit=1"><svg onload="window.hit=1">`
	target := httptest.NewServer(http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) {
		a.Header().Set("Content-Type", "text/html")
		a.WriteHeader(http.StatusTeapot)
		_, _ = a.Write([]byte(hostile))
	}))
	defer target.Close()
	var made client.Endpoint
	w.api(t, http.MethodPost, "/v1/endpoints", map[string]any{
		"name": hostile[:60], "url": target.URL, "baselineIntervalMs": 1000, "key": "hostile", "description": hostile, "labels": map[string]string{"a<b>": hostile},
	}, &made)
	w.live(t, "hostile", 2)
	chrome := browser(t)
	b := open(chrome, t, w, wide)
	b.visit(w.link)
	var runs client.RunList
	w.api(t, http.MethodGet, "/v1/endpoints/"+made.ID+"/runs?status=failed&limit=1", nil, &runs)
	for _, path := range []string{"/", "/console/endpoints", "/console/endpoints/" + made.ID, "/console/runs", "/console/runs/" + runs.Items[0].ID, "/console/endpoints/" + made.ID + "/edit"} {
		b.visit(path)
		b.await("document.readyState === 'complete' && document.documentElement.innerHTML.includes('&lt;script')")
		require.Zero(t, eval[int](b, "document.querySelectorAll('main img, main script, script:not([src^=\"/console/assets/\"])').length"), path)
		require.False(t, eval[bool](b, "'hit' in window"), path)
	}
	b.visit("/console/runs/" + runs.Items[0].ID)
	b.says(`</pre><script>window.hit=1</script>`)
	b.clean()
}

// The keyboard reaches everything: the content past the navigation, pages by shortcuts, and
// dialogs.
func TestTheKeyboardLeadsEverywhere(t *testing.T) {
	t.Parallel()
	w := setup(t)
	chrome := browser(t)
	b := open(chrome, t, w, wide)
	b.visit(w.url + "/console/runs")
	b.await("location.pathname === '/console/signin' && location.search === '?to=%2Fconsole%2Fruns'")
	b.accessible()
	b.shoot("signin")
	b.write("#key", "rbt_wrong")
	b.click("[type=submit]")
	b.says("This key is invalid")
	b.forget() // The browser logs the status of the refusal.
	b.write("#key", w.key)
	b.click("[type=submit]")
	b.await("location.pathname === '/console/runs' && document.readyState === 'complete'")

	b.press("\t")
	require.Equal(t, "Skip to the content", eval[string](b, "document.activeElement.innerText"))
	b.press("\r")
	b.await("location.hash === '#main'")
	b.press("?")
	b.await("document.querySelector('#shortcuts[open]')")
	b.accessible()
	b.press("\x1b")
	b.await("!document.querySelector('#shortcuts').open")
	for _, to := range [][2]string{{"ge", "/console/endpoints"}, {"gn", "/console/notices"}, {"gw", "/console/workers"}, {"gh", "/console/hosts"}, {"gd", "/console/dead-letters"}, {"gc", "/console/chains"}, {"gl", "/console/calls"}, {"gg", "/console/guarantees"}, {"go", "/"}, {"gr", "/console/runs"}, {"n", "/console/endpoints/new"}} {
		b.press(to[0])
		b.await("location.pathname === '" + to[1] + "' && document.readyState === 'complete'")
	}
	b.visit("/console/endpoints")
	waittest.Until(t, func() bool { // A key is lost if it arrives before a busy browser has drawn the page.
		err := chromedp.Do(b.ctx, chromedp.KeyEvent("/"))
		found, evalErr := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("document.activeElement.name === 'q'"))
		return err == nil && evalErr == nil && found
	})
	b.click("form[action$=signout] button")
	b.await("location.pathname === '/console/signin'")
	b.visit("/")
	b.await("location.pathname === '/console/signin'")
	b.clean()
}

// press sends keys to the page.
func (b *tab) press(keys string) {
	b.t.Helper()
	for key := range strings.SplitSeq(keys, "") {
		require.NoError(b.t, chromedp.Do(b.ctx, chromedp.KeyEvent(key)))
	}
}

// A user approves a suggestion of the planner in a dialog that shows its effect.
func TestASuggestionIsApprovedWithItsEffectInView(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.api(t, http.MethodPatch, "/v1/endpoints/"+w.endpoint(t, "demo-orders").ID, map[string]any{"planner": "suggest"}, nil)
	e := w.endpoint(t, "demo-orders")
	w.sql(t, `INSERT INTO planner_suggestions (id, tenant_id, endpoint_id, session_id, advisor, version, plan, reasoning, created_at, expires_at, state)
		SELECT gen_random_uuid(), tenant_id, id, gen_random_uuid(), 'heuristic', version,
		       '{"interval": {"spanMs": 1800000, "ttlMs": 3600000, "reason": "<i>orders</i> come in"}}', '<b>more orders</b> than usual', now(), now() + interval '1 hour', 'pending'
		FROM endpoints WHERE key = 'demo-orders'`)
	chrome := browser(t)
	b := open(chrome, t, w, wide)
	b.visit(w.link)
	b.visit("/console/planner")
	b.says("<b>more orders</b> than usual")
	b.accessible()
	b.shoot("suggestion")
	b.click("[hx-get$=reject]")
	b.await("document.querySelector('#dialog[open]')")
	b.click("#dialog footer [data-close]")
	b.await("!document.querySelector('#dialog').open")
	b.click("[hx-get$=approve]")
	b.await("document.querySelector('#dialog .steps').innerText.includes('interval hint') && document.querySelector('#dialog .uplot')")
	b.shoot("approve")
	b.accessible()
	b.click("#dialog [type=submit]")
	b.says("No open suggestions.")
	hint := w.endpoint(t, "demo-orders").Hints.Interval
	require.Equal(t, int64(1_800_000), hint.IntervalMs)
	require.Equal(t, "planner:heuristic", hint.Author)
	b.visit("/console/endpoints/" + e.ID)
	b.says("by planner:heuristic, until")
	b.clean()
}

// TestNoiseIsRejectedOnThePageOfItsEndpoint clicks the button of a finding twice.
func TestNoiseIsRejectedOnThePageOfItsEndpoint(t *testing.T) {
	t.Parallel()
	w := setup(t)
	e := w.endpoint(t, "demo-orders")
	w.sql(t, `INSERT INTO noise (endpoint_id, path, found_at, pairs, gap_ms) SELECT id, '$.<b>now</b>', now(), 10, 1004 FROM endpoints WHERE key = 'demo-orders'`)
	b := open(browser(t), t, w, wide)
	b.visit(w.link)
	b.visit("/console/endpoints/" + e.ID)
	b.says("$.<b>now</b>")
	b.says("differed in 10 successive answers, the last 1s apart")
	b.accessible()
	b.shoot("noise")
	b.click("[hx-post$=noise] [type=submit]")
	b.says("Ignore again")
	b.says("rejected by")
	b.click("[hx-post$=noise] [type=submit]")
	b.says("Count as content")
	b.clean()
}
