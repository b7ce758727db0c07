package items_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
	"rubato/internal/store/storetest"
)

// TestPlansOfTheHotPathReadByKey requires plans by key for every statement of a run. Plans are
// generic and cached, so a plan for empty tables must also be good for thousands of claimed
// endpoints and a thousand live runs, with statistics from empty tables or with none.
func TestPlansOfTheHotPathReadByKey(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]string{"NeverAnalyzed": "SELECT 1", "AnalyzedWhenEmpty": "ANALYZE"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Exec(t, "ALTER TABLE schedules SET (autovacuum_enabled = off)")
			b.Exec(t, prepare)
			for statement, plan := range b.hotPlans(t, storetest.Worker{1}, nil) {
				requireKeys(t, statement, plan)
			}
			now := b.At(storetest.Noon())
			const claimed = 5000
			b.Fill(t, claimed, now.Add(-claimed*time.Second))
			me := storetest.Worker{1}
			list := b.ClaimUpTo(t, me, claimed, 0)
			require.Len(t, b.Start(t, me, list[:1000]...), 1000)
			for statement, plan := range b.hotPlans(t, me, list[:250]) {
				requireKeys(t, statement, plan)
			}
		})
	}
}

// TestPlansOfAChangeReadByKey looks at the plans of what people wait for. They are kept too, and
// made for empty tables they must be good for full ones.
func TestPlansOfAChangeReadByKey(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]string{"NeverAnalyzed": "SELECT 1", "AnalyzedWhenEmpty": "ANALYZE"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Exec(t, prepare)
			for name, s := range changeStatements(t.Context()) {
				plan, err := storetest.ExplainChange(t.Context(), b.DB, s)
				require.NoError(t, err, name)
				require.NotRegexp(t, `Seq Scan on [a-z]|Hash|Merge Join|endpoints_[a-oq-z]|hints_endpoint`, plan, name)
			}
		})
	}
}

// changeStatements are those that a change of one endpoint reads and writes with.
func changeStatements(ctx context.Context) map[string]pg.Statement {
	q, ids, id := dbsqlc.New(), [][16]byte{{1}}, [16]byte{1}
	return map[string]pg.Statement{
		"lock": func(tx dbsqlc.DBTX) error { _, err := q.ScheduleLock(ctx, tx, ids); return err },
		"find": func(tx dbsqlc.DBTX) error {
			_, err := q.EndpointFind(ctx, tx, dbsqlc.EndpointFindParams{ID: id})
			return err
		},
		"hints": func(tx dbsqlc.DBTX) error { _, err := q.HintGetMany(ctx, tx, ids); return err },
		"slots": func(tx dbsqlc.DBTX) error {
			_, err := q.RunSlots(ctx, tx, dbsqlc.RunSlotsParams{EndpointID: id})
			return err
		},
		"record": func(tx dbsqlc.DBTX) error {
			_, err := q.ScheduleRecord(ctx, tx, dbsqlc.ScheduleRecordParams{EndpointID: id, Tags: []byte("{}")})
			return err
		},
		"plan": func(tx dbsqlc.DBTX) error {
			_, err := q.ScheduleReplan(ctx, tx, dbsqlc.ScheduleReplanParams{EndpointID: id, Tags: []byte("{}")})
			return err
		},
		"delete": func(tx dbsqlc.DBTX) error { return q.ScheduleDelete(ctx, tx, id) },
		"share": func(tx dbsqlc.DBTX) error {
			_, err := q.SecretsLockShared(ctx, tx, dbsqlc.SecretsLockSharedParams{TenantID: id})
			return err
		},
	}
}

// requireKeys requires that a plan finds every row by a key.
func requireKeys(t *testing.T, statement, plan string) {
	t.Helper()
	require.NotRegexp(t, `Seq Scan on (schedules|endpoints|hints|runs)|schedules_(waiting|held)|Hash|Merge`, plan, statement)
	requireLookups(t, statement, plan)
}

// requireLookups requires that a plan uses keys, and each of them to look rows up rather than to
// read a table in its order.
func requireLookups(t *testing.T, statement, plan string) {
	t.Helper()
	lines := strings.Split(plan, "\n")
	found := false
	for i, line := range lines {
		if strings.Contains(line, "_pkey") || strings.Contains(line, "schedules_endpoint") || strings.Contains(line, "hints_current") {
			found = true
			require.Contains(t, lines[min(i+1, len(lines)-1)], "Index Cond", "%s:\n%s", statement, plan)
		}
	}
	require.True(t, found || strings.Contains(plan, "Tid Scan"), "%s uses no key:\n%s", statement, plan)
}

