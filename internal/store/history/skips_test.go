package history_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/store/storetest"
)

func TestAReasonOfASkipIsAReasonOfARun(t *testing.T) {
	t.Parallel()
	for _, reason := range []endpoints.SkipReason{endpoints.OverlapSkipped, endpoints.PauseSkipped, endpoints.MisfireSkipped} {
		require.Contains(t, runs.Reasons(), runs.Reason(reason))
	}
}

// TestFinishRecordsOverlappedDueTimes lets a run take three and a half minutes.
func TestFinishRecordsOverlappedDueTimes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.MaxExecutionTime = 10 * time.Minute })
	c, s := b.StartOne(t, storetest.Worker{1})
	end := b.At(now.Add(210 * time.Second))
	done := b.Finish(t, storetest.Worker{1}, 0, storetest.Succeed(storetest.Worker{1}, c, s))

	want := storetest.Record(e, runs.OverlapSkipped, now.Add(time.Minute), now.Add(3*time.Minute), end, 3)
	require.Empty(t, cmp.Diff([]runs.Run{want}, b.Skips(t, e.ID)))
	require.Empty(t, cmp.Diff(want, b.Run(t, want.ID)))
	require.Equal(t, []endpoints.Skip{{
		From: want.Skipped.From, To: want.Skipped.To, Count: 3, Reason: endpoints.OverlapSkipped, Source: governor.SourceBaselineInterval,
	}}, done.Skipped)
	require.Equal(t, end, b.Get(t, e.ID).State.AccountedUntil)

	// A run on time has nothing to add.
	b.At(b.Get(t, e.ID).State.Due.At)
	b.RunOne(t, storetest.Worker{1})
	require.Len(t, b.Skips(t, e.ID), 1)
	last, err := b.Service.Explain(t.Context(), storetest.Tenant, e.ID)
	require.NoError(t, err)
	require.Equal(t, b.Get(t, e.ID).State.Due.At, last.Due.At, "a record decides nothing")
}

// TestChangeRecordsSkippedDueTimes pauses, resumes, edits and archives.
func TestChangeRecordsSkippedDueTimes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, nil)
	b.RunOne(t, storetest.Worker{1})
	b.At(now.Add(time.Second))
	_, err := b.Service.Pause(t.Context(), storetest.Tenant, e.ID, endpoints.PauseRequest{})
	require.NoError(t, err)
	require.Empty(t, b.Skips(t, e.ID))
	resumed := b.At(now.Add(10*time.Minute + time.Second))
	_, err = b.Service.Resume(t.Context(), storetest.Tenant, e.ID)
	require.NoError(t, err)
	paused := storetest.Record(e, runs.PauseSkipped, now.Add(time.Minute), now.Add(9*time.Minute), resumed, 9) // The run at once stands for the tenth.
	require.Empty(t, cmp.Diff([]runs.Run{paused}, b.Skips(t, e.ID)))

	edited := b.At(now.Add(15*time.Minute + time.Second))
	_, _, err = b.Service.Edit(t.Context(), storetest.Tenant, e.ID, 0, func(s endpoints.Spec) (endpoints.Spec, error) {
		s.BaselineInterval = time.Hour
		return s, nil
	})
	require.NoError(t, err)
	nobody := storetest.Record(e, runs.MisfireSkipped, resumed, now.Add(15*time.Minute+time.Second), edited, 6)
	require.Empty(t, cmp.Diff([]runs.Run{nobody, paused}, b.Skips(t, e.ID)))

	archived := b.At(now.Add(3 * time.Hour))
	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, e.ID, 0))
	gone := storetest.Record(e, runs.MisfireSkipped, now.Add(time.Hour), archived, archived, 3)
	require.Empty(t, cmp.Diff([]runs.Run{gone, nobody, paused}, b.Skips(t, e.ID)))
	b.At(archived.Add(time.Hour))
	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, e.ID, 0))
	require.Len(t, b.Skips(t, e.ID), 3, "an archived endpoint has no due times")
}

// TestSettlementRecordsSkippedDueTimes loses a run with its worker.
func TestSettlementRecordsSkippedDueTimes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.BaselineInterval = 10 * time.Second })
	_, s := b.StartOne(t, storetest.Worker{1})
	end := b.At(s.LockedUntil.Add(5*time.Second + time.Millisecond))
	b.SettleLost(t, 1)
	require.Empty(t, cmp.Diff([]runs.Run{
		storetest.Record(e, runs.OverlapSkipped, now.Add(10*time.Second), now.Add(60*time.Second), end, 6),
	}, b.Skips(t, e.ID)))
}

