package console

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/client"
)

// analyses writes planner sessions with long changes and with none.
func (w *world) analyses(t *testing.T, key string) {
	t.Helper()
	w.sql(t, `INSERT INTO planner_sessions (id, tenant_id, endpoint_id, version, started_at, finished_at, advisor, trigger, authority, outcome, reasoning,
			confidence, next_analysis_at, calls, changes, warnings, error, model, prompt_digest, prompt_tokens, completion_tokens, cost_micros)
		SELECT gen_random_uuid(), e.tenant_id, e.id, 1, now() - n * interval '1 h', now(), 'rules', 'failure_streak', 'suggest',
		       (ARRAY['suggested', 'unchanged', 'over_budget'])[1 + n % 3], 'r', 0.5, now(), '[]',
		       CASE WHEN n % 3 = 0 THEN jsonb_build_array('run every 15 min instead of every 5 min, for 6 h, then as before', 'pause until 2100-01-01 00:00:00 UTC, because it has failed for long')
		            ELSE '[]' END, '[]', '', 'm', '', 1234, 567, 8900
		FROM endpoints e, generate_series(1, 12) n WHERE e.key = $1`, key)
}

// Tables can be read on a phone and on slightly wider screens: no column is squeezed to a few
// letters a line.
func TestTablesCanBeReadOnAPhone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.live(t, "demo-flaky", 3)
	w.analyses(t, "demo-flaky")
	chrome := browser(t)
	signIn := open(chrome, t, w, wide)
	signIn.visit(w.link)
	signIn.says("Overview")
	const tallest = `Math.max(...[...document.querySelectorAll("%s")].map(r => r.getBoundingClientRect().height))`
	for _, s := range []screen{phone, {"between", 700, 844}} {
		b := open(chrome, t, w, s)
		for _, p := range []struct {
			name, path, rows string
			lines            int // of a row, at most
		}{
			{"analyses", "/console/planner", ".analyses tbody tr", 7},
			{"analyses-of-one", "/console/endpoints/" + w.endpoint(t, "demo-flaky").ID, ".analyses tbody tr", 7},
			{"fleet", "/console/workers", ".fleet tbody tr", 6},
			{"incidents", "/", "[aria-labelledby=incidents-title] tbody tr", 3},
		} {
			b.visit(p.path)
			b.await(fmt.Sprintf("document.querySelector('%s')", p.rows))
			b.shoot(p.name)
			b.accessible()
			require.LessOrEqual(t, read[float64](b, fmt.Sprintf(tallest, p.rows)), float64(22*p.lines), "%s on the screen %s", p.name, s.name)
		}
		b.clean()
	}
}

// stacked fills the pages with tables that are stacked on a phone, and returns their paths.
func (w *world) stacked(t *testing.T) map[string]string {
	t.Helper()
	letters := w.givenUp(t)
	w.api(t, http.MethodPatch, "/v1/hosts/a-long-name-of-a-host.shop.example.com", map[string]any{"limits": map[string]any{"concurrency": 20}}, nil)
	w.api(t, http.MethodPost, "/v1/calls", map[string]any{"url": "http://127.0.0.1:1/later", "delayMs": 3600000}, nil)
	step := map[string]any{"name": "reserve", "request": map[string]any{"url": "http://127.0.0.1:1/reserve"}}
	w.api(t, http.MethodPut, "/v1/chains/parcel", map[string]any{"steps": []any{step}}, nil)
	var run client.ChainRun
	w.api(t, http.MethodPost, "/v1/chains/parcel/run", map[string]any{}, &run)
	w.api(t, http.MethodPut, "/v1/maintenance-windows/upgrade", map[string]any{
		"startsAt": "2198-01-01T00:00:00Z", "endsAt": "2198-01-02T00:00:00Z", "reason": "The database moves.",
	}, nil)
	return map[string]string{
		"dead-letters": "/console/dead-letters",
		"calls":        "/console/calls",
		"hosts":        "/console/hosts",
		"chains":       "/console/chains",
		"chain":        "/console/chains/parcel",
		"chain-run":    "/console/chain-runs/" + run.ID,
		"notices":      "/console/notices",
		"run":          "/console/runs/" + letters[0].RunID,
	}
}

// Each value of a table that is stacked on a phone has a label, and its text keeps a distance from
// the edges of its card. A cell without a value is left out. The text of a heading has the whole
// width.
func TestPagesFitAPhone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	pages := w.stacked(t)
	chrome := browser(t)
	signIn := open(chrome, t, w, wide)
	signIn.visit(w.link)
	signIn.says("Overview")
	b := open(chrome, t, w, phone)
	const (
		cells     = `[...document.querySelectorAll(".stack td")].filter(c => c.offsetParent)`
		unlabeled = cells + `.filter(c => c !== c.parentNode.firstElementChild && !c.querySelector("button") && !/\w/.test(getComputedStyle(c, "::before").content.replace("none", "")))`
		empty     = cells + `.filter(c => !c.innerText.trim().replace("–", "") && !c.querySelector("svg"))`
		atTheEdge = cells + `.filter(c => {
			const text = document.createRange(), card = c.closest(".card").getBoundingClientRect()
			text.selectNodeContents(c)
			return [...text.getClientRects()].some(r => r.width && (r.left < card.left + 8 || r.right > card.right - 8))
		})`
		squeezed = `[...document.querySelectorAll(".heading > div")].filter(d => d.offsetWidth < 0.95 * d.parentNode.clientWidth)`
		texts    = `(%s).map(c => c.innerText || c.outerHTML)`
	)
	for name, path := range pages {
		b.visit(path)
		b.await("document.querySelector('main h1')")
		if name != "run" {
			b.await("document.querySelector('.stack tbody tr')")
		}
		b.shoot("fits-" + name)
		b.accessible()
		for what, found := range map[string]string{"without a label": unlabeled, "without a value": empty, "at the edge": atTheEdge, "squeezed": squeezed} {
			require.Empty(t, read[[]string](b, fmt.Sprintf(texts, found)), "%s: %s", name, what)
		}
	}
	b.clean()
}

// The navigation shows all entries in one row on a wide screen, whichever of them is the current
// one, and in several rows on narrower ones.
func TestTheNavigationIsNotClipped(t *testing.T) {
	t.Parallel()
	w := setup(t)
	chrome := browser(t)
	signIn := open(chrome, t, w, wide)
	signIn.visit(w.link)
	signIn.says("Overview")
	const (
		entries = `[...document.querySelectorAll("header.top nav a")]`
		clipped = entries + `.filter(a => {
			const entry = a.getBoundingClientRect(), nav = a.parentNode.getBoundingClientRect()
			return entry.left < nav.left || entry.right > nav.right + 0.5 || entry.bottom > nav.bottom + 0.5
		}).map(a => a.innerText)`
		rows = `new Set(` + entries + `.map(a => a.offsetTop)).size`
	)
	paths := read[[]string](signIn, entries+".map(a => a.getAttribute('href'))")
	require.Len(t, paths, 11)
	for _, s := range []screen{wide, {"between", 900, 844}, phone} {
		b := open(chrome, t, w, s)
		for _, path := range paths {
			b.visit(path)
			b.await("document.querySelector('header.top nav a[aria-current]')")
			require.Empty(t, read[[]string](b, clipped), "%s on the screen %s", path, s.name)
			if s == wide {
				require.EqualValues(t, 1, read[int64](b, rows), path)
			}
		}
		b.shoot("navigation")
		b.clean()
	}
}
