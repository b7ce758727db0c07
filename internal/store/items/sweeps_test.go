package items_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/storetest"
	"rubato/internal/waittest"
	"rubato/internal/zombie"
)

// silent is the filter of a take-over for workers that have been silent for 6 s.
var silent = zombie.TakeOverFilter{For: 6 * time.Second, Reach: 71 * time.Second}

// live returns the one live run.
func (b *bundle) live(t *testing.T) runs.Run {
	t.Helper()
	list, err := b.Runs.List(t.Context(), runs.Filter{TenantID: storetest.Tenant.TenantID, Statuses: []runs.Status{runs.Running}, Limit: 2})
	require.NoError(t, err)
	require.Len(t, list, 1)
	list[0].Outcome = runs.Outcome{Status: runs.Lost, Reason: runs.WorkerLost, MaybeSent: true, Error: "lost"}
	return list[0]
}

// TestALiveRunIsLostOnlyOnAPositiveSignal is the rule of doing no harm, signal by signal. The run
// has an hour; its lock ends after a minute.
func TestALiveRunIsLostOnlyOnAPositiveSignal(t *testing.T) {
	t.Parallel()
	trusting := zombie.Signal{StaleAfter: 90 * time.Second, TrustSilence: true}
	valved := zombie.Signal{StaleAfter: 90 * time.Second, Valve: 5 * time.Minute}
	stepped := zombie.Signal{StaleAfter: 90 * time.Second, ClockStepped: true}
	lockOver := time.Minute + time.Millisecond
	for _, tc := range []struct {
		name     string
		age      time.Duration  // of the run
		state    dispatch.State // of its worker; empty: it has no row
		silence  time.Duration  // of its worker
		takeOver bool           // its claims were taken over before
		signal   zombie.Signal
		lost     bool
	}{
		{name: "LockHeldByASilentWorker", age: 59 * time.Second, state: "active", silence: 59 * time.Second, signal: trusting},
		{name: "LockHeldByADepartedWorker", age: time.Minute, state: "inactive", silence: time.Minute, signal: trusting},
		{name: "LockOverButWorkerAlive", age: lockOver, state: "active", silence: time.Second, signal: trusting},
		{name: "LockOverAndWorkerSilentForNearlyLongEnough", age: 10 * time.Minute, state: "active", silence: 90 * time.Second, signal: trusting},
		{name: "LockOverAndWorkerSilent", age: 10 * time.Minute, state: "active", silence: 90*time.Second + time.Millisecond, signal: trusting, lost: true},
		{name: "SilenceIsNotBelieved", age: 10 * time.Minute, state: "active", silence: 10 * time.Minute, signal: storetest.SilenceDistrusted},
		{name: "SilenceIsNotBelievedBecauseClaimsWereTakenOver", age: 10 * time.Minute, state: "active", silence: 10 * time.Minute, takeOver: true, signal: storetest.SilenceDistrusted},
		{name: "ShortSilenceIsNoneBecauseClaimsWereTakenOver", age: 10 * time.Minute, state: "active", silence: 20 * time.Second, takeOver: true, signal: trusting},
		{name: "WorkerSaidGoodbye", age: lockOver, state: "inactive", silence: time.Second, signal: storetest.SilenceDistrusted, lost: true},
		{name: "WorkerIsDrainingOnly", age: lockOver, state: "draining", silence: time.Second, signal: trusting},
		{name: "WorkerIsUnknown", age: lockOver, signal: storetest.SilenceDistrusted, lost: true},
		{name: "ValveIsShut", age: 6 * time.Minute, state: "active", silence: 6 * time.Minute, signal: valved},
		{name: "ValveIsOpen", age: 6*time.Minute + time.Millisecond, state: "active", silence: 6 * time.Minute, signal: valved, lost: true},
		{name: "ValveIsOpenButWorkerAlive", age: 50 * time.Minute, state: "active", silence: time.Second, signal: valved},
		{name: "DeadlineOfAWorkerThatBeatsAfterAStep", age: 2 * time.Hour, state: "active", silence: 6 * time.Second, signal: stepped},
		{name: "DeadlineOfASilentWorkerAfterAStep", age: 2 * time.Hour, state: "active", silence: 7 * time.Second, signal: stepped, lost: true},
		{name: "DeadlineOfADepartedWorkerAfterAStep", age: 2 * time.Hour, state: "inactive", silence: time.Second, signal: stepped, lost: true},
		{name: "DeadlinePassedButNotTheSlack", age: time.Hour + 5*time.Second, state: "active", silence: time.Second, signal: storetest.SilenceDistrusted},
		{name: "DeadlineAndSlackPassed", age: time.Hour + 5*time.Second + time.Millisecond, state: "active", silence: time.Second, signal: storetest.SilenceDistrusted, lost: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Register(t, nil)
			started := b.At(storetest.Noon())
			me := storetest.Worker{1}
			starts := storetest.StartsOf(b.Claim(t, me, storetest.Horizon))
			starts[0].Execution = time.Hour
			_, err := b.Executions.Start(t.Context(), dispatch.Starting{Worker: me, List: starts, LockTTL: time.Minute})
			require.NoError(t, err)
			now := b.At(started.Add(tc.age))
			if tc.state != "" {
				b.Beat(t, me, tc.state, now.Add(-tc.silence))
			}
			if tc.takeOver {
				_, err := b.Sweeps.TakeOver(t.Context(), silent)
				require.NoError(t, err)
			}

			list := b.ListLost(t, tc.signal)
			if !tc.lost {
				require.Empty(t, list)
				settled, err := b.Sweeps.Settle(t.Context(), tc.signal, b.live(t))
				require.NoError(t, err)
				require.False(t, settled, "nor is it settled by who listed it before")
				return
			}
			require.Len(t, list, 1)
			settled, err := b.Sweeps.Settle(t.Context(), tc.signal, list[0])
			require.NoError(t, err)
			require.True(t, settled)
		})
	}
}

