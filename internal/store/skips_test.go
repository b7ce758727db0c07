package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
)

func TestAReasonOfASkipIsAReasonOfARun(t *testing.T) {
	t.Parallel()
	for _, reason := range []endpoints.SkipReason{endpoints.OverlapSkipped, endpoints.PauseSkipped, endpoints.MisfireSkipped} {
		require.Contains(t, runs.Reasons(), runs.Reason(reason))
	}
}

// TestAFinishRecordsWhatPassedUnderItsRun lets a run take three and a half minutes.
func TestAFinishRecordsWhatPassedUnderItsRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.at(noon())
	e := b.register(t, func(s *endpoints.Spec) { s.MaxExecutionTime = 10 * time.Minute })
	c, s := b.startOne(t, worker{1})
	end := b.at(now.Add(210 * time.Second))
	done := b.finish(t, worker{1}, 0, succeed(worker{1}, c, s))

	want := record(e, runs.OverlapSkipped, now.Add(time.Minute), now.Add(3*time.Minute), end, 3)
	require.Empty(t, cmp.Diff([]runs.Run{want}, b.skips(t, e.ID)))
	require.Empty(t, cmp.Diff(want, b.run(t, want.ID)))
	require.Equal(t, []endpoints.Skip{{
		From: want.Skipped.From, To: want.Skipped.To, Count: 3, Reason: endpoints.OverlapSkipped, Source: governor.SourceBaselineInterval,
	}}, done.Skipped)
	require.Equal(t, end, b.get(t, e.ID).State.AccountedUntil)

	// A run on time has nothing to add.
	b.at(b.get(t, e.ID).State.Due.At)
	b.runOne(t, worker{1})
	require.Len(t, b.skips(t, e.ID), 1)
	last, err := b.service.Explain(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.Equal(t, b.get(t, e.ID).State.Due.At, last.Due.At, "a record decides nothing")
}

// TestAChangeRecordsWhatPassed pauses, resumes, edits and archives.
func TestAChangeRecordsWhatPassed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.at(noon())
	e := b.register(t, nil)
	b.runOne(t, worker{1})
	b.at(now.Add(time.Second))
	_, err := b.service.Pause(t.Context(), tenant, e.ID, endpoints.PauseRequest{})
	require.NoError(t, err)
	require.Empty(t, b.skips(t, e.ID))
	resumed := b.at(now.Add(10*time.Minute + time.Second))
	_, err = b.service.Resume(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	paused := record(e, runs.PauseSkipped, now.Add(time.Minute), now.Add(9*time.Minute), resumed, 9) // The run at once stands for the tenth.
	require.Empty(t, cmp.Diff([]runs.Run{paused}, b.skips(t, e.ID)))

	edited := b.at(now.Add(15*time.Minute + time.Second))
	_, _, err = b.service.Edit(t.Context(), tenant, e.ID, 0, func(s endpoints.Spec) (endpoints.Spec, error) {
		s.BaselineInterval = time.Hour
		return s, nil
	})
	require.NoError(t, err)
	nobody := record(e, runs.MisfireSkipped, resumed, now.Add(15*time.Minute+time.Second), edited, 6)
	require.Empty(t, cmp.Diff([]runs.Run{nobody, paused}, b.skips(t, e.ID)))

	archived := b.at(now.Add(3 * time.Hour))
	require.NoError(t, b.service.Archive(t.Context(), tenant, e.ID, 0))
	gone := record(e, runs.MisfireSkipped, now.Add(time.Hour), archived, archived, 3)
	require.Empty(t, cmp.Diff([]runs.Run{gone, nobody, paused}, b.skips(t, e.ID)))
	b.at(archived.Add(time.Hour))
	require.NoError(t, b.service.Archive(t.Context(), tenant, e.ID, 0))
	require.Len(t, b.skips(t, e.ID), 3, "an archived endpoint has no due times")
}

// TestASettlementRecordsWhatPassed loses a run with its worker.
func TestASettlementRecordsWhatPassed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.at(noon())
	e := b.register(t, func(s *endpoints.Spec) { s.BaselineInterval = 10 * time.Second })
	_, s := b.startOne(t, worker{1})
	end := b.at(s.LockedUntil.Add(5*time.Second + time.Millisecond))
	b.settleAll(t, 1)
	require.Empty(t, cmp.Diff([]runs.Run{
		record(e, runs.OverlapSkipped, now.Add(10*time.Second), now.Add(60*time.Second), end, 6),
	}, b.skips(t, e.ID)))
}

// TestARecordMakesItsDay resumes an endpoint whose last due time lies on a day that the history is not ready for.
func TestARecordMakesItsDay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.at(noon())
	e := b.register(t, nil)
	_, err := b.service.Pause(t.Context(), tenant, e.ID, endpoints.PauseRequest{})
	require.NoError(t, err)
	b.exec(t, "UPDATE schedules SET anchor = $1, last_slot = $1", now)
	late := b.at(now.AddDate(0, 0, 40))
	_, err = b.service.Resume(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]runs.Run{
		record(e, runs.PauseSkipped, now.Add(time.Minute), late.Add(-time.Minute), late, 40*24*60-1),
	}, b.skips(t, e.ID)[:1]))
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM pg_class WHERE relname = 'runs_' || $1", late.Format("20060102")))
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM pg_class WHERE relname = 'runs_' || $1", late.AddDate(0, 0, -10).Format("20060102")))

	// So does one that a finish finds, and not only the day of the run.
	c, s := b.startOne(t, worker{1})
	end := b.at(late.AddDate(0, 0, 10))
	b.finish(t, worker{1}, 0, succeed(worker{1}, c, s))
	require.Equal(t, end, b.skips(t, e.ID)[0].Skipped.To)
}

// TestRowsOfAnEarlierReleaseAreAccountedForFromTheLastRun has a schedule that a program of before has written.
func TestRowsOfAnEarlierReleaseAreAccountedForFromTheLastRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.at(noon())
	e := b.register(t, nil)
	b.runOne(t, worker{1})
	b.exec(t, "UPDATE schedules SET accounted_until = NULL")
	b.at(now.Add(10*time.Minute + time.Second))
	c, s := b.startOne(t, worker{1})
	b.finish(t, worker{1}, 0, succeed(worker{1}, c, s))
	list := b.skips(t, e.ID)
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
			now := b.at(noon())
			e := b.register(t, edit)
			first := e.State.Due.Slot
			late := b.at(now.AddDate(0, 0, 30))
			run := b.runOne(t, worker{1})
			require.Equal(t, first, run.ScheduledFor)
			list := b.skips(t, e.ID)
			require.Len(t, list, 1)
			require.Equal(t, runs.Skips{From: first.Add(time.Second), To: late, Count: int64(late.Sub(first) / time.Second)}, *list[0].Skipped)
			due := b.get(t, e.ID).State.Due.At
			require.LessOrEqual(t, due.Sub(late), 2*time.Second, "it is back within two ticks")
		})
	}
}

func TestARecordThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.at(noon())
	b.register(t, nil)
	b.runOne(t, worker{1})
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
		_, err := b.pool.Exec(t.Context(), "UPDATE runs SET "+set)
		require.ErrorContains(t, err, "runs_skipped", name)
	}
	b.byHand(t, "UPDATE runs SET attempt = 0, status = 'skipped', next_run_at = NULL, skipped_from = scheduled_for, skipped_count = 1")
}
