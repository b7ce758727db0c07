package items_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/store/storetest"
)

// TestDetachedResultsLoseNoDueTime has two runs in flight when the overlap is changed to skip:
// one detached, and one that holds the row of the endpoint. The due times that pass have no run.
func TestDetachedResultsLoseNoDueTime(t *testing.T) {
	t.Parallel()
	for name, together := range map[string]bool{"OneAfterTheOther": false, "InOneBatch": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, me := setup(t), storetest.Worker{1}
			now := b.At(storetest.Noon())
			e := b.overlapping(t, nil)
			first := b.detach(t, me)
			now = b.At(now.Add(time.Minute))
			c, s := b.StartOne(t, me)
			second := storetest.Succeed(me, c, s)
			b.Edit(t, e.ID, func(s *endpoints.Spec) { s.Overlap = governor.OverlapSkip })

			now = b.At(now.Add(3*time.Minute + 30*time.Second))
			first.FinishedAt = now
			list := []runs.Run{first}
			if !together {
				b.Finish(t, me, 0, first)
				now, list = b.At(now.Add(2*time.Minute)), nil
			}
			second.FinishedAt = now
			b.Finish(t, me, 0, append(list, second)...)

			var passed int64
			for _, record := range b.Skips(t, e.ID) {
				passed += record.Skipped.Count
			}
			require.EqualValues(t, now.Sub(second.ScheduledFor)/time.Minute, passed, "every due time has a run or is on record")
		})
	}
}

// TestADetachedRunStopsItsEndpoint ends a run with an answer that asks for no further request.
func TestADetachedRunStopsItsEndpoint(t *testing.T) {
	t.Parallel()
	gone := runs.Outcome{
		Status:     runs.Failed,
		Reason:     runs.HTTPStatus,
		StatusCode: 503,
		Stop:       "the target moved",
	}
	stopped := func(t *testing.T, b *bundle, id endpoints.ID) {
		t.Helper()
		state := b.Get(t, id).State
		require.Equal(t, governor.Indefinite, state.PausedUntil.UTC())
		require.Equal(t, gone.Stop, state.PauseReason)
		require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM audit_log WHERE action = 'stop'"), "once")
	}
	t.Run("BesideAOneOffRun", func(t *testing.T) {
		t.Parallel()
		b, me := setup(t), storetest.Worker{1}
		e, first, oneOff := b.besideOneOff(t, me)
		first.Outcome = gone
		b.Finish(t, me, 0, first)
		stopped(t, b, e.ID)
		b.Finish(t, me, 0, oneOff)
		stopped(t, b, e.ID)
		require.Equal(t, governor.SourcePaused, b.Get(t, e.ID).State.Due.Source)
	})
	for name, both := range map[string]bool{"InOneBatch": false, "TwiceInOneBatch": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, me := setup(t), storetest.Worker{1}
			e, first, oneOff := b.besideOneOff(t, me)
			first.Outcome = gone
			if both {
				oneOff.Outcome = gone
			}
			require.Empty(t, b.Finish(t, me, time.Hour, oneOff, first).Kept)
			stopped(t, b, e.ID)
			require.Equal(t, governor.SourcePaused, b.Get(t, e.ID).State.Due.Source)
		})
	}
	t.Run("WithAttemptsLeft", func(t *testing.T) {
		t.Parallel()
		b, me := setup(t), storetest.Worker{1}
		now := b.At(storetest.Noon())
		e := b.overlapping(t, func(s *endpoints.Spec) { s.Retry.MaxAttempts, s.DeadLetter = 3, true })
		run := b.detach(t, me)
		run.Outcome, run.FinishedAt = gone, now
		b.Finish(t, me, 0, run)
		stopped(t, b, e.ID)
		require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules"), "no attempt waits")
		require.Equal(t, 1, b.Get(t, e.ID).State.FailureCount)
		require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM dead_letters"))
	})
}

// TestADetachedRunMakesItsEndpointWait ends an attempt with a long Retry-After. The wait holds for
// the next attempt and for the due times of the endpoint, and it is capped like any other.
func TestADetachedRunMakesItsEndpointWait(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	now := b.At(storetest.Noon())
	e := b.overlapping(t, func(s *endpoints.Spec) { s.Retry.MaxAttempts = 2 })
	run := b.detach(t, me)
	run.FinishedAt = now
	run.Outcome = runs.Outcome{
		Status:     runs.Failed,
		Reason:     runs.HTTPStatus,
		StatusCode: 503,
		RetryAfter: now.Add(300 * 24 * time.Hour),
	}
	b.Finish(t, me, 0, run)

	until := now.Add(time.Hour)
	require.Equal(t, until, storetest.Query[time.Time](t, b.Bundle, "SELECT planned_at FROM schedules WHERE owner_id IS NOT NULL AND attempt = 2").UTC())
	state := b.Get(t, e.ID).State
	require.Equal(t, until, state.Due.At)
	require.Equal(t, until, state.RetryAfter)
	require.Equal(t, runs.Failed, runs.Status(state.LastRun.Status))
	require.Zero(t, state.FailureCount, "a due time has failed when its last attempt has")
}
