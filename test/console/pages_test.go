package console

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/waittest"
)

// Every page works on both screens: it is drawn, logs no error, requests nothing from other hosts,
// and is accessible.
func TestEveryPageOnEveryScreen(t *testing.T) {
	t.Parallel()
	w := setup(t)
	chrome := browser(t)
	signIn := open(chrome, t, w, wide)
	signIn.visit(w.link)
	signIn.says("Overview")
	w.live(t, "demo-flaky", 3)
	w.live(t, "demo-load", 4)
	flaky, heartbeat, load := w.endpoint(t, "demo-flaky"), w.endpoint(t, "demo-heartbeat"), w.endpoint(t, "demo-load")
	var runs client.RunList
	w.api(t, http.MethodGet, "/v1/runs?status=failed&limit=1", nil, &runs)
	require.NotEmpty(t, runs.Items)

	pages := []struct{ name, path, says, drawn string }{
		// Each answer of the first three minutes differs, so the likeliest rate has no line, but the
		// price has one.
		{"adaptive", "/console/endpoints/" + load.ID, "The rate of change sets the interval.", "document.querySelectorAll('.pace polyline').length >= 1 && document.querySelector('.pace .fixed')"},
		{"overview", "/", "Incidents", "document.querySelectorAll('.uplot').length === 2"},
		{"endpoints", "/console/endpoints", "demo-heartbeat", "document.querySelectorAll('.spark rect').length > 5"},
		{"endpoint", "/console/endpoints/" + flaky.ID, "Why the next run is due then", "document.querySelector('.uplot') && document.querySelector('.timeline rect') && document.querySelector('.pace rect.quiet')"},
		{"steady", "/console/endpoints/" + heartbeat.ID, "Next due times", "document.querySelector('.uplot')"},
		{"edit", "/console/endpoints/" + flaky.ID + "/edit", "Edit endpoint", "document.querySelectorAll('#draft .due li').length === 10"},
		{"new", "/console/endpoints/new", "New endpoint", "document.querySelectorAll('#draft .due li').length === 10"},
		{"runs", "/console/runs", "demo-heartbeat", "document.querySelectorAll('#runs tbody tr').length > 5"},
		{"run", "/console/runs/" + runs.Items[0].ID, "out of tea", "document.querySelector('.phases rect')"},
		{"planner", "/console/planner", "Tokens today", "true"},
		{"notices", "/console/notices", "No notice rules yet", "true"},
		{"workers", "/console/workers", "sends a heartbeat", "document.querySelector('meter')"},
		{"dead-letters", "/console/dead-letters", "was given up", "true"},
		{"chains", "/console/chains", "There are no chains", "true"},
		{"calls", "/console/calls", "No call matches", "true"},
		{"hosts", "/console/hosts", "worst first", "true"},
		{"guarantees", "/console/guarantees", "Never early", "document.querySelectorAll('section:not([aria-labelledby=chaos-title]) .badge.good').length === 4"},
		{"missing", "/console/nothing", "There is no such page", "true"},
	}
	onScreens(t, "light", func(t *testing.T, s screen) {
		b := open(chrome, t, w, s)
		for _, p := range pages {
			b.visit(p.path)
			b.says(p.says)
			b.await(p.drawn)
			b.shoot(p.name)
			b.accessible()
			if p.name == "missing" { // A browser logs the status of a missing page.
				b.forget()
			}
			b.clean()
		}
	})
	signIn.visit("/")
	signIn.click("[data-theme-switch]")
	onScreens(t, "dark", func(t *testing.T, s screen) {
		b := open(chrome, t, w, s)
		b.visit("/")
		b.await("document.documentElement.dataset.theme === 'dark' && document.querySelectorAll('.uplot').length === 2")
		for _, p := range pages[:8] {
			b.visit(p.path)
			b.await(p.drawn)
			b.shoot(p.name + "-dark")
			b.accessible()
		}
		b.clean()
	})
	signIn.clean()
}

// onScreens runs a check on the wide screen and on the phone at once, and returns when both are
// done.
func onScreens(t *testing.T, name string, look func(t *testing.T, s screen)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { // It ends with the screens; the caller waits for them.
		for _, s := range []screen{wide, phone} {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				look(t, s)
			})
		}
	})
}

// Every page of a fresh installation shows the next step and shows no figures about runs.
func TestFreshInstallationShowsNextSteps(t *testing.T) {
	t.Parallel()
	w := start(t, false)
	chrome := browser(t)
	signIn := open(chrome, t, w, wide)
	signIn.visit(w.link)
	signIn.says("Overview")
	pages := []struct{ name, path, says string }{
		{"overview", "/", "Register the first"},
		{"endpoints", "/console/endpoints", "Register the first"},
		{"runs", "/console/runs", "Runs appear here"},
		{"planner", "/console/planner", "need approval for every change"},
		{"notices", "/console/notices", "there is no rule yet"},
		{"guarantees", "/console/guarantees", "no runs yet"},
	}
	onScreens(t, "fresh", func(t *testing.T, s screen) {
		b := open(chrome, t, w, s)
		for _, p := range pages {
			b.visit(p.path)
			b.says(p.says)
			b.shoot("fresh-" + p.name)
			b.accessible()
			b.clean()
		}
		b.await("document.querySelectorAll('#proof .badge').length === 6 && !document.querySelector('#proof .badge.good')")
	})
	signIn.visit("/")
	signIn.click("#main a[href='/console/endpoints/new']")
	signIn.await("location.pathname === '/console/endpoints/new'")
	signIn.clean()
}

// The next runs in the list of endpoints stay current while it is open, and stand still while rows
// are selected.
func TestListOfEndpointsStaysCurrent(t *testing.T) {
	t.Parallel()
	w := setup(t)
	chrome := browser(t)
	b := open(chrome, t, w, wide)
	b.visit(w.link)
	b.visit("/console/endpoints")
	b.says("demo-heartbeat")
	const due = "document.querySelector('#row-%s time').dateTime"
	id := w.endpoint(t, "demo-heartbeat").ID
	first := read[string](b, fmt.Sprintf(due, id))
	b.await(fmt.Sprintf(due+" > %q", id, first))
	b.click("#row-" + id + " [data-tick]")
	w.api(t, http.MethodPatch, "/v1/endpoints/"+id, map[string]any{"name": "renamed"}, nil)
	other := w.endpoint(t, "demo-prices").ID
	w.live(t, "demo-prices", 3)
	require.True(t, read[bool](b, fmt.Sprintf("document.querySelector('#row-%s [data-tick]').checked", id)))
	require.False(t, eval[bool](b, "document.body.innerText.includes('renamed')"))
	b.click("#row-" + id + " [data-tick]")
	b.says("renamed")
	b.await("document.querySelector('#row-" + other + "')")
	b.clean()
}

// live waits until an endpoint has a number of runs.
func (w *world) live(t *testing.T, key string, times int) {
	t.Helper()
	id := w.endpoint(t, key).ID
	waittest.Until(t, func() bool {
		var runs client.RunList
		w.api(t, http.MethodGet, "/v1/endpoints/"+id+"/runs", nil, &runs)
		return len(runs.Items) >= times
	})
}