func TestAHeartbeatBetweenListAndSettleWins(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	now := b.At(storetest.Noon())
	c := b.ClaimOne(t, storetest.Worker{1})
	starts := storetest.StartsOf([]claims.Claim{c})
	starts[0].Execution = time.Hour
	started, err := b.Executions.Start(t.Context(), dispatch.Starting{Worker: storetest.Worker{1}, List: starts, LockTTL: time.Minute})
	require.NoError(t, err)
	require.Len(t, started, 1)
	later := b.At(now.Add(61 * time.Second))
	list := b.ListLost(t, storetest.SilenceDistrusted)
	require.Len(t, list, 1)

	// The heartbeat was executed in time; its commit becomes visible now.
	b.At(now.Add(59 * time.Second))
	kept, _, err := b.Claims.ExtendLocks(t.Context(), storetest.Worker{1}, []claims.FencedRun{{EndpointID: c.EndpointID, RunID: started[0].RunID, Token: c.Token}}, time.Minute)
	require.NoError(t, err)
	require.Len(t, kept, 1)
	b.At(later)
	settled, err := b.Sweeps.Settle(t.Context(), storetest.SilenceDistrusted, list[0])
	require.NoError(t, err)
	require.False(t, settled)
	require.Equal(t, runs.Running, b.Run(t, started[0].RunID).Outcome.Status)
}

func TestAWorkerThatSpeaksUpBetweenListAndSettleWins(t *testing.T) {
	t.Parallel()
	trusting := zombie.Signal{StaleAfter: 90 * time.Second, TrustSilence: true}
	for name, state := range map[string]dispatch.State{"AfterSilence": dispatch.Active, "AfterAGoodbye": dispatch.Inactive} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Register(t, nil)
			now := b.At(storetest.Noon())
			starts := storetest.StartsOf([]claims.Claim{b.ClaimOne(t, storetest.Worker{1})})
			starts[0].Execution = time.Hour
			_, err := b.Executions.Start(t.Context(), dispatch.Starting{Worker: storetest.Worker{1}, List: starts, LockTTL: time.Minute})
			require.NoError(t, err)
			b.Beat(t, storetest.Worker{1}, state, now)
			later := b.At(now.Add(91 * time.Second))
			list := b.ListLost(t, trusting)
			require.Len(t, list, 1)
			b.Beat(t, storetest.Worker{1}, "active", later)
			settled, err := b.Sweeps.Settle(t.Context(), trusting, list[0])
			require.NoError(t, err)
			require.False(t, settled)
		})
	}
}

