package history_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/store/storetest"
	"rubato/internal/waittest"
	"rubato/internal/zombie"
)

// days returns which days a table of history has partitions for, as yyyymmdd.
func (b *bundle) days(t *testing.T, table string) []string {
	t.Helper()
	rows, err := b.Pool.Query(t.Context(), `SELECT right(c.relname, 8) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = $1::regclass ORDER BY 1`, table)
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return list
}

func TestRetentionDropsOnlyWholeDays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	day := func(n int) time.Time { return storetest.Noon().AddDate(0, 0, n) }
	name := func(n int) string { return day(n).Format("20060102") }
	for n := -12; n < -1; n++ {
		b.Exec(t, "SELECT history_create_day($1)", day(n))
	}
	keep := func(now time.Time, days int) int {
		b.At(now)
		dropped, err := b.Sweeps.KeepHistory(t.Context(), zombie.Retention{
			Runs: 10 * 24 * time.Hour, Bodies: 3 * 24 * time.Hour, DaysAhead: days,
		})
		require.NoError(t, err)
		return dropped
	}

	// At noon of today ten days back reach to noon of day -10: that day is not over its time yet.
	require.Equal(t, 2+2+2+9, keep(day(0), 3))
	require.Equal(t, name(-10), b.days(t, "runs")[0])
	require.Equal(t, name(-10), b.days(t, "run_events")[0])
	require.Equal(t, name(-10), b.days(t, "run_requests")[0])
	require.Equal(t, name(-3), b.days(t, "run_bodies")[0])
	require.Zero(t, keep(day(0), 3))
	require.Zero(t, keep(day(0).Add(11*time.Hour+59*time.Minute), 3))
	require.Equal(t, 4, keep(day(0).Add(12*time.Hour), 3), "a day goes when its last instant is over its time")
	require.Equal(t, name(-9), b.days(t, "runs")[0])
	require.Equal(t, name(4), b.days(t, "runs")[len(b.days(t, "runs"))-1], "and days ahead are made ready")
}

// TestWaitingDropBlocksNoStatement: dropping a partition waits without blocking others. A long
// transaction reads the history, as a backup does, and finishes would queue behind the lock of the
// drop.
func TestWaitingDropBlocksNoStatement(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	b.Register(t, nil)
	b.Exec(t, "SELECT history_create_day($1)", storetest.Noon().AddDate(0, 0, -3))
	b.Exec(t, `INSERT INTO workers (id, name, version, state, slots, busy, started_at, heartbeat_at)
		VALUES (gen_random_uuid(), 'gone', '', 'inactive', 1, 0, $1, $1)`, storetest.Noon().AddDate(0, 0, -3))
	reader, err := b.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = reader.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = reader.Exec(t.Context(), "SELECT FROM runs, run_bodies, run_events")
	require.NoError(t, err)

	kept, ctx := make(chan error, 1), waittest.Context(t)
	keep := func() error {
		_, err := b.Sweeps.KeepHistory(ctx, zombie.Retention{Runs: 24 * time.Hour, Bodies: 24 * time.Hour})
		return err
	}
	go func() { kept <- keep() }()
	b.RunOne(t, storetest.Worker{1})
	require.Equal(t, errs.Unavailable, errs.CodeOf(<-kept))
	require.NoError(t, ctx.Err(), "it gives the lock up by itself")
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM workers WHERE name = 'gone'"), "what nobody reads goes")

	require.NoError(t, reader.Rollback(t.Context()))
	require.NoError(t, keep())
	require.NotContains(t, b.days(t, "runs"), storetest.Noon().AddDate(0, 0, -3).Format("20060102"))
}

// TestRetentionOfALateRecordBeginsWithIt records a run days after its due time, when the partition
// of that day is gone.
func TestRetentionOfALateRecordBeginsWithIt(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	now := b.At(storetest.Noon())
	b.Register(t, nil)
	c, started := b.StartOne(t, me)
	run := storetest.Succeed(me, c, started)
	keep := func() {
		_, err := b.Sweeps.KeepHistory(t.Context(), zombie.Retention{Runs: 24 * time.Hour, Bodies: 24 * time.Hour, DaysAhead: 1})
		require.NoError(t, err)
	}
	now = b.At(now.AddDate(0, 0, 3))
	keep()
	run.FinishedAt = now
	b.Finish(t, me, 0, run)
	keep()
	require.Equal(t, "ok", string(b.Run(t, run.ID).Outcome.Body))

	b.At(now.AddDate(0, 0, 2))
	keep()
	_, err := b.Runs.Get(t.Context(), storetest.Tenant.TenantID, run.ID)
	require.Equal(t, errs.NotFound, errs.CodeOf(err), "late records do not stay for ever")
}

func TestRetentionKeepsYoungRows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Register(t, nil)
	run := b.RunOne(t, storetest.Worker{1})
	retention := zombie.Retention{Runs: 24 * time.Hour, Bodies: time.Hour, DaysAhead: 1}
	_, err := b.Sweeps.KeepHistory(t.Context(), retention)
	require.NoError(t, err)
	require.Equal(t, "ok", string(b.Run(t, run.ID).Outcome.Body))

	b.At(now.AddDate(0, 0, 1))
	_, err = b.Sweeps.KeepHistory(t.Context(), retention)
	require.NoError(t, err)
	require.Empty(t, b.Run(t, run.ID).Outcome.Body, "bodies go first")
	b.At(now.AddDate(0, 0, 2))
	_, err = b.Sweeps.KeepHistory(t.Context(), retention)
	require.NoError(t, err)
	_, err = b.Runs.Get(t.Context(), storetest.Tenant.TenantID, run.ID)
	require.Error(t, err)
}

