package console

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/client"
)

// Every page on both screens: it is drawn, nothing complains, nobody else is asked, and it can be read by everybody.
func TestEveryPageOnEveryScreen(t *testing.T) {
	t.Parallel()
	w := setup(t)
	chrome := browser(t)
	signIn := open(chrome, t, w, wide)
	signIn.visit(w.link)
	signIn.says("Overview")
	w.live(t, "demo-flaky", 3)
	flaky, heartbeat := w.endpoint(t, "demo-flaky"), w.endpoint(t, "demo-heartbeat")
	var runs client.RunList
	w.api(t, http.MethodGet, "/v1/runs?status=failed&limit=1", nil, &runs)
	require.NotEmpty(t, runs.Items)

	pages := []struct{ name, path, says, drawn string }{
		{"overview", "/", "Incidents", "document.querySelectorAll('.uplot').length === 2"},
		{"endpoints", "/console/endpoints", "demo-heartbeat", "document.querySelectorAll('.spark rect').length > 5"},
		{"endpoint", "/console/endpoints/" + flaky.ID, "Why it runs then", "document.querySelector('.uplot') && document.querySelector('.timeline rect')"},
		{"steady", "/console/endpoints/" + heartbeat.ID, "Next due times", "document.querySelector('.uplot')"},
		{"edit", "/console/endpoints/" + flaky.ID + "/edit", "Edit endpoint", "document.querySelectorAll('#draft .due li').length === 10"},
		{"new", "/console/endpoints/new", "New endpoint", "document.querySelectorAll('#draft .due li').length === 10"},
		{"runs", "/console/runs", "demo-heartbeat", "document.querySelectorAll('#runs tbody tr').length > 5"},
		{"run", "/console/runs/" + runs.Items[0].ID, "out of tea", "document.querySelector('.phases rect')"},
		{"planner", "/console/planner", "Tokens today", "true"},
		{"notices", "/console/notices", "Nobody is told of anything yet", "true"},
		{"workers", "/console/workers", "Heartbeat", "document.querySelector('meter')"},
		{"guarantees", "/console/guarantees", "Never early", "document.querySelectorAll('.badge.good').length === 4"},
		{"missing", "/console/nothing", "There is no such page", "true"},
	}
	for _, s := range []screen{wide, phone} {
		b := open(chrome, t, w, s)
		for _, p := range pages {
			b.visit(p.path)
			b.says(p.says)
			b.await(p.drawn)
			b.shoot(p.name)
			b.accessible()
			if p.name == "missing" { // A browser notes the status of a page that is not there.
				b.forget()
			}
			b.clean()
		}
		b.visit("/")
		b.click("[data-theme-switch]")
		b.await("document.documentElement.dataset.theme === 'dark' && document.querySelectorAll('.uplot').length === 2")
		for _, p := range pages[:8] {
			b.visit(p.path)
			b.await(p.drawn)
			b.shoot(p.name + "-dark")
			b.accessible()
		}
		b.click("[data-theme-switch]")
		b.clean()
	}
}

// live waits until an endpoint has run so often.
func (w *world) live(t *testing.T, key string, times int) {
	t.Helper()
	id := w.endpoint(t, key).ID
	require.Eventually(t, func() bool {
		var runs client.RunList
		w.api(t, http.MethodGet, "/v1/endpoints/"+id+"/runs", nil, &runs)
		return len(runs.Items) >= times
	}, patience, tick)
}