func TestARunIsSettledOnceHoweverManySweep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	now := b.At(storetest.Noon())
	_, s := b.StartOne(t, storetest.Worker{1})
	b.At(now.Add(66 * time.Second))
	list := b.ListLost(t, storetest.SilenceDistrusted)
	require.Len(t, list, 1)
	const sweepers = 6
	settled := make(chan bool)
	for range sweepers {
		go func() {
			ok, err := b.Sweeps.Settle(t.Context(), storetest.SilenceDistrusted, list[0])
			if err != nil {
				t.Error(err)
			}
			settled <- ok
		}()
	}
	count := 0
	for range sweepers {
		if <-settled {
			count++
		}
	}
	require.Equal(t, 1, count)
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM runs WHERE id = $1", [16]byte(s.RunID)))
}

// TestALostRunIsHistoryAndTheEndpointGoesOn checks the rows of a settlement, for an endpoint with a
// safe method and for one without.
func TestALostRunIsHistoryAndTheEndpointGoesOn(t *testing.T) {
	t.Parallel()
	settle := func(t *testing.T, edit func(*endpoints.Spec)) (*bundle, *endpoints.Endpoint, runs.Run) {
		b := setup(t)
		now := b.At(storetest.Noon())
		e := b.Register(t, edit)
		b.Exec(t, "UPDATE schedules SET failure_count = 2")
		_, s := b.StartOne(t, storetest.Worker{1})
		b.At(now.Add(66 * time.Second))
		b.SettleLost(t, 1)
		return b, b.Get(t, e.ID), b.Run(t, s.RunID)
	}
	t.Run("NoSecondRequestWhereItMightBeOne", func(t *testing.T) {
		t.Parallel()
		_, e, run := settle(t, func(s *endpoints.Spec) { s.Method, s.Retry.MaxAttempts = "POST", 3 })
		require.Equal(t, runs.Lost, run.Outcome.Status)
		require.Equal(t, runs.WorkerLost, run.Outcome.Reason)
		require.Nil(t, e.State.Running)
		require.Equal(t, 2, e.State.FailureCount, "what infrastructure did is not the target's failure")
		require.Equal(t, 1, e.State.Due.Attempt)
		require.True(t, e.State.Due.At.After(run.FinishedAt))
		require.Equal(t, e.State.Due.At, run.Decision.NextRunAt)
	})
	t.Run("AnotherRunWhereTheTargetBearsIt", func(t *testing.T) {
		t.Parallel()
		b, e, run := settle(t, func(s *endpoints.Spec) {
			s.Method, s.Idempotent, s.BaselineInterval = "POST", true, time.Hour
			s.Retry.MaxAttempts = 3
		})
		require.Equal(t, 1, e.State.Due.Attempt, "a loss is no attempt of the policy")
		require.Equal(t, 1, e.State.Due.InfraAttempt)
		require.Equal(t, run.ScheduledFor, e.State.Due.Slot)
		require.Equal(t, 2, e.State.FailureCount)
		b.At(e.State.Due.At)
		c := b.ClaimOne(t, storetest.Worker{2})
		require.NotEqual(t, run.ID, runs.NewID(c.Slot, c.EndpointID, c.Attempt, c.InfraAttempt), "every attempt is a run of its own")
	})
	t.Run("AnArchivedEndpointIsLeftAlone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		now := b.At(storetest.Noon())
		e := b.Register(t, nil)
		_, s := b.StartOne(t, storetest.Worker{1})
		require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, e.ID, 0))
		b.At(now.Add(66 * time.Second))
		b.SettleLost(t, 1)
		require.Equal(t, runs.Lost, b.Run(t, s.RunID).Outcome.Status)
		require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules"))
	})
}

func TestClaimsOfASilentWorkerAreTakenOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	me, other := storetest.Worker{1}, storetest.Worker{2}
	for range 3 {
		b.Register(t, nil)
	}
	list := b.Claim(t, me, storetest.Horizon)
	require.Len(t, list, 3)
	started := b.Start(t, me, list[0])
	require.Len(t, started, 1)
	b.Beat(t, me, "active", now)
	takeOver := func() int {
		n, err := b.Sweeps.TakeOver(t.Context(), silent)
		require.NoError(t, err)
		return n
	}

	b.At(now.Add(6 * time.Second))
	require.Zero(t, takeOver(), "silent for exactly the time is not longer than it")
	require.Empty(t, b.Claim(t, other, storetest.Horizon))
	b.At(now.Add(6*time.Second + time.Millisecond))
	require.Equal(t, 2, takeOver(), "what has started is not taken over")
	require.Zero(t, takeOver(), "once is enough")
	require.Len(t, b.Claim(t, other, storetest.Horizon), 2)
	require.Empty(t, b.Start(t, me, list[1], list[2]), "the silent worker cannot start them any more")
	require.Empty(t, b.Finish(t, me, 0, storetest.Succeed(me, list[0], started[0])).Late, "but it can finish what it has started")

	b.Beat(t, me, "active", now.Add(10*time.Second))
	b.At(now.Add(2 * time.Minute))
	require.Len(t, b.Claim(t, me, storetest.Horizon), 3, "a worker that comes back works again")
	require.Equal(t, "active", storetest.Query[string](t, b.Bundle, "SELECT state FROM workers WHERE id = $1", [16]byte(me)))
	b.At(now.Add(2*time.Minute + 30*time.Second))
	require.Equal(t, 3, takeOver(), "and is watched again")
}

