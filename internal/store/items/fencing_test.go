package items_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/store/storetest"
)

// TestAStaleTokenChangesNothing lets a worker fall behind at each step of a run while a second one
// takes over. Later statements of the first have no effect.
func TestAStaleTokenChangesNothing(t *testing.T) {
	t.Parallel()
	first, second := storetest.Worker{1}, storetest.Worker{2}

	t.Run("StartsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Register(t, nil)
		stale := b.ClaimOne(t, first)
		b.At(stale.LockedUntil.Add(time.Millisecond))
		fresh := b.ClaimOne(t, second)
		require.Greater(t, fresh.Token, stale.Token)

		require.Empty(t, b.Start(t, first, stale))
		require.Len(t, b.Start(t, second, fresh), 1)
		require.Empty(t, b.Start(t, second, fresh), "a claim starts one run")
	})
	// The database stalled between the call and its execution.
	t.Run("StartsNothingTooLate", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Register(t, nil)
		c := b.ClaimOne(t, first)
		sent := dispatch.Starting{Worker: first, List: storetest.StartsOf([]claims.Claim{c}), LockTTL: time.Minute, Until: c.PlannedAt.Add(time.Second)}
		b.At(sent.Until.Add(time.Microsecond))
		started, err := b.Executions.Start(t.Context(), sent)
		require.NoError(t, err)
		require.Empty(t, started)
		require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM live_runs"))
		b.At(sent.Until)
		started, err = b.Executions.Start(t.Context(), sent)
		require.NoError(t, err)
		require.Len(t, started, 1)
	})
	t.Run("StartsNothingUnderAnothersName", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Register(t, nil)
		c := b.ClaimOne(t, first)
		require.Empty(t, b.Start(t, second, c))
		require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM live_runs"))
	})
	t.Run("StartsNothingAfterItsLockIsOver", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Register(t, nil)
		c := b.ClaimOne(t, first)
		b.At(c.LockedUntil)
		require.Empty(t, b.Start(t, first, c))
	})
	t.Run("ReleasesNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Register(t, nil)
		stale := b.ClaimOne(t, first)
		b.At(stale.LockedUntil.Add(time.Millisecond))
		b.ClaimOne(t, second)

		n, err := b.Claims.Release(t.Context(), first, []claims.Claim{stale})
		require.NoError(t, err)
		require.Zero(t, n)
		require.Empty(t, b.Claim(t, storetest.Worker{3}, storetest.Horizon), "the second worker still holds it")
	})
	t.Run("ReleasesNothingOfItsOwnLaterClaim", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Register(t, nil)
		stale := b.ClaimOne(t, first)
		b.At(stale.LockedUntil.Add(time.Millisecond))
		b.ClaimOne(t, first)
		n, err := b.Claims.Release(t.Context(), first, []claims.Claim{stale})
		require.NoError(t, err)
		require.Zero(t, n)
		require.Empty(t, b.Claim(t, second, storetest.Horizon))
	})
	t.Run("ReleasesNoStartedRun", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Register(t, nil)
		c, _ := b.StartOne(t, first)
		n, err := b.Claims.Release(t.Context(), first, []claims.Claim{c})
		require.NoError(t, err)
		require.Zero(t, n)
		require.Empty(t, b.Claim(t, second, storetest.Horizon))
	})
}

// TestALateAnswerIsAnEventAndNothingElse settles a run as lost, lets the endpoint run again, and
// then hears from the first worker.
func TestALateAnswerIsAnEventAndNothingElse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	b.At(storetest.Noon())
	first, second := storetest.Worker{1}, storetest.Worker{2}
	c, s := b.StartOne(t, first)
	b.At(s.LockedUntil.Add(5*time.Second + time.Millisecond))
	b.SettleLost(t, 1)
	require.Equal(t, runs.Lost, b.Run(t, s.RunID).Outcome.Status)
	b.At(b.Get(t, e.ID).State.Due.At)
	c2, s2 := b.StartOne(t, second)
	before := b.Get(t, e.ID)

	done := b.Finish(t, first, storetest.Horizon, storetest.Succeed(first, c, s))
	require.Equal(t, []runs.ID{s.RunID}, done.Late)
	require.Empty(t, done.Kept)
	require.Empty(t, done.Decided)
	require.Equal(t, runs.Lost, b.Run(t, s.RunID).Outcome.Status, "the history does not change")
	require.Equal(t, before.State, b.Get(t, e.ID).State)
	require.Equal(t, "succeeded", storetest.Query[string](t, b.Bundle, "SELECT detail->>'status' FROM run_events WHERE run_id = $1 AND kind = 'late_result'",
		[16]byte(s.RunID)))

	late := storetest.Succeed(second, c2, s2)
	late.ClaimToken--
	require.Len(t, b.Finish(t, second, 0, late).Late, 1, "the right run under a wrong token is late as well")
	require.Empty(t, b.Finish(t, second, 0, storetest.Succeed(second, c2, s2)).Late)
}

func TestAFinishTwiceIsRecordedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	me := storetest.Worker{1}
	run := b.RunOne(t, me)
	again := b.Finish(t, me, 0, run)
	require.Empty(t, again.Late, "what a worker has recorded itself is not late")
	require.Equal(t, []runs.ID{run.ID}, again.Repeated)
	require.Len(t, again.Decided, 1)
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM run_events"))
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM runs"))
}

func TestAHeartbeatExtendsOnlyLocksThatAreHeldAndNotOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	me, other := storetest.Worker{1}, storetest.Worker{2}
	start := b.At(storetest.Noon())
	b.Register(t, nil)
	c, s := b.StartOne(t, me)
	require.Equal(t, start.Add(time.Minute), s.LockedUntil.UTC())
	held := []claims.FencedRun{{EndpointID: c.EndpointID, RunID: s.RunID, Token: c.Token}}
	extend := func(by storetest.Worker, held []claims.FencedRun, ttl time.Duration) (kept, over [][16]byte) {
		kept, over, err := b.Claims.ExtendLocks(t.Context(), by, held, ttl)
		require.NoError(t, err)
		return kept, over
	}
	foreign := func(by storetest.Worker, held []claims.FencedRun) {
		kept, over := extend(by, held, time.Minute)
		require.Empty(t, kept)
		require.Empty(t, over)
	}
	lockedUntil := func() time.Time {
		return storetest.Query[time.Time](t, b.Bundle, "SELECT locked_until FROM live_runs WHERE run_id = $1", [16]byte(s.RunID)).UTC()
	}

	foreign(other, held)
	foreign(me, []claims.FencedRun{{EndpointID: c.EndpointID, RunID: s.RunID, Token: c.Token - 1}})
	require.Equal(t, start.Add(time.Minute), lockedUntil())

	b.At(start.Add(20 * time.Second))
	kept, over := extend(me, held, 30*time.Second)
	require.Equal(t, [][16]byte{s.RunID}, kept)
	require.Empty(t, over)
	require.Equal(t, start.Add(50*time.Second), lockedUntil())
	kept, _ = extend(me, held, time.Hour)
	require.Len(t, kept, 1)
	require.Equal(t, start.Add(65*time.Second), lockedUntil(), "no lock outlives its deadline by more than the slack")

	b.At(start.Add(65 * time.Second))
	kept, over = extend(me, held, time.Minute)
	require.Empty(t, kept, "a lock that is over is not revived")
	require.Equal(t, [][16]byte{s.RunID}, over, "and its holder learns that nobody else has its run")
	require.Equal(t, start.Add(65*time.Second), lockedUntil())
	foreign(other, held)
	foreign(me, []claims.FencedRun{{EndpointID: c.EndpointID, RunID: s.RunID, Token: c.Token - 1}})
}

// TestOneEndpointHasOneLiveRun starts one endpoint from many sides at once.
func TestOneEndpointHasOneLiveRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	me := storetest.Worker{1}
	c := b.ClaimOne(t, me)
	started := make(chan int)
	const tries = 8
	for range tries {
		go func() {
			list, err := b.Executions.Start(t.Context(), dispatch.Starting{Worker: me, List: storetest.StartsOf([]claims.Claim{c}), LockTTL: time.Minute})
			if err != nil {
				t.Error(err)
			}
			started <- len(list)
		}()
	}
	total := 0
	for range tries {
		total += <-started
	}
	require.Equal(t, 1, total)
}

func TestTokensOnlyGrow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	now := b.At(storetest.Noon())
	me := storetest.Worker{1}
	last := int64(0)
	grown := func(step string) {
		token := storetest.Query[int64](t, b.Bundle, "SELECT claim_token FROM schedules WHERE endpoint_id = $1", [16]byte(e.ID))
		require.Greater(t, token, last, step)
		last = token
	}
	c, s := b.StartOne(t, me)
	grown("claim")
	b.Finish(t, me, 0, storetest.Succeed(me, c, s))
	grown("finish")
	_, err := b.Service.Pause(t.Context(), storetest.Tenant, e.ID, endpoints.PauseRequest{Until: now.Add(time.Hour)})
	require.NoError(t, err)
	grown("pause")
	_, err = b.Service.Resume(t.Context(), storetest.Tenant, e.ID)
	require.NoError(t, err)
	grown("resume")
	_, _, err = b.Service.Edit(t.Context(), storetest.Tenant, e.ID, 0, func(s endpoints.Spec) (endpoints.Spec, error) {
		s.Name = "other"
		return s, nil
	})
	require.NoError(t, err)
	grown("edit")
	b.At(now.Add(2 * time.Minute))
	c = b.ClaimOne(t, me)
	grown("another claim")
	_, err = b.Claims.Release(t.Context(), me, []claims.Claim{c})
	require.NoError(t, err)
	grown("release")
	b.ClaimOne(t, me)
	grown("claim after a release")
}
