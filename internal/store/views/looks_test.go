package views_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/stats"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/storetest"
	"rubato/internal/store/views"
)

// answered inserts a successful run some time before noon. digest 0 is a 304.
func (b *bundle) answered(t *testing.T, e *endpoints.Endpoint, before time.Duration, digest int64) {
	t.Helper()
	b.Ended(t, e, before, runs.Succeeded, 0, 20*time.Millisecond)
	code := 200
	if digest == 0 {
		code = 304
	}
	b.ExecUntriggered(t, fmt.Sprintf("UPDATE runs SET body_digest = nullif(%d, 0), status_code = %d WHERE endpoint_id = '%x' AND scheduled_for = '%s'",
		digest, code, [16]byte(e.ID), storetest.Noon().Add(-before).Format(time.RFC3339)))
}

// Digests of two forms differ without a change, for example after an edit of the ignored members.
func TestDigestsOfAnotherFormAreNoChange(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.Planner = endpoints.PlannerAct })
	for i, digest := range []int64{7, 7 | 1<<48, -7, -8} { // -7 and -8 are of a third form.
		b.answered(t, e, time.Duration(20-i)*time.Minute, digest)
	}
	got, err := views.NewStats(b.DB).Looks(t.Context(), e.TenantID, e.ID, storetest.Noon().Add(-time.Hour), time.Hour)
	require.NoError(t, err)
	require.EqualValues(t, 1, stats.Sum(got.Groups).Changes)
	saved, err := views.NewConsole(b.DB).Savings(t.Context(), e.TenantID)
	require.NoError(t, err)
	require.EqualValues(t, 1, saved.Changes)
}

func TestLooksCompareAnswersWithThoseBefore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	e, other := b.Register(t, nil), b.Register(t, nil)
	minutes := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	b.answered(t, e, minutes(90), 9) // Before the record, so that the first run of it has no gap.
	b.answered(t, e, minutes(59), 1)
	b.answered(t, e, minutes(57), 1)
	b.answered(t, e, minutes(55), 0)
	b.answered(t, e, minutes(50), 1) // Equal to the digest before the 304.
	b.answered(t, e, minutes(29), 2)
	b.Ended(t, e, minutes(27), runs.Failed, 0, time.Second) // The gap of the next look spans it.
	b.answered(t, e, minutes(25), 3)
	b.Ended(t, e, minutes(24), runs.Skipped, 0, time.Second)
	b.Ended(t, e, minutes(23), runs.Succeeded, 0, time.Second) // Without a body.
	b.answered(t, e, minutes(22), 4)
	b.answered(t, e, minutes(21), 5)
	b.ExecUntriggered(t, "UPDATE runs SET source = 'manual' WHERE body_digest = 5")
	b.answered(t, other, minutes(20), 6)
	b.ExecUntriggered(t, `UPDATE runs SET next_steps = '[{"rule": "change-rate", "at": "2026-03-10T12:00:00Z",
		"why": "every 4m0s: answers change every 9 min, a run costs 3.25 change-seconds, budget 9/h", "price": 3.25}]' WHERE body_digest = 5`)

	got, err := views.NewStats(b.DB).Looks(t.Context(), e.TenantID, e.ID, storetest.Noon().Add(-time.Hour), 30*time.Minute)
	require.NoError(t, err)
	type group struct {
		step              int
		compared, changed bool
		gap               time.Duration
		count             int64
	}
	var groups []group
	for _, g := range got.Groups {
		groups = append(groups, group{int(g.At.Sub(got.From) / (30 * time.Minute)), g.Compared, g.Changed, g.Gap.Round(time.Millisecond), g.Count})
	}
	require.Equal(t, []group{
		{0, false, false, 0, 1},
		{0, true, false, minutes(2), 2},
		{0, true, false, minutes(5), 1},
		{1, false, false, 0, 2},
		{1, true, true, minutes(3), 1},
		{1, true, true, minutes(4), 1},
		{1, true, true, minutes(21), 1},
	}, groups)
	require.Equal(t, map[time.Time]float64{storetest.Noon().Add(-30 * time.Minute).UTC(): 3.25}, got.Prices)
	sum := stats.Sum(got.Groups)
	require.Equal(t, []int64{9, 6, 3}, []int64{sum.Runs, sum.Compared, sum.Changes})
	require.InDelta(t, 3/(28.0*60), sum.Rate, 0.002)

	got, err = views.NewStats(b.DB).Looks(t.Context(), [16]byte{9}, e.ID, storetest.Noon().Add(-time.Hour), time.Hour)
	require.NoError(t, err)
	require.Empty(t, got.Groups, "of another tenant")
	require.Empty(t, got.Prices)
}

