package views_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
	"rubato/internal/store/storetest"
	"rubato/internal/store/views"
	"rubato/internal/telemetry"
	"rubato/internal/waittest"
)

func (b *bundle) gauges(t *testing.T) telemetry.DatabaseState {
	t.Helper()
	state, err := views.NewGauges(b.DB).ReadDatabase(t.Context())
	require.NoError(t, err)
	return state
}

func TestDueGaugeCountsUnclaimedRows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	require.Zero(t, b.gauges(t).Due)
	require.Zero(t, b.gauges(t).OldestDue)

	late := b.Register(t, func(s *endpoints.Spec) { s.StartAt = now.Add(time.Minute) })
	b.Register(t, func(s *endpoints.Spec) { s.StartAt = now.Add(2 * time.Minute) })
	b.Register(t, func(s *endpoints.Spec) { s.StartAt = now.Add(time.Hour) })
	require.Zero(t, b.gauges(t).Due, "none is due yet")

	now = b.At(now.Add(3 * time.Minute))
	state := b.gauges(t)
	require.EqualValues(t, 2, state.Due)
	require.Equal(t, 2*time.Minute, state.OldestDue)

	c := b.ClaimUpTo(t, storetest.Worker{1}, 1, 0)[0]
	require.Equal(t, [16]byte(late.ID), c.EndpointID)
	state = b.gauges(t)
	require.EqualValues(t, 1, state.Due, "a claimed one waits in its worker")
	require.Equal(t, time.Minute, state.OldestDue)

	b.At(now.Add(2 * time.Minute)) // The lock is over, and nothing was started.
	state = b.gauges(t)
	require.EqualValues(t, 2, state.Due)
	require.Equal(t, 4*time.Minute, state.OldestDue, "it has waited since its due time, not since the end of the lock")
}

// TestDueGaugeCountsFromItsLowestEntry has an endpoint that is due for longer than the distance of
// the mark from the clock, and one reader that scans from its mark.
func TestDueGaugeCountsFromItsLowestEntry(t *testing.T) {
	t.Parallel()
	for name, makeDue := range map[string]func(t *testing.T, b *bundle){
		"Ordinary": func(t *testing.T, b *bundle) { b.Register(t, nil) },
		"InALane":  func(t *testing.T, b *bundle) { b.Register(t, func(s *endpoints.Spec) { s.Priority = "high" }) },
		"ExpiredClaim": func(t *testing.T, b *bundle) {
			b.Register(t, nil)
			b.ClaimOne(t, storetest.Worker{1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			gauges, now := views.NewGauges(b.DB), b.At(storetest.Noon())
			_, err := gauges.ReadDatabase(t.Context())
			require.NoError(t, err)
			makeDue(t, b)
			for _, after := range []time.Duration{9 * time.Minute, 10 * time.Minute, time.Hour} {
				b.At(now.Add(after))
				state, err := gauges.ReadDatabase(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, 1, state.Due, "after %s", after)
				require.Equal(t, after, state.OldestDue)
			}
		})
	}
}

// TestMarkOfDueTimesIsTheLowestOfAllLanes reads one entry of each index, as the notices of late
// endpoints do, while endpoints of two lanes are due.
func TestMarkOfDueTimesIsTheLowestOfAllLanes(t *testing.T) {
	t.Parallel()
	for _, lanes := range [][2]endpoints.PriorityName{{"high", "low"}, {"low", "high"}} {
		t.Run(string(lanes[0]), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			now := b.At(storetest.Noon())
			b.Register(t, func(s *endpoints.Spec) { s.Priority = lanes[0] })
			b.At(now.Add(5 * time.Minute))
			b.Register(t, func(s *endpoints.Spec) { s.Priority = lanes[1] })
			b.At(now.Add(9 * time.Minute))
			var mark pg.LowWaterMark
			_, err := b.DB.DueGauge(t.Context(), b.Pool, &mark, 1)
			require.NoError(t, err)
			require.Equal(t, now, mark.From().UTC())
		})
	}
}

