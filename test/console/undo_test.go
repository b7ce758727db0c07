package console

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/planner"
)

// The page of an analysis undoes its changes. The dialog shows the hint and its author.
func TestAnAnalysisIsUndoneOnItsPage(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := planner.NewSessionID()
	w.sql(t, `INSERT INTO planner_sessions (id, tenant_id, endpoint_id, version, started_at, finished_at, advisor, trigger, authority, outcome, reasoning,
		                              confidence, next_analysis_at, calls, changes, warnings, error, model, prompt_digest, prompt_tokens, completion_tokens, cost_micros)
		SELECT $1, tenant_id, id, version, now(), now(), 'heuristic', 'time_reached', 'act', 'acted', 'orders come in', 0.5, now() + interval '1 hour',
		       '[{"tool":"propose_interval","result":"taken","refused":false}]', '["run every 30m0s for 1h0m0s: orders come in"]', '[]', '', '', '', 0, 0, 0
		FROM endpoints WHERE key = 'demo-orders'`, [16]byte(id))
	w.sql(t, `INSERT INTO hints (endpoint_id, kind, interval_ms, expires_at, reason, author, created_at)
		SELECT id, 'interval', 1800000, now() + interval '1 hour', '<b>orders</b> come in', 'planner:heuristic', now() FROM endpoints WHERE key = 'demo-orders'`)
	require.NotNil(t, w.endpoint(t, "demo-orders").Hints.Interval)
	b := open(browser(t), t, w, wide)
	b.visit(w.link)
	b.visit("/console/planner/sessions/" + id.String())
	b.says("orders come in")
	b.click("[hx-get$=undo]")
	b.await("document.querySelector('#dialog[open]')")
	b.says("interval hint of planner:heuristic: every 30 min, until ")
	b.shoot("undo")
	b.accessible()
	b.click("#dialog [type=submit]")
	b.says("Removed the interval hint of planner:heuristic: every 30m0s")
	b.shoot("undone")
	require.Nil(t, w.endpoint(t, "demo-orders").Hints.Interval)
	b.clean()
}
