package dispatch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch"
	"rubato/internal/egress/egresstest"
	"rubato/internal/waittest"
)

// TestWorkersKeepClaimsUpToTheirFairShare lets one worker run alone until it keeps the due times of
// every endpoint, and then starts two others. Each must get at least half of its fair share of the
// starts.
func TestWorkersKeepClaimsUpToTheirFairShare(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	const endpoints, workers = 240, 3
	b.due(t, tenant.TenantID, target, endpoints)
	b.exec(t, `UPDATE endpoints SET spec = spec || '{"baselineIntervalMs": 1000}'`)
	roomy := func(cfg *dispatch.Config) { cfg.Slots = 4 * endpoints } // The slots bound no worker.
	b.work(t, roomy)
	b.await(t, 1, "SELECT (count(*) >= $1)::int FROM runs", 3*endpoints)
	for range workers - 1 {
		b.work(t, roomy)
	}
	waittest.Until(t, func() bool {
		var all, least, active int
		row := b.pool.QueryRow(t.Context(), `SELECT coalesce(sum(n), 0)::int, coalesce(min(n), 0)::int, count(*)::int
			FROM (SELECT count(*) AS n FROM runs WHERE started_at > clock_timestamp() - interval '3 s' GROUP BY worker_id) w`)
		require.NoError(t, row.Scan(&all, &least, &active))
		return active == workers && all >= endpoints && 2*workers*least >= all
	}, "a worker did not get half of its fair share of the starts")
}