func TestWorkersAreForgottenWhenNothingRefersToThem(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Register(t, nil)
	b.StartOne(t, storetest.Worker{1})
	for n := range byte(3) {
		b.Beat(t, storetest.Worker{n + 1}, "inactive", now)
	}
	b.Beat(t, storetest.Worker{3}, "active", now.Add(time.Hour))
	b.At(now.Add(24*time.Hour + time.Millisecond))
	_, err := b.Sweeps.KeepHistory(t.Context(), zombie.Retention{Runs: 24 * time.Hour, Bodies: time.Hour})
	require.NoError(t, err)
	require.Equal(t, 2, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM workers"), "one has a live run, and one spoke within a day")
}

// TestTheLedgerIsKeptAsLongAsRuns: decisions expire together with the runs that they explain, and
// the decision in force stays at any age. A planner makes many of them.
func TestTheLedgerIsKeptAsLongAsRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e, quiet := b.Register(t, nil), b.Register(t, nil)
	for range 2 {
		_, err := b.Service.Pause(t.Context(), storetest.Tenant, e.ID, endpoints.PauseRequest{Until: now.AddDate(1, 0, 0)})
		require.NoError(t, err)
		_, err = b.Service.Resume(t.Context(), storetest.Tenant, e.ID)
		require.NoError(t, err)
	}
	b.Exec(t, `INSERT INTO decisions (endpoint_id, decided_at, cause, author, version, next_run_at, next_source, next_steps, input, claim_token, basis)
		SELECT d.endpoint_id, d.decided_at, 'hint', 'planner', d.version, d.next_run_at, d.next_source, d.next_steps, d.input, d.claim_token, d.basis
		FROM (SELECT * FROM decisions WHERE endpoint_id = $1 ORDER BY id DESC LIMIT 1) d, generate_series(1, 2500)`, [16]byte(e.ID))
	hint := func(kind string, created time.Time, ended any, expires time.Time, count int) {
		b.Exec(t, `INSERT INTO hints (endpoint_id, kind, interval_ms, run_at, expires_at, reason, author, created_at, ended_at)
			SELECT $1, $2, CASE $2 WHEN 'interval' THEN 1000 END, CASE $2 WHEN 'one-shot' THEN $5::timestamptz END, $5, '', 'planner', $3, $4::timestamptz
			FROM generate_series(1, $6)`, [16]byte(e.ID), kind, created, ended, expires, count)
	}
	later := now.AddDate(0, 0, 2)
	hint("interval", now, later, later, 1500)               // Over, and not for long.
	hint("interval", now, now, now.Add(time.Hour), 1200)    // Replaced long ago.
	hint("one-shot", now, nil, now.Add(time.Hour), 1)       // Expired long ago.
	hint("interval", now, nil, later.AddDate(0, 1, 0), 1)   // In force.
	hint("interval", later, later, later.Add(time.Hour), 1) // Young.
	last := storetest.Query[int64](t, b.Bundle, "SELECT max(id) FROM decisions WHERE endpoint_id = $1", [16]byte(e.ID))
	keep := func() {
		_, err := b.Sweeps.KeepHistory(t.Context(), zombie.Retention{Runs: 24 * time.Hour, Bodies: time.Hour})
		require.NoError(t, err)
	}

	b.At(now.Add(24 * time.Hour))
	keep()
	require.Equal(t, 1500+1200+3, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM hints"), "a day is not over")
	b.At(later.Add(time.Millisecond))
	for range 3 { // A pass that finds nothing to remove leaves the rest to the next one.
		keep()
	}
	require.Equal(t, last, storetest.Query[int64](t, b.Bundle, "SELECT max(id) FROM decisions WHERE endpoint_id = $1", [16]byte(e.ID)))
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM decisions WHERE endpoint_id = $1", [16]byte(e.ID)))
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM decisions WHERE endpoint_id = $1", [16]byte(quiet.ID)), "the last one may be in force")
	require.Equal(t, 1502, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM hints"))
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM hints WHERE ended_at IS NULL"))
}

func TestTheHistoryTakesNoTableOfAnotherName(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.Pool.Exec(t.Context(), "SELECT history_drop_before('endpoints', now()::date)")
	require.ErrorContains(t, err, "no table of history")
}

// An entry of the log goes when its time is over, however many have gone with it, and nothing else
// can remove one.
func TestTheAuditLogIsKeptForItsTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	year := 365 * 24 * time.Hour
	now := b.At(storetest.Noon())
	b.Exec(t, `INSERT INTO audit_log (id, tenant_id, at, actor, action, object_kind, object_id, request_id, remote_address)
		SELECT audit_log_id(at), $1, at, 'tester', 'pause', 'endpoint', n::text, '', ''
		FROM (SELECT n, $2::timestamptz - n * interval '1 ms' AS at FROM generate_series(-1, 2500) n) entry`, storetest.Tenant.TenantID, now.Add(-year))
	keep := func(r zombie.Retention) int {
		r.Runs, r.Bodies = 24*time.Hour, 24*time.Hour
		_, err := b.Sweeps.KeepHistory(t.Context(), r)
		require.NoError(t, err)
		return storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM audit_log")
	}

	require.Equal(t, 2502, keep(zombie.Retention{}), "without a time it is kept for good")
	require.Equal(t, 2502, keep(zombie.Retention{Audit: year + time.Hour}))
	require.Equal(t, 2, keep(zombie.Retention{Audit: year}), "what is a year old to the millisecond stays")
	for _, sql := range []string{
		"DELETE FROM audit_log", "UPDATE audit_log SET actor = 'nobody'", "TRUNCATE audit_log",
		"SELECT set_config('rubato.audit_before', '2020-01-01', false); DELETE FROM audit_log",
	} {
		_, err := b.Pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
		require.ErrorContains(t, err, "append-only", sql)
	}
}
