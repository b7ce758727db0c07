package console

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/client"
)

// TestAChainIsStartedWatchedAndCanceled starts a run by its page, and watches a step that waits for
// its target: the page is live.
func TestAChainIsStartedWatchedAndCanceled(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ship := make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ship" {
			<-ship
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(`{"id": 9}`))
	}))
	t.Cleanup(target.Close)
	step := func(name string, after ...string) map[string]any {
		return map[string]any{"name": name, "after": append([]string{}, after...), "request": map[string]any{"url": target.URL + "/" + name}}
	}
	w.api(t, http.MethodPut, "/v1/chains/parcel", map[string]any{
		"onFailure": "compensate", "description": "Ships a parcel.",
		"inputs": map[string]any{"order": map[string]any{"required": true}},
		"steps":  []any{step("reserve"), step("charge", "reserve"), step("notify", "reserve"), step("ship", "charge", "notify")},
	}, nil)
	b := open(browser(t), t, w, wide)
	b.visit(w.link)
	b.visit("/console/chains")
	b.says("parcel")
	b.shoot("chains")
	b.accessible()
	b.visit("/console/chains/parcel")
	b.await("document.querySelectorAll('svg.graph rect').length === 4 && document.querySelectorAll('svg.graph path').length === 4")
	b.accessible()
	b.write("[name=input]", "{order}")
	b.click("[action$='/run'] [type=submit]")
	b.says("The input is no JSON object")
	b.forget() // The browser logs the status of the refusal.
	b.visit("/console/chains/parcel")
	b.write("[name=input]", `{"order": 17}`)
	b.click("[action$='/run'] [type=submit]")
	b.await("location.pathname.startsWith('/console/chain-runs/')")
	b.await("document.querySelectorAll('svg.graph rect.good').length === 3 && document.querySelectorAll('svg.gantt rect.live').length === 1")
	require.Equal(t, "reserve charge notify ship", read[string](b, "[...document.querySelectorAll('table.gantt tbody tr td:first-child')].map(c => c.innerText.trim()).join(' ')"), "the order of the chain")
	b.shoot("chain-run")
	b.accessible()
	close(ship)
	b.await("document.querySelectorAll('svg.graph rect.good').length === 4")
	b.says("succeeded")
	b.visit("/console/chains/parcel")
	b.await("document.querySelectorAll('.chain-runs tbody tr').length === 1")
	b.clean()
}

// TestAWaitingCallIsShownAndCanceled cancels a call before its time.
func TestAWaitingCallIsShownAndCanceled(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var call client.Call
	w.api(t, http.MethodPost, "/v1/calls", map[string]any{"url": "http://127.0.0.1:1/later", "delayMs": 3600000}, &call)
	b := open(browser(t), t, w, wide)
	b.visit(w.link)
	b.visit("/console/calls")
	b.says("http://127.0.0.1:1/later")
	b.shoot("calls")
	b.accessible()
	require.True(t, eval[bool](b, "(window.confirm = () => true)()"))
	b.click("[action$='" + call.ID + "/cancel'] [type=submit]")
	b.await("!document.body.innerText.includes('/later')")
	w.api(t, http.MethodGet, "/v1/calls/"+call.ID, nil, &call)
	require.Equal(t, client.CallStateCanceled, call.State)
	b.clean()
}
