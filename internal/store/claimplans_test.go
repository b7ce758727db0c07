package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/store/dbsqlc"
)

// TestTheClaimWalksTheDueIndexWhateverTheStatisticsSay looks at the plan of a claim under what the planner may believe of the tables:
// nothing, that they are empty, and that they are as large as they get. It reckons with as many rows a page as the statistics say, so a
// million of them need not be there.
func TestTheClaimWalksTheDueIndexWhateverTheStatisticsSay(t *testing.T) {
	t.Parallel()
	// The sizes of an installation, as the catalog has them: rows of schedules, of its indexes and of live runs.
	const sizes = `UPDATE pg_class SET relpages = greatest(1, pg_relation_size(oid) / 8192), reltuples = CASE WHEN relname LIKE 'live_runs%%' THEN 1000 ELSE %d END
		WHERE relname IN ('schedules', 'schedules_pkey', 'schedules_due', 'live_runs', 'live_runs_pkey')`
	for name, statistics := range map[string][]string{
		"NeverAnalyzed":     nil,
		"AnalyzedWhenEmpty": {"DELETE FROM schedules", "ANALYZE schedules, live_runs", "INSERT INTO schedules SELECT * FROM kept"},
		"AsTheyAre":         {"ANALYZE schedules, live_runs"},
		"HundredThousand":   {"ANALYZE schedules, live_runs", fmt.Sprintf(sizes, 100_000)},
		"Million":           {"ANALYZE schedules, live_runs", fmt.Sprintf(sizes, 1_000_000)},
		"TenMillion":        {"ANALYZE schedules, live_runs", fmt.Sprintf(sizes, 10_000_000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			now := noon()
			b.exec(t, "ALTER TABLE schedules SET (autovacuum_enabled = off)")
			b.exec(t, "ALTER TABLE live_runs SET (autovacuum_enabled = off)")
			b.fill(t, 5000, now.Add(-time.Hour))
			b.exec(t, "CREATE TABLE kept AS SELECT * FROM schedules")
			for _, sql := range statistics {
				b.exec(t, sql)
			}
			plan, err := b.db.Explain(t.Context(), func(q dbsqlc.DBTX) error {
				_, err := dbsqlc.New().ScheduleClaimDue(t.Context(), q, dbsqlc.ScheduleClaimDueParams{
					WorkerID: [16]byte{1}, LockTtlMs: 60_000, Now: &now, HorizonMs: 10_000, MaxRows: 200,
				})
				return err
			})
			require.NoError(t, err)
			require.Regexp(t, `Index Scan using schedules_due on schedules s\w*\s+\(.*\n\s+Index Cond: \(.*due_at`, plan)
			require.NotRegexp(t, `Seq Scan on (schedules|live_runs)|Sort|Hash Join|Merge Join`, plan)
			require.Regexp(t, `schedules_pkey.*\n\s+Index Cond: \(endpoint_id = ANY`, plan, "what is taken is found by key")
		})
	}
}