// TestLooksKnowPauses pauses an endpoint before the record, within it, and during a run.
func TestLooksKnowPauses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	at := func(hour float64) time.Time { return storetest.Noon().Add(time.Duration(hour * float64(time.Hour))) }
	b.At(at(-5))
	e := b.Register(t, func(s *endpoints.Spec) { s.BaselineInterval = time.Minute })
	pause := func(hour float64, r endpoints.PauseRequest) {
		b.At(at(hour))
		_, err := b.Service.Pause(t.Context(), storetest.Tenant, e.ID, r)
		require.NoError(t, err)
	}
	resume := func(hour float64) {
		b.At(at(hour))
		_, err := b.Service.Resume(t.Context(), storetest.Tenant, e.ID)
		require.NoError(t, err)
	}
	pause(-4, endpoints.PauseRequest{})
	resume(-2.5)
	pause(-2, endpoints.PauseRequest{Until: at(-1.75)})
	b.At(at(-1.5))
	b.RunOne(t, storetest.Worker{1})
	pause(-0.5, endpoints.PauseRequest{})
	b.At(at(0))
	looks := func(tenant [16]byte) stats.Looks {
		l, err := views.NewStats(b.DB).Looks(t.Context(), tenant, e.ID, at(-3), time.Hour)
		require.NoError(t, err)
		for i := range l.Pauses {
			l.Pauses[i] = [2]time.Time{l.Pauses[i][0].UTC(), l.Pauses[i][1].UTC()}
		}
		return l
	}
	require.Equal(t, [][2]time.Time{{at(-3), at(-2.5)}, {at(-2), at(-1.75)}, {at(-0.5), at(0)}}, looks(keystore.DefaultTenant).Pauses)
	require.Empty(t, looks([16]byte{9}).Pauses, "of another tenant")
	b.ExecUntriggered(t, fmt.Sprintf("UPDATE runs SET next_source = 'paused', finished_at = '%s', next_run_at = '%s' WHERE status <> 'skipped'",
		at(-1.5).Format(time.RFC3339), at(-1.25).Format(time.RFC3339)))
	require.Contains(t, looks(keystore.DefaultTenant).Pauses, [2]time.Time{at(-1.5), at(-1.25)}, "a pause during a run")
}

func TestSavingsCompareActingEndpointsWithTheirBaselines(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	acting := func(s *endpoints.Spec) {
		s.Planner, s.BaselineInterval, s.MaxInterval = endpoints.PlannerAct, 10*time.Second, 2*time.Minute
	}
	e, watched := b.Register(t, acting), b.Register(t, func(s *endpoints.Spec) { s.Planner = endpoints.PlannerObserve })
	for i, before := range []time.Duration{3 * time.Hour, 60 * time.Second, 40 * time.Second, 30 * time.Second} {
		b.answered(t, e, before, int64(1+i/2))
		b.answered(t, watched, before, int64(i+1))
	}
	read := func(tenant [16]byte) stats.Savings {
		got, err := views.NewConsole(b.DB).Savings(t.Context(), tenant)
		require.NoError(t, err)
		got.Since = got.Since.UTC()
		return got
	}
	require.Equal(t, stats.Savings{
		At:           storetest.Noon(),
		Since:        storetest.Noon().Add(-3 * time.Hour),
		Endpoints:    1,
		Runs:         3,
		BaselineRuns: 15, // The three hours count as two minutes: 12, 2 and 1.
		Changes:      1,
	}, read(e.TenantID))
	other := read([16]byte{9})
	require.Zero(t, other.Endpoints+other.Runs+other.BaselineRuns+other.Changes, "of another tenant")
}
