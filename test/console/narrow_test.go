package console

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
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
