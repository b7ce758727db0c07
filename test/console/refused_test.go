package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A form keeps its input after a refusal or a lost answer of the server.
func TestFormKeepsInputAfterRefusal(t *testing.T) {
	t.Parallel()
	w := setup(t)
	chrome := browser(t)
	b := open(chrome, t, w, wide)
	b.visit(w.link)
	id := w.endpoint(t, "demo-prices").ID
	b.visit("/console/endpoints/" + id + "/edit")
	b.await("document.querySelector('#draft [data-drafted]')")
	b.write("#f-description", "typed at night")
	typed := func() {
		t.Helper()
		require.Equal(t, "typed at night", eval[string](b, "document.querySelector('#f-description')?.value ?? 'gone'"))
	}
	const save = "#endpoint-form .submit [type=submit]"

	eval[bool](b, `(() => { window.reach = window.fetch; window.fetch = () => Promise.reject(new TypeError("no network")); return true })()`)
	b.click(save)
	b.says("The server did not respond.")
	typed()
	eval[bool](b, `(() => { window.fetch = async () => new Response('<div class="notice bad">the database is away</div>', {status: 503, headers: {"Content-Type": "text/html"}}); return true })()`)
	b.click(save)
	b.says("the database is away")
	typed()
	eval[bool](b, `(() => { window.fetch = window.reach; return true })()`)

	eval[bool](b, `fetch("/console/signout", {method: "POST"}).then(() => window.out = true); true`)
	b.await("window.out")
	b.click(save)
	b.says("You are signed out.")
	typed()
	b.accessible()
	b.forget() // The browser logs the status of the refusals.
	eval[bool](b, `fetch("/console/signin", {method: "POST", body: new URLSearchParams({key: "`+w.key+`"})}).then(() => window.back = true); true`)
	b.await("window.back")
	b.click(save)
	b.await("location.pathname === '/console/endpoints/" + id + "'")
	require.Equal(t, "typed at night", *w.endpoint(t, "demo-prices").Description)
	b.clean()
}

// The page of a refused address names the wrong parameter and its fault.
func TestRefusedPageNamesFault(t *testing.T) {
	t.Parallel()
	w := start(t, false)
	v := w.visitor(t)
	v.signIn(w.key)
	a := v.ask("/console/runs?endpoint=shop", nil)
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Contains(t, a.body, "must be an endpoint id")
	a = v.ask("/console/planner/suggestions/sug_0193466f-2a10-8c3e-9d41-5a2f6c7d8e90/aprove", url.Values{})
	require.Equal(t, http.StatusNotFound, a.status)
	require.Contains(t, strings.ToLower(a.body), "approved or rejected")
}
