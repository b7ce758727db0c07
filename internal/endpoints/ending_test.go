package endpoints_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
)

// ended asserts that the schedule has no further due time.
func ended(t *testing.T, b *bundle) {
	t.Helper()
	due := b.endpoint().State.Due
	require.Equal(t, []any{governor.Indefinite, governor.SourceEnded}, []any{due.At, due.Source})
}

func TestAScheduleEndsAtEndAt(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) { s.BaselineInterval, s.EndAt = time.Minute, start.Add(2*time.Minute) })
	b.run(t, nil)
	decided := b.run(t, nil)
	ended(t, b)
	require.Contains(t, decided.Decision.Steps[len(decided.Decision.Steps)-1].Why, "the schedule ended at")
	require.Empty(t, b.endpoint().Unrecorded)

	// A one-off run stays possible, and the due times that would have passed are not skips.
	b.pass(time.Hour)
	_, err := b.RunNow(t.Context(), actor, b.id, endpoints.OneOffRequest{})
	require.NoError(t, err)
	b.run(t, nil)
	ended(t, b)
	require.Empty(t, b.endpoint().Unrecorded)
}

// TestDueTimesBeforeTheEndAreRecordedAsMissed has a run that takes longer than the rest of the
// schedule.
func TestDueTimesBeforeTheEndAreRecordedAsMissed(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) { s.BaselineInterval, s.EndAt = time.Minute, start.Add(3*time.Minute) })
	b.pass(10 * time.Minute)
	b.run(t, func(f *endpoints.Finished) { f.StartedAt = start })
	ended(t, b)
	skips := b.endpoint().Unrecorded
	require.Len(t, skips, 1)
	require.Equal(t, []any{start.Add(time.Minute), start.Add(2 * time.Minute), int64(2)}, []any{skips[0].From, skips[0].To, skips[0].Count})
}

// TestMaxRunsCountsDueTimes counts neither attempts nor one-off runs nor skipped due times.
func TestMaxRunsCountsDueTimes(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) {
		s.BaselineInterval, s.MaxRuns, s.Retry.MaxAttempts = time.Minute, 3, 2
	})
	b.run(t, func(f *endpoints.Finished) { f.Status, f.Verdict, f.Retryable = "failed", endpoints.Failure, true })
	require.Equal(t, 2, b.endpoint().State.Due.Attempt)
	b.run(t, nil)
	b.run(t, func(f *endpoints.Finished) { f.Status, f.Verdict = "skipped", endpoints.Neutral })
	_, err := b.RunNow(t.Context(), actor, b.id, endpoints.OneOffRequest{})
	require.NoError(t, err)
	b.run(t, nil)
	require.Equal(t, 1, b.endpoint().State.RunsDone)
	b.run(t, nil)
	require.Equal(t, 2, b.endpoint().State.RunsDone)
	b.run(t, func(f *endpoints.Finished) { f.Status, f.Verdict = "failed", endpoints.Failure })
	ended(t, b)
}

// TestAHigherMaxRunsResumesTheSchedule edits the limit up, down and away.
func TestAHigherMaxRunsResumesTheSchedule(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) { s.BaselineInterval, s.MaxRuns = time.Minute, 1 })
	limit := func(n int) {
		_, _, err := b.Edit(t.Context(), actor, b.id, 0, func(s endpoints.Spec) (endpoints.Spec, error) {
			s.MaxRuns = n
			return s, nil
		})
		require.NoError(t, err)
	}
	b.run(t, nil)
	ended(t, b)
	b.pass(time.Hour)
	limit(3)
	require.Empty(t, b.endpoint().Unrecorded, "the schedule was over in that hour")
	require.False(t, b.endpoint().State.Due.At.After(b.memory.now), "due again")
	b.run(t, nil)
	limit(2)
	ended(t, b)
	limit(0)
	require.Zero(t, b.endpoint().State.RunsDone)
	require.True(t, b.endpoint().State.Due.At.Before(governor.Indefinite))
}

func TestPreviewStopsAtTheLastRun(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) { s.BaselineInterval, s.MaxRuns = time.Minute, 3 })
	list, err := b.Preview(t.Context(), actor, b.id, 10)
	require.NoError(t, err)
	require.Len(t, list, 3)
	require.Zero(t, b.endpoint().State.RunsDone)
}
