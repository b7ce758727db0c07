package items_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/storetest"
)

// TestClaimUsesDueIndexDespiteBadStatistics requires the due index in the plan of a claim under any
// statistics: none, those of empty tables, and those of the largest tables. Postgres scales the
// rows per page by the statistics, so a million rows need not exist.
func TestClaimUsesDueIndexDespiteBadStatistics(t *testing.T) {
	t.Parallel()
	// The sizes of an installation, as the catalog has them: rows of schedules and of its indexes.
	const sizes = `UPDATE pg_class SET relpages = greatest(1, pg_relation_size(oid) / 8192), reltuples = CASE WHEN relname = 'schedules_held' THEN 1000 ELSE %d END
		WHERE relname IN ('schedules', 'schedules_endpoint', 'schedules_waiting', 'schedules_held', 'schedules_apart')`
	for name, statistics := range map[string][]string{
		"NeverAnalyzed":     nil,
		"AnalyzedWhenEmpty": {"DELETE FROM schedules", "ANALYZE schedules", "INSERT INTO schedules SELECT * FROM kept"},
		"AsTheyAre":         {"ANALYZE schedules"},
		"HundredThousand":   {"ANALYZE schedules", fmt.Sprintf(sizes, 100_000)},
		"Million":           {"ANALYZE schedules", fmt.Sprintf(sizes, 1_000_000)},
		"TenMillion":        {"ANALYZE schedules", fmt.Sprintf(sizes, 10_000_000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			now := storetest.Noon()
			b.Exec(t, "ALTER TABLE schedules SET (autovacuum_enabled = off)")
			b.Fill(t, 5000, now.Add(-time.Hour))
			b.Exec(t, "CREATE TABLE kept AS SELECT * FROM schedules")
			for _, sql := range statistics {
				b.Exec(t, sql)
			}
			plan, err := storetest.Explain(t.Context(), b.DB, func(q dbsqlc.DBTX) error {
				_, err := dbsqlc.New().ScheduleClaimDue(t.Context(), q, dbsqlc.ScheduleClaimDueParams{
					WorkerID: [16]byte{1}, LockTtlMs: 60_000, Now: &now, HorizonMs: 10_000, MaxRows: 200,
					TagSetIds: []int32{0, 0, 0, 0}, Priorities: []int16{-1, 0, 1, 2}, Yields: make([]bool, 4),
				})
				return err
			})
			require.NoError(t, err)
			require.Regexp(t, `Index Scan using schedules_waiting on schedules s\w*\s+\(.*\n\s+Index Cond: \(.*due_at`, plan)
			require.NotRegexp(t, `Seq Scan on schedules|Sort Key: s|Hash Join|Merge Join`, plan)
			require.Regexp(t, `Index Scan using schedules_apart on schedules s\w*\s+\(.*\n\s+Index Cond: \(.*tag_set_id.*priority.*due_at`, plan)
			require.Regexp(t, `Index Scan using schedules_held on schedules s\w*\s+\(.*\n\s+Index Cond: \(.*due_at`, plan)
			require.Regexp(t, `Tid Scan on schedules.*\n\s+TID Cond: \(ctid = ANY`, plan, "claimed rows are found by their ctid")
		})
	}
}