// TestARecordMakesItsDay resumes an endpoint with a last due time on a day without a partition. The
// record creates the partition.
func TestARecordMakesItsDay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, nil)
	_, err := b.Service.Pause(t.Context(), storetest.Tenant, e.ID, endpoints.PauseRequest{})
	require.NoError(t, err)
	b.Exec(t, "UPDATE schedules SET anchor = $1, last_slot = $1", now)
	late := b.At(now.AddDate(0, 0, 40))
	_, err = b.Service.Resume(t.Context(), storetest.Tenant, e.ID)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]runs.Run{
		storetest.Record(e, runs.PauseSkipped, now.Add(time.Minute), late.Add(-time.Minute), late, 40*24*60-1),
	}, b.Skips(t, e.ID)[:1]))
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM pg_class WHERE relname = 'runs_' || $1", late.Format("20060102")))
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM pg_class WHERE relname = 'runs_' || $1", late.AddDate(0, 0, -10).Format("20060102")))

	// So does one that a finish finds, and not only the day of the run.
	c, s := b.StartOne(t, storetest.Worker{1})
	end := b.At(late.AddDate(0, 0, 10))
	b.Finish(t, storetest.Worker{1}, 0, storetest.Succeed(storetest.Worker{1}, c, s))
	require.Equal(t, end, b.Skips(t, e.ID)[0].Skipped.To)
}

// TestRowsOfAnEarlierReleaseAreAccountedForFromTheLastRun has a schedule that a program of before
// has written.
func TestRowsOfAnEarlierReleaseAreAccountedForFromTheLastRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, nil)
	b.RunOne(t, storetest.Worker{1})
	b.Exec(t, "UPDATE schedules SET accounted_until = NULL")
	b.At(now.Add(10*time.Minute + time.Second))
	c, s := b.StartOne(t, storetest.Worker{1})
	b.Finish(t, storetest.Worker{1}, 0, storetest.Succeed(storetest.Worker{1}, c, s))
	list := b.Skips(t, e.ID)
	require.Len(t, list, 1)
	require.Equal(t, runs.Skips{From: now.Add(2 * time.Minute), To: now.Add(10 * time.Minute), Count: 9}, *list[0].Skipped, "the run stands for the first")
}

// TestAMonthOfEverySecondIsOneRow stops every worker for 30 days.
func TestAMonthOfEverySecondIsOneRow(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*endpoints.Spec){
		"Interval": func(s *endpoints.Spec) { s.BaselineInterval = time.Second },
		"Cron":     func(s *endpoints.Spec) { s.BaselineInterval, s.BaselineCron = 0, "* * * * * *" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			now := b.At(storetest.Noon())
			e := b.Register(t, edit)
			first := e.State.Due.Slot
			late := b.At(now.AddDate(0, 0, 30))
			run := b.RunOne(t, storetest.Worker{1})
			require.Equal(t, first, run.ScheduledFor)
			list := b.Skips(t, e.ID)
			require.Len(t, list, 1)
			require.Equal(t, runs.Skips{From: first.Add(time.Second), To: late, Count: int64(late.Sub(first) / time.Second)}, *list[0].Skipped)
			due := b.Get(t, e.ID).State.Due.At
			require.LessOrEqual(t, due.Sub(late), 2*time.Second, "it is back within two ticks")
		})
	}
}

func TestARecordThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	b.Register(t, nil)
	b.RunOne(t, storetest.Worker{1})
	for name, set := range map[string]string{
		"NoRange":       "attempt = 0",
		"NoCount":       "attempt = 0, status = 'skipped', next_run_at = NULL, skipped_from = scheduled_for",
		"None":          "attempt = 0, status = 'skipped', next_run_at = NULL, skipped_from = scheduled_for, skipped_count = 0",
		"Backwards":     "attempt = 0, status = 'skipped', next_run_at = NULL, skipped_from = scheduled_for + interval '1 s', skipped_count = 2",
		"ThatDecides":   "attempt = 0, status = 'skipped', skipped_from = scheduled_for, skipped_count = 1",
		"OfARun":        "skipped_from = scheduled_for, skipped_count = 1",
		"ThatSucceeded": "attempt = 0, next_run_at = NULL, skipped_from = scheduled_for, skipped_count = 1",
		"CountAlone":    "skipped_count = 1",
	} {
		_, err := b.Pool.Exec(t.Context(), "UPDATE runs SET "+set)
		require.ErrorContains(t, err, "runs_skipped", name)
	}
	b.ExecUntriggered(t, "UPDATE runs SET attempt = 0, status = 'skipped', next_run_at = NULL, skipped_from = scheduled_for, skipped_count = 1")
}