// rareStatements are those that share the connections of the hot path and are asked for some runs
// only.
func rareStatements(ctx context.Context, q *dbsqlc.Queries, me storetest.Worker, ids, runIDs [][16]byte, tokens []int64) map[string]pg.Statement {
	return map[string]pg.Statement{
		"own": func(tx dbsqlc.DBTX) error {
			_, err := q.RunListStarted(ctx, tx, dbsqlc.RunListStartedParams{EndpointIds: ids, RunIds: runIDs, Tokens: tokens, WorkerID: me})
			return err
		},
		"confirm": func(tx dbsqlc.DBTX) error {
			_, err := q.RunConfirm(ctx, tx, dbsqlc.RunConfirmParams{EndpointID: me, RunID: me})
			return err
		},
		"kept": func(tx dbsqlc.DBTX) error {
			_, err := q.ScheduleListKept(ctx, tx, dbsqlc.ScheduleListKeptParams{EndpointIds: ids, Tokens: tokens, WorkerID: me})
			return err
		},
		"recorded": func(tx dbsqlc.DBTX) error {
			_, err := q.RunListFinished(ctx, tx, dbsqlc.RunListFinishedParams{TenantIds: ids, RunIds: runIDs, Tokens: tokens, WorkerID: me})
			return err
		},
		"last": func(tx dbsqlc.DBTX) error {
			_, err := q.RunLast(ctx, tx, ids)
			return err
		},
		"hints": func(tx dbsqlc.DBTX) error {
			_, err := q.HintGetMany(ctx, tx, ids)
			return err
		},
		"noise": func(tx dbsqlc.DBTX) error {
			_, err := q.NoiseWatchGetMany(ctx, tx, ids)
			return err
		},
		"validators": func(tx dbsqlc.DBTX) error {
			_, err := q.ValidatorGetMany(ctx, tx, ids)
			return err
		},
	}
}

// hotPlans returns the plan of each statement of a start and a finish.
func (b *bundle) hotPlans(t *testing.T, me storetest.Worker, list []claims.Claim) map[string]string {
	t.Helper()
	q := dbsqlc.New()
	ctx := t.Context()
	var ids, runIDs [][16]byte
	var tokens, executions []int64
	var ctids []pgtype.TID
	for _, s := range storetest.StartsOf(list) {
		ids, runIDs, tokens = append(ids, s.Claim.EndpointID), append(runIDs, s.RunID), append(tokens, s.Claim.Token)
		executions = append(executions, s.Execution.Milliseconds())
		ctids = append(ctids, pgtype.TID{BlockNumber: s.Claim.CTID.Block, OffsetNumber: s.Claim.CTID.Offset, Valid: true})
	}
	statements := map[string]pg.Statement{
		"start": func(tx dbsqlc.DBTX) error {
			_, err := q.ScheduleStart(ctx, tx, dbsqlc.ScheduleStartParams{
				CTIDs: ctids, EndpointIds: ids, Tokens: tokens, RunIds: runIDs, ExecutionMs: executions, WorkerID: me, LockTtlMs: 60_000,
			})
			return err
		},
		"extend": func(tx dbsqlc.DBTX) error {
			_, err := q.RunExtendLocks(ctx, tx, dbsqlc.RunExtendLocksParams{EndpointIds: ids, RunIds: runIDs, Tokens: tokens, WorkerID: me})
			return err
		},
		"lock": func(tx dbsqlc.DBTX) error {
			_, err := q.ScheduleLock(ctx, tx, ids)
			return err
		},
		"release": func(tx dbsqlc.DBTX) error {
			_, err := q.ScheduleRelease(ctx, tx, dbsqlc.ScheduleReleaseParams{EndpointIds: ids, Tokens: tokens, RestMs: tokens, WorkerID: me})
			return err
		},
		"plan": func(tx dbsqlc.DBTX) error {
			_, err := q.ScheduleFinish(ctx, tx, dbsqlc.ScheduleFinishParams{EndpointIds: ids, WorkerID: me, Now: storetest.Noon()})
			return err
		},
	}
	maps.Copy(statements, rareStatements(ctx, q, me, ids, runIDs, tokens))
	plans := make(map[string]string, len(statements))
	for name, s := range statements {
		plan, err := storetest.Explain(ctx, b.DB, s)
		require.NoError(t, err, name)
		plans[name] = plan
	}
	return plans
}
