package endpoints_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
)

// queue sets the overlap policy of an endpoint to queue.
func queue(edit func(*endpoints.Spec)) func(*endpoints.Spec) {
	return func(s *endpoints.Spec) {
		edit(s)
		s.Overlap = governor.OverlapQueue
	}
}

// requirePlan checks the send time and the due time of the planned run, counted from the start.
func (s *story) requirePlan(t *testing.T, at, slot time.Duration) {
	t.Helper()
	due := s.endpoint().State.Due
	require.Equal(t, []string{at.String(), slot.String()}, []string{due.At.Sub(start).String(), due.Slot.Sub(start).String()})
}

// TestQueueKeepsDueTimesUnderARun lists the recorded skips and the plans of an endpoint with
// overlap queue.
func TestQueueKeepsDueTimesUnderARun(t *testing.T) {
	t.Parallel()
	requireWorked(t, map[string]worked{
		"Interval": {queue(interval(minute)), func(t *testing.T, s *story) {
			s.execute(t, 0, 190*time.Second, nil)
			s.requirePlan(t, 190*time.Second, minute)
			s.execute(t, 190*time.Second, 200*time.Second, nil)
			s.requirePlan(t, 200*time.Second, 2*minute)
			s.execute(t, 200*time.Second, 210*time.Second, nil)
			s.requirePlan(t, 210*time.Second, 3*minute)
			s.execute(t, 210*time.Second, 220*time.Second, nil)
			s.requirePlan(t, 4*minute, 4*minute)
		}, nil},
		"Cron": {queue(cron("*/5 * * * *", governor.CatchUpSkip)), func(t *testing.T, s *story) {
			s.execute(t, 5*minute, 17*minute, nil)
			s.requirePlan(t, 17*minute, 10*minute)
			s.execute(t, 17*minute, 21*minute, nil) // 20 joins the queue.
			s.execute(t, 21*minute, 22*minute, nil)
			s.requirePlan(t, 22*minute, 20*minute)
			s.execute(t, 22*minute, 23*minute, nil)
			s.requirePlan(t, 25*minute, 25*minute)
		}, nil},
		"LateStartWithoutAQueue": {queue(interval(minute)), func(t *testing.T, s *story) {
			s.execute(t, 150*time.Second, 220*time.Second, nil) // Due since 0: 1 and 2 passed without a run, 3m30s under it.
			s.requirePlan(t, 220*time.Second, 210*time.Second)
		}, []string{"1m0s to 2m0s: 2 misfire_skipped"}},
		"LateStartInTheQueue": {queue(interval(minute)), func(t *testing.T, s *story) {
			s.execute(t, 0, 130*time.Second, nil)
			s.execute(t, 200*time.Second, 210*time.Second, nil) // For minute 1; 3 passed before its start and joins.
			s.execute(t, 210*time.Second, 215*time.Second, nil)
			s.requirePlan(t, 215*time.Second, 3*minute)
		}, nil},
		"BeyondItsBounds": {queue(interval(time.Second)), func(t *testing.T, s *story) {
			s.execute(t, 0, 5*minute+500*time.Millisecond, nil)
			s.requirePlan(t, 5*minute+500*time.Millisecond, 201*time.Second)
			s.execute(t, 5*minute+500*time.Millisecond, 303*time.Second, nil) // Three more push three out.
			s.requirePlan(t, 303*time.Second, 204*time.Second)
		}, []string{"1s to 3m20s: 200 overlap_skipped", "3m22s to 3m23s: 2 overlap_skipped"}},
		"OneOffRunGoesFirst": {queue(interval(minute)), func(t *testing.T, s *story) {
			s.live(0)
			s.ask(t, 90*time.Second)
			s.execute(t, 0, 130*time.Second, nil)
			s.requirePlan(t, 90*time.Second, 90*time.Second)
			s.execute(t, 130*time.Second, 190*time.Second, nil)
			s.requirePlan(t, 190*time.Second, minute)
			s.execute(t, 190*time.Second, 191*time.Second, nil)
			s.execute(t, 191*time.Second, 192*time.Second, nil)
			s.execute(t, 192*time.Second, 193*time.Second, nil)
			s.requirePlan(t, 4*minute, 4*minute)
		}, nil},
		"ChangesWhileItIsLive": {queue(interval(minute)), func(t *testing.T, s *story) {
			s.live(0)
			s.reset(t, 130*time.Second)
			s.execute(t, 0, 190*time.Second, nil)
			s.requirePlan(t, 190*time.Second, minute)
			s.reset(t, 195*time.Second) // Nor does a change while it waits.
			s.requirePlan(t, 195*time.Second, minute)
		}, nil},
		"PauseEndsTheQueue": {queue(interval(minute)), func(t *testing.T, s *story) {
			s.execute(t, 0, 190*time.Second, nil)
			s.pause(t, 200*time.Second, 0)
			s.resume(t, 210*time.Second)
			s.requirePlan(t, 210*time.Second, 210*time.Second)
		}, []string{"1m0s to 3m0s: 3 overlap_skipped"}},
		"PauseDuringTheRun": {queue(interval(minute)), func(t *testing.T, s *story) {
			s.live(0)
			s.pause(t, 70*time.Second, 0)
			s.execute(t, 0, 130*time.Second, nil)
		}, []string{"1m0s to 2m0s: 2 overlap_skipped"}},
		"ArchivedDuringTheRun": {queue(interval(minute)), func(t *testing.T, s *story) {
			s.live(0)
			s.at(130 * time.Second)
			require.NoError(t, s.Archive(t.Context(), actor, s.id, 0))
			s.note()
		}, []string{"1m0s to 2m0s: 2 overlap_skipped"}},
		"AnotherIntervalDuringTheRun": {queue(interval(minute)), func(t *testing.T, s *story) {
			s.live(0)
			s.at(130 * time.Second)
			_, _, err := s.Edit(t.Context(), actor, s.id, 0, func(e endpoints.Spec) (endpoints.Spec, error) {
				e.BaselineInterval = 50 * time.Second
				return e, nil
			})
			require.NoError(t, err)
			s.note()
			s.execute(t, 0, 160*time.Second, nil)
			s.requirePlan(t, 160*time.Second, 150*time.Second)
		}, []string{"1m0s to 2m0s: 2 overlap_skipped"}},
	})
}

// TestQueueComesBeforeAnotherAttempt: a queued due time does not wait for a retry, because retries
// only fill the time up to the next due time.
func TestQueueComesBeforeAnotherAttempt(t *testing.T) {
	t.Parallel()
	s := &story{bundle: setup(t, queue(func(s *endpoints.Spec) { s.BaselineInterval, s.Retry.MaxAttempts = minute, 3 }))}

	s.execute(t, 0, 130*time.Second, failed)

	s.requirePlan(t, 130*time.Second, 2*minute) // The backoff doubles the grid.
	require.Equal(t, 1, s.endpoint().State.Due.Attempt)
	require.Empty(t, s.skips)
}

// TestPreviewFollowsTheQueue previews an endpoint with a live run that has overrun.
func TestPreviewFollowsTheQueue(t *testing.T) {
	t.Parallel()
	s := &story{bundle: setup(t, queue(interval(minute)))}
	s.live(0)
	s.at(130 * time.Second)

	planned, err := s.Preview(t.Context(), actor, s.id, 4)

	require.NoError(t, err)
	var at []time.Duration
	for _, p := range planned {
		at = append(at, p.At.Sub(start))
	}
	require.Equal(t, []time.Duration{130 * time.Second, 130 * time.Second, 3 * minute, 4 * minute}, at)
}