func TestClaimsThatADepartedWorkerLeftAreTakenOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Register(t, nil)
	b.ClaimOne(t, storetest.Worker{1})
	b.Beat(t, storetest.Worker{1}, "inactive", now)
	b.At(now.Add(7 * time.Second))
	n, err := b.Sweeps.TakeOver(t.Context(), silent)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	b.ClaimOne(t, storetest.Worker{2})
}

func TestOneSweeperIsAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	inside := false
	alone, err := b.Sweeps.Lead(t.Context(), func(ctx context.Context) error {
		inside = true
		second, err := b.Sweeps.Lead(ctx, func(context.Context) error {
			t.Error("two sweepers at once")
			return nil
		})
		require.False(t, second)
		return err
	})
	require.NoError(t, err)
	require.True(t, alone)
	require.True(t, inside)
	fault := errors.New("sweep failed")
	_, err = b.Sweeps.Lead(t.Context(), func(context.Context) error { return &errs.Error{Code: errs.Internal, Err: fault} })
	require.ErrorIs(t, err, fault)
	alone, err = b.Sweeps.Lead(t.Context(), func(context.Context) error { return nil })
	require.NoError(t, err)
	require.True(t, alone, "the lock ends with the pass, also with one that failed")
}

// TestSettlementUsesConcurrentChanges pauses an endpoint while its run is live, and then loses the
// run.
func TestSettlementUsesConcurrentChanges(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, nil)
	b.StartOne(t, storetest.Worker{1})
	_, err := b.Service.Pause(t.Context(), storetest.Tenant, e.ID, endpoints.PauseRequest{Until: now.Add(time.Hour), Reason: "maintenance"})
	require.NoError(t, err)
	b.At(now.Add(66 * time.Second))
	b.SettleLost(t, 1)
	after := b.Get(t, e.ID)
	require.Equal(t, now.Add(time.Hour), after.State.Due.At)
	require.Equal(t, governor.SourcePaused, after.State.Due.Source)
}

// TestQuarantinedRunsAreNotListed keeps a row that cannot be mended from those behind it.
func TestQuarantinedRunsAreNotListed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	for range 3 {
		b.Register(t, func(s *endpoints.Spec) { s.StartAt = now })
	}
	started := b.Start(t, storetest.Worker{1}, b.Claim(t, storetest.Worker{1}, storetest.Horizon)...)
	require.Len(t, started, 3)
	b.At(now.Add(2 * time.Minute))
	for _, byDeadline := range []bool{true, false} {
		if !byDeadline {
			b.Exec(t, "UPDATE live_runs SET deadline_at = $1", now.Add(time.Hour))
		}
		list, err := b.Sweeps.ListLost(t.Context(), zombie.Search{
			Signal: storetest.SilenceDistrusted, ByDeadline: byDeadline, Limit: 100, Except: [][16]byte{started[0].RunID, started[2].RunID},
		})
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, started[1].RunID, list[0].Run.ID)
	}
}

func TestLiveCountsIncludeSilentRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	silent, sound, gone := storetest.Worker{1}, storetest.Worker{2}, storetest.Worker{3}
	for _, by := range []storetest.Worker{silent, silent, sound, gone} {
		b.Register(t, func(s *endpoints.Spec) { s.StartAt = now })
		starts := storetest.StartsOf(b.Claim(t, by, storetest.Horizon))
		starts[0].Execution = time.Hour
		started, err := b.Executions.Start(t.Context(), dispatch.Starting{Worker: by, List: starts, LockTTL: time.Minute})
		require.NoError(t, err)
		require.Len(t, started, 1)
	}
	later := b.At(now.Add(10 * time.Minute))
	b.Beat(t, silent, "active", later.Add(-91*time.Second))
	b.Beat(t, sound, "active", later)
	b.Beat(t, gone, "inactive", now)
	survey := func() zombie.LiveCounts {
		s, err := b.Sweeps.CountLive(t.Context(), 90*time.Second)
		require.NoError(t, err)
		return s
	}
	require.Equal(t, zombie.LiveCounts{Live: 4, Silent: 2}, survey())
	b.At(now.Add(time.Hour + 6*time.Second))
	require.Equal(t, zombie.LiveCounts{Live: 4}, survey(), "what is past its deadline needs no silence")
}

func TestASilentWorkerRetiresOnceItsRunsAreSettled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Register(t, func(s *endpoints.Spec) { s.StartAt = now })
	c, s := b.StartOne(t, storetest.Worker{1})
	b.Beat(t, storetest.Worker{1}, "active", now)
	b.Beat(t, storetest.Worker{2}, "draining", now)
	b.Beat(t, storetest.Worker{3}, "active", now.Add(time.Second))
	retire := func() int {
		n, err := b.Sweeps.Retire(t.Context(), 3*time.Minute)
		require.NoError(t, err)
		return n
	}
	b.At(now.Add(3 * time.Minute))
	require.Zero(t, retire())
	b.At(now.Add(3*time.Minute + time.Millisecond))
	require.Equal(t, 1, retire(), "the second; the first has left a run, the third spoke later")
	b.Finish(t, storetest.Worker{1}, 0, storetest.Succeed(storetest.Worker{1}, c, s))
	require.Equal(t, 1, retire())
	require.Equal(t, 2, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM workers WHERE state = 'inactive'"))
	b.Beat(t, storetest.Worker{1}, "active", now.Add(3*time.Minute))
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM workers WHERE state = 'inactive'"), "a worker that comes back is back")
}

// TestASweeperThatStandsStillLosesItsTurn has one take the lock and do nothing more, as a stopped
// process does, and one that sweeps for longer than that.
func TestASweeperThatStandsStillLosesItsTurn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Sweeps.SetStandstill(500 * time.Millisecond)
	sweepers := func() bool {
		alone, err := b.Sweeps.Lead(t.Context(), func(context.Context) error { return nil })
		return err == nil && alone
	}
	stopped, err := b.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = stopped.Rollback(context.WithoutCancel(t.Context())) }()
	alone, err := dbsqlc.New().SweepLock(t.Context(), stopped)
	require.NoError(t, err)
	require.True(t, alone)
	require.False(t, sweepers())
	_, err = stopped.Exec(t.Context(), "SET LOCAL idle_in_transaction_session_timeout = 200")
	require.NoError(t, err)
	waittest.Until(t, sweepers)

	// FailNow in the callback would end only its goroutine, and Lead would wait for ever.
	second := false
	alone, err = b.Sweeps.Lead(t.Context(), func(ctx context.Context) error {
		_, err := b.Pool.Exec(ctx, "SELECT pg_sleep(1)")
		second = sweepers()
		return err
	})
	require.NoError(t, err)
	require.True(t, alone)
	require.False(t, second, "it is at work")
}

// TestLeadingSweeperHoldsNoSnapshot looks at its connection, because a snapshot would keep vacuum
// from removing dead row versions for as long as the sweeper leads.
func TestLeadingSweeperHoldsNoSnapshot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const idle = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"
	var leading, holding int
	alone, err := b.Sweeps.Lead(t.Context(), func(ctx context.Context) error {
		return errors.Join(
			b.Pool.QueryRow(ctx, idle).Scan(&leading),
			b.Pool.QueryRow(ctx, idle+" AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)").Scan(&holding))
	})
	require.NoError(t, err)
	require.True(t, alone)
	require.Equal(t, 1, leading)
	require.Zero(t, holding)
}

// TestASweepEndsWithItsLock cuts the connection that holds the lock while a sweep is under way.
func TestASweepEndsWithItsLock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Sweeps.SetStandstill(200 * time.Millisecond)
	_, err := b.Sweeps.Lead(t.Context(), func(ctx context.Context) error {
		_, err := b.Pool.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks
			WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
		if err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	require.ErrorIs(t, err, context.Canceled)
}
