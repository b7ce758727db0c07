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
	"rubato/internal/waittest"
)

// TestAStartIsAHotUpdate starts a batch: every update stays on the page of its claim and adds no
// index entry.
func TestAStartIsAHotUpdate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, table := range []string{"schedules", "endpoints"} { // An analysis of any table keeps the vacuum below from removing rows.
		b.Exec(t, "ALTER TABLE "+table+" SET (autovacuum_enabled = off)")
	}
	const batch = 200
	b.Fill(t, 2*batch, storetest.Noon().Add(-time.Hour))
	b.Exec(t, "DELETE FROM schedules WHERE mod((ctid::text::point)[1]::int, 2) = 0") // Room on every page, as runs that do not come all at once leave it.
	b.Exec(t, "VACUUM schedules")
	b.At(storetest.Noon())
	list := b.ClaimUpTo(t, storetest.Worker{1}, batch, 0)
	require.Len(t, list, batch)
	counters := func() (updates, hot int64) {
		b.Exec(t, "SELECT pg_stat_force_next_flush()")
		return storetest.Query[int64](t, b.Bundle, "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'schedules'"),
			storetest.Query[int64](t, b.Bundle, "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'schedules'")
	}
	settled := func(want int64) (updates, hot int64) {
		waittest.Until(t, func() bool { updates, hot = counters(); return updates >= want })
		return updates, hot
	}
	before, hotBefore := settled(batch)

	require.Len(t, b.Start(t, storetest.Worker{1}, list...), batch)

	after, hotAfter := settled(before + batch)
	require.EqualValues(t, batch, after-before)
	require.EqualValues(t, batch, hotAfter-hotBefore, "a start that is not HOT writes three index entries")
}

// TestALateStartExtendsItsLock starts claims one and three seconds after their due time. A lock
// outlives its run by 3 s at least.
func TestALateStartExtendsItsLock(t *testing.T) {
	t.Parallel()
	for late, want := range map[time.Duration]time.Duration{time.Second: 14 * time.Second, 3 * time.Second: 15 * time.Second} {
		b := setup(t)
		now := b.At(storetest.Noon())
		b.Register(t, func(s *endpoints.Spec) { s.StartAt, s.MaxExecutionTime = now, 10*time.Second })
		c := b.ClaimOne(t, storetest.Worker{1})
		require.Equal(t, now.Add(15*time.Second), c.LockedUntil.UTC())
		at := b.At(now.Add(late))
		starts := storetest.StartsOf([]claims.Claim{c})
		starts[0].Execution = 10 * time.Second
		started, err := b.Executions.Start(t.Context(), dispatch.Starting{Worker: storetest.Worker{1}, List: starts, LockTTL: time.Minute})
		require.NoError(t, err)
		require.Len(t, started, 1)
		require.Equal(t, at.Add(want), started[0].LockedUntil.UTC(), "started %s late", late)
	}
}

// TestAFinishHoldsByItsBasisUntilTheRowIsChanged makes every change that there is during a run. The
// finish notices each by compare-and-set, and the locked finish after it takes the change in.
func TestAFinishHoldsByItsBasisUntilTheRowIsChanged(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		meanwhile func(t *testing.T, b *bundle, c claims.Claim, s dispatch.Started)
		holds     bool
		want      func(t *testing.T, b *bundle, id endpoints.ID)
	}{
		"Nothing": {func(*testing.T, *bundle, claims.Claim, dispatch.Started) {}, true, nil},
		"Hint": {
			func(t *testing.T, b *bundle, c claims.Claim, _ dispatch.Started) {
				t.Helper()
				_, _, err := b.Service.SetIntervalHint(t.Context(), storetest.Tenant, c.EndpointID, endpoints.HintRequest{Interval: 5 * time.Second, TTL: new(time.Hour)})
				require.NoError(t, err)
			}, false,
			func(t *testing.T, b *bundle, id endpoints.ID) {
				t.Helper()
				require.EqualValues(t, "ai-interval", b.Get(t, id).State.Due.Source)
			},
		},
		"Pause": {
			func(t *testing.T, b *bundle, c claims.Claim, _ dispatch.Started) {
				t.Helper()
				_, err := b.Service.Pause(t.Context(), storetest.Tenant, c.EndpointID, endpoints.PauseRequest{})
				require.NoError(t, err)
			}, false,
			func(t *testing.T, b *bundle, id endpoints.ID) {
				t.Helper()
				require.EqualValues(t, "paused", b.Get(t, id).State.Due.Source)
			},
		},
		"Edit": {
			func(t *testing.T, b *bundle, c claims.Claim, _ dispatch.Started) {
				t.Helper()
				b.Edit(t, c.EndpointID, func(s *endpoints.Spec) { s.BaselineInterval = time.Hour })
			}, false,
			func(t *testing.T, b *bundle, id endpoints.ID) {
				t.Helper()
				due := b.Get(t, id).State.Due
				require.Greater(t, due.At.Sub(b.Get(t, id).State.LastSlot), 59*time.Minute)
			},
		},
		"Heartbeat": {
			func(t *testing.T, b *bundle, c claims.Claim, s dispatch.Started) {
				t.Helper()
				kept, _, err := b.Claims.ExtendLocks(t.Context(), storetest.Worker{1}, []claims.FencedRun{{EndpointID: c.EndpointID, RunID: s.RunID, Token: c.Token}}, time.Minute)
				require.NoError(t, err)
				require.Len(t, kept, 1)
			}, false, nil,
		},
		"Archive": {
			func(t *testing.T, b *bundle, c claims.Claim, _ dispatch.Started) {
				t.Helper()
				require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, c.EndpointID, 0))
				require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM live_runs"), "the run goes on")
			}, false,
			func(t *testing.T, b *bundle, _ endpoints.ID) {
				t.Helper()
				require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules"), "and takes the row with it")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Register(t, nil)
			c, s := b.StartOne(t, storetest.Worker{1})
			tc.meanwhile(t, b, c, s)
			f := b.FinishOf(t, storetest.Worker{1}, 0, storetest.Succeed(storetest.Worker{1}, c, s))
			_, holds, err := b.Executions.FinishByBasis(t.Context(), f)
			require.NoError(t, err)
			require.Equal(t, tc.holds, holds)
			if !holds {
				require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM runs"), "nothing is written")
				done, err := b.Executions.Finish(t.Context(), f)
				require.NoError(t, err)
				require.Empty(t, done.Late)
			}
			require.Equal(t, runs.Succeeded, b.Run(t, s.RunID).Outcome.Status)
			require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM live_runs"))
			if tc.want != nil {
				tc.want(t, b, c.EndpointID)
			}
		})
	}
}