func TestALiveRunIsNotDue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Register(t, func(s *endpoints.Spec) { s.StartAt, s.MaxExecutionTime = now, 30*time.Minute })
	me := storetest.Worker{1}
	c := b.ClaimOne(t, me)
	require.Len(t, b.Start(t, me, c), 1)

	b.At(now.Add(10 * time.Minute)) // Far past the lock of the claim.

	require.Zero(t, b.gauges(t).Due)
	require.Zero(t, b.gauges(t).OldestDue)
}

func TestWorkersAreCountedByHeartbeat(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	beat := func(id byte, state dispatch.State) {
		_, err := b.Executions.Beat(t.Context(), dispatch.Presence{ID: [16]byte{id}, Name: "host", Version: "v1", State: state, Slots: 1})
		require.NoError(t, err)
	}
	beat(1, "active")
	beat(2, "inactive")
	b.At(now.Add(5 * time.Second))
	beat(3, "draining")
	require.Equal(t, map[string]int64{"active": 1, "draining": 1, "inactive": 1}, b.gauges(t).Workers)

	b.At(now.Add(7 * time.Second))
	require.Equal(t, map[string]int64{"silent": 1, "draining": 1, "inactive": 1}, b.gauges(t).Workers)
}

func TestOldestSnapshotIsThatOfAnOpenTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Less(t, b.gauges(t).OldestSnapshot, 5*time.Second)

	tx, err := b.Pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT count(*) FROM schedules")
	require.NoError(t, err)
	var began time.Time
	require.NoError(t, tx.QueryRow(t.Context(), "SELECT now()").Scan(&began))
	age := func() time.Duration { return b.gauges(t).OldestSnapshot }
	waittest.Until(t, func() bool { return age() > 500*time.Millisecond })
	require.LessOrEqual(t, age(), storetest.Query[time.Duration](t, b.Bundle, "SELECT clock_timestamp() - $1::timestamptz", began))

	require.NoError(t, tx.Rollback(t.Context()))
	waittest.Until(t, func() bool { return age() < 500*time.Millisecond })
}

// TestHolderOfTheOldestSnapshotIsASessionThatCanBeEnded leaves a session idle in its transaction.
// The gauge names the process that an operator must end.
func TestHolderOfTheOldestSnapshotIsASessionThatCanBeEnded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := b.Pool.Config().ConnConfig.Copy()
	cfg.RuntimeParams["application_name"] = "forgotten"
	forgotten, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = forgotten.Close(context.WithoutCancel(t.Context())) }) // Postgres has ended it.
	for _, statement := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "\n  select 'a-secret-of-others', count(*) FROM schedules"} {
		_, err = forgotten.Exec(t.Context(), statement)
		require.NoError(t, err)
	}

	holder := b.gauges(t).SnapshotHolder

	require.EqualValues(t, forgotten.PgConn().PID(), holder.PID)
	require.Equal(t, cfg.User, holder.User)
	require.Equal(t, "forgotten", holder.Application)
	require.Equal(t, "idle in transaction", holder.State)
	require.Equal(t, "SELECT", holder.Command)
	require.False(t, holder.QueryStart.Before(holder.Since), "its last query belongs to the transaction")
	require.NotContains(t, fmt.Sprint(holder), "a-secret-of-others")

	require.True(t, storetest.Query[bool](t, b.Bundle, "SELECT pg_terminate_backend($1)", holder.PID))
	waittest.Until(t, func() bool { return b.gauges(t).SnapshotHolder.PID != holder.PID })
}

// TestGaugesStayCheap holds the count of due endpoints to its index and to its bound, with more due
// than it counts.
func TestGaugesStayCheap(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Fill(t, 20_000, storetest.Noon().Add(-100*24*time.Hour))
	b.Exec(t, "ANALYZE schedules, endpoints")
	require.EqualValues(t, 10_000, b.gauges(t).Due, "counted up to its bound")

	plan, err := storetest.ExplainUncached(t.Context(), b.DB, func(q dbsqlc.DBTX) error {
		_, err := dbsqlc.New().ScheduleGauge(t.Context(), q, dbsqlc.ScheduleGaugeParams{MaxRows: 200})
		return err
	})
	require.NoError(t, err)
	require.Contains(t, plan, "Index Scan using schedules_waiting on schedules")
	require.NotContains(t, plan, "Sort")
	require.NotContains(t, plan, "Seq Scan on schedules")
}
