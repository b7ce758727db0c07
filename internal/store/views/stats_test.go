package views_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/stats"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/storetest"
	"rubato/internal/store/views"
)

func TestHealthSumsUpWindows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	e, other := b.Register(t, nil), b.Register(t, nil)
	b.Ended(t, e, 10*time.Minute, runs.Succeeded, 0, 20*time.Millisecond)
	b.Ended(t, e, 20*time.Minute, runs.Failed, 0, 40*time.Millisecond)
	b.Ended(t, e, 30*time.Minute, runs.Lost, 0, time.Minute)
	b.Ended(t, e, 40*time.Minute, runs.Skipped, 0, time.Minute)
	b.Ended(t, e, 3*time.Hour, runs.TimedOut, 0, time.Minute)
	b.Ended(t, e, 23*time.Hour, runs.Succeeded, 0, 60*time.Millisecond)
	b.Ended(t, e, 25*time.Hour, runs.Succeeded, 0, time.Second)
	b.Ended(t, other, time.Minute, runs.Failed, 0, time.Second)

	got, err := views.NewStats(b.DB).Health(t.Context(), e.TenantID, e.ID)
	require.NoError(t, err)
	ms := func(p50, p95 int) stats.Percentiles {
		long := time.Duration(p95) * time.Millisecond
		return stats.Percentiles{P50: time.Duration(p50) * time.Millisecond, P95: long, P99: long}
	}
	require.Equal(t, []stats.Health{
		{Window: time.Hour, Runs: 3, Succeeded: 1, Failed: 1, Skipped: 5, Latency: ms(20, 40)},
		{Window: 4 * time.Hour, Runs: 4, Succeeded: 1, Failed: 2, Skipped: 5, Latency: ms(20, 40)},
		{Window: 24 * time.Hour, Runs: 5, Succeeded: 2, Failed: 2, Skipped: 5, Latency: ms(40, 60)},
	}, got)

	got, err = views.NewStats(b.DB).Health(t.Context(), [16]byte{9}, e.ID)
	require.NoError(t, err)
	require.Zero(t, got[2].Runs, "of another tenant")
}

// TestARecordOfSkipsCountsByItsShareOfAWindow has an endpoint of every minute paused for a month:
// its one record ends in every window.
func TestARecordOfSkipsCountsByItsShareOfAWindow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon().Add(-30 * 24 * time.Hour))
	e := b.Register(t, func(s *endpoints.Spec) { s.BaselineInterval = time.Minute })
	_, err := b.Service.Pause(t.Context(), storetest.Tenant, e.ID, endpoints.PauseRequest{})
	require.NoError(t, err)
	_, err = b.Service.RunNow(t.Context(), storetest.Tenant, e.ID, endpoints.OneOffRequest{})
	require.NoError(t, err)
	b.RunOne(t, storetest.Worker{1})
	b.At(storetest.Noon().Add(-30 * time.Second))
	_, err = b.Service.Pause(t.Context(), storetest.Tenant, e.ID, endpoints.PauseRequest{Until: storetest.Noon().Add(time.Hour)})
	require.NoError(t, err)
	b.At(storetest.Noon())

	require.Equal(t, []int64{30*24*60 - 1}, storetest.Query[[]int64](t, b.Bundle, "SELECT array_agg(skipped_count) FROM runs WHERE skipped_count > 1"))
	got, err := views.NewStats(b.DB).Health(t.Context(), e.TenantID, e.ID)
	require.NoError(t, err)
	require.Equal(t, []int64{59, 239, 1439}, []int64{got[0].Skipped, got[1].Skipped, got[2].Skipped}, "the last one is a minute ago, and what is due exactly as a window begins is not in it")
}

func TestOverviewSumsUpTheNewestRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	reader := views.NewStats(b.DB)
	e := b.Register(t, nil)
	empty, err := reader.Overview(t.Context(), e.TenantID)
	require.NoError(t, err)
	require.Equal(t, stats.Overview{At: storetest.Noon(), Due: 1, Statuses: map[string]int64{}}, empty)

	b.Ended(t, e, time.Minute, runs.Succeeded, time.Millisecond, 20*time.Millisecond)
	b.Ended(t, e, 2*time.Minute, runs.Succeeded, 3*time.Millisecond, 20*time.Millisecond)
	b.Ended(t, e, 3*time.Minute, runs.Skipped, time.Hour, time.Minute)
	b.Ended(t, e, 61*time.Minute, runs.Failed, time.Hour, time.Minute)
	spread := b.Register(t, func(s *endpoints.Spec) { s.Jitter = time.Hour })
	b.Ended(t, spread, time.Minute, runs.Succeeded, 50*time.Second, 20*time.Millisecond)
	asked := b.Register(t, nil)
	b.Ended(t, asked, time.Minute, runs.Succeeded, 50*time.Second, 20*time.Millisecond)
	b.ExecUntriggered(t, fmt.Sprintf("UPDATE runs SET source = 'manual' WHERE endpoint_id = '%x'", [16]byte(asked.ID)))
	all := b.Register(t, func(s *endpoints.Spec) {
		s.BaselineInterval, s.BaselineCron, s.CatchUp = 0, "* * * * *", governor.CatchUpAll
	})
	b.Ended(t, all, 50*time.Minute, runs.Succeeded, 49*time.Minute, 20*time.Millisecond)
	b.At(storetest.Noon().Add(5 * time.Second))
	got, err := reader.Overview(t.Context(), e.TenantID)
	require.NoError(t, err)
	require.Equal(t, "map[skipped:1 succeeded:5] 6", fmt.Sprint(got.Statuses, got.Runs))
	require.Equal(t, storetest.Noon().Add(-50*time.Minute), got.Since.UTC())
	require.Equal(t, 5*time.Second, got.OldestDue)
	require.Equal(t, stats.Percentiles{P50: time.Millisecond, P95: 3 * time.Millisecond, P99: 3 * time.Millisecond}, got.StartLag)
	require.Equal(t, 20*time.Millisecond, got.Latency.P99)

	got, err = reader.Overview(t.Context(), [16]byte{9})
	require.NoError(t, err)
	require.Zero(t, got.Due+got.Runs+got.Running, "of another tenant")
}

func TestWorkersThatSayNothingAreSilent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	for i, state := range []string{"active", "active", "draining", "inactive"} {
		b.Exec(t, `INSERT INTO workers (id, name, version, state, slots, busy, started_at, heartbeat_at) VALUES ($1, $2, 'v', $3, 4, 1, $4, $5)`,
			[16]byte{byte(i + 1)}, fmt.Sprint("w", i), state, storetest.Noon().Add(-time.Duration(i)*time.Minute), storetest.Noon().Add(-time.Duration(i)*5*time.Second))
	}
	list, at, err := views.NewStats(b.DB).Workers(t.Context())
	require.NoError(t, err)
	require.Equal(t, storetest.Noon(), at.UTC())
	var states []stats.WorkerState
	for _, w := range list {
		states = append(states, w.State)
	}
	require.Equal(t, []stats.WorkerState{stats.Active, stats.Active, stats.Silent, stats.Inactive}, states)
}

// TestAnotherTenantsBacklogHidesNothing has more due of one tenant, and for longer, than is
// counted; one of the other's claims is over.
func TestAnotherTenantsBacklogHidesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Fill(t, stats.DueRows, now.Add(-(stats.DueRows+3600)*time.Second))
	one := b.FillTenant(t, "one", 3, now.Add(-time.Minute))

	got, err := views.NewStats(b.DB).Overview(t.Context(), one)

	require.NoError(t, err)
	require.EqualValues(t, 3, got.Due)
	require.Equal(t, time.Minute, got.OldestDue)
}

// TestExpiredClaimCountsAsDue has a worker that died before it started anything.
func TestExpiredClaimCountsAsDue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Fill(t, 2, now.Add(-time.Minute))
	reader := views.NewStats(b.DB)
	require.Len(t, b.Claim(t, storetest.Worker{1}, time.Hour), 2)
	got, err := reader.Overview(t.Context(), keystore.DefaultTenant)
	require.NoError(t, err)
	require.Zero(t, got.Due, "they are held")
	b.Exec(t, "UPDATE schedules SET due_at = $1", now.Add(-time.Second))
	got, err = reader.Overview(t.Context(), keystore.DefaultTenant)
	require.NoError(t, err)
	require.EqualValues(t, 2, got.Due)
}