// TestAConflictOfOneRunRollsBackItsBatch pauses one of three endpoints during their runs.
func TestAConflictOfOneRunRollsBackItsBatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	for range 3 {
		b.Register(t, func(s *endpoints.Spec) { s.StartAt = now })
	}
	me := storetest.Worker{1}
	list := b.Claim(t, me, 0)
	require.Len(t, list, 3)
	started := map[[16]byte]dispatch.Started{}
	for _, s := range b.Start(t, me, list...) {
		started[s.EndpointID] = s
	}
	finished := make([]runs.Run, len(list))
	for i, c := range list {
		finished[i] = storetest.Succeed(me, c, started[c.EndpointID])
	}
	b.At(now.Add(time.Second))
	_, err := b.Service.Pause(t.Context(), storetest.Tenant, list[1].EndpointID, endpoints.PauseRequest{})
	require.NoError(t, err)

	_, holds, err := b.Executions.FinishByBasis(t.Context(), b.FinishOf(t, me, 0, finished...))
	require.NoError(t, err)
	require.False(t, holds)
	require.Equal(t, 3, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM live_runs"))
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM runs"))

	done, err := b.Executions.Finish(t.Context(), b.FinishOf(t, me, 0, finished...))
	require.NoError(t, err)
	require.Len(t, done.Decided, 3)
	require.Equal(t, 3, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM runs WHERE status = 'succeeded'"))
	require.EqualValues(t, "paused", b.Get(t, list[1].EndpointID).State.Due.Source)
}

// TestAFinishByBasisEqualsTheLockedOne finishes two endpoints that are alike, one each way.
func TestAFinishByBasisEqualsTheLockedOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	for range 2 {
		b.Register(t, func(s *endpoints.Spec) { s.StartAt = now })
	}
	list := b.Claim(t, storetest.Worker{1}, 0)
	require.Len(t, list, 2)
	started := b.Start(t, storetest.Worker{1}, list...)
	b.At(now.Add(1500 * time.Microsecond))
	for i, locked := range []bool{false, true} {
		var s dispatch.Started
		for _, one := range started {
			if one.EndpointID == list[i].EndpointID {
				s = one
			}
		}
		f := b.FinishOf(t, storetest.Worker{1}, storetest.Horizon, storetest.Fail(storetest.Worker{1}, list[i], s))
		if locked {
			f.Bases = nil
		}
		done, err := b.Executions.Finish(t.Context(), f)
		require.NoError(t, err)
		require.Len(t, done.Decided, 1)
	}
	const distinct = `SELECT count(*) FROM (SELECT DISTINCT due_at, planned_at, slot, claim_token, claimed_by, version, attempt, source, anchor, failure_count,
		retry_after, last_slot, last_run_slot, last_attempt, last_status, last_started_at, last_finished_at, accounted_until, run_id, revision FROM schedules) d`
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, distinct))
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM (SELECT DISTINCT claimed_at, started_at, finished_at, next_run_at, next_source, next_steps, failure_count FROM runs) d"))
}

// TestAnArchivedRunIsSettledToo kills the worker of a run after its endpoint was archived.
func TestAnArchivedRunIsSettledToo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.StartAt = now })
	_, s := b.StartOne(t, storetest.Worker{1})
	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, e.ID, 0))
	b.At(s.LockedUntil.Add(time.Minute))
	require.Empty(t, b.Claim(t, storetest.Worker{2}, time.Hour))
	b.SettleLost(t, 1)
	require.Equal(t, runs.Lost, b.Run(t, s.RunID).Outcome.Status)
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules"))
}
