package endpoints_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
	"rubato/internal/store/storetest"
)

func TestEveryChangeRevokesAWaitingClaim(t *testing.T) {
	t.Parallel()
	for name, change := range storetest.Changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			e := b.Register(t, nil)
			c := b.ClaimOne(t, storetest.Worker{1})
			change(b.Bundle, t, e.ID)
			require.Empty(t, b.Start(t, storetest.Worker{1}, c))
			n, err := b.Claims.Release(t.Context(), storetest.Worker{1}, []claims.Claim{c})
			require.NoError(t, err)
			require.Zero(t, n)
		})
	}
}

// TestAChangeDuringARunOnlyRecordsItself: a change during a live run is stored without a decision.
// The run finishes under its token, and its finish decides by the new state. It makes every change
// once.
func TestAChangeDuringARunOnlyRecordsItself(t *testing.T) {
	t.Parallel()
	for name, change := range storetest.Changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			now := b.At(storetest.Noon())
			e := b.Register(t, nil)
			c, s := b.StartOne(t, storetest.Worker{1})
			before := storetest.Query[int64](t, b.Bundle, "SELECT claim_token FROM schedules")
			b.At(now.Add(time.Second))
			change(b.Bundle, t, e.ID)
			if name == "Archive" {
				require.Empty(t, b.Finish(t, storetest.Worker{1}, 0, storetest.Succeed(storetest.Worker{1}, c, s)).Late)
				require.NotZero(t, b.Get(t, e.ID).ArchivedAt)
				return
			}
			require.Equal(t, before, storetest.Query[int64](t, b.Bundle, "SELECT claim_token FROM schedules"))
			require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM decisions"), "only the registration decided")

			require.Empty(t, b.Finish(t, storetest.Worker{1}, 0, storetest.Succeed(storetest.Worker{1}, c, s)).Late)
			due := b.Get(t, e.ID).State.Due
			switch name {
			case "Pause":
				require.Equal(t, governor.Indefinite, due.At)
			case "IntervalHint":
				require.Equal(t, governor.SourceAIInterval, due.Source)
				require.Equal(t, c.Slot.Add(5*time.Second), due.At)
			case "OneShotHint":
				require.Equal(t, governor.SourceAIOneShot, due.Source)
				require.Equal(t, now.Add(6*time.Second), due.At)
			case "RunNow":
				require.Equal(t, governor.SourceManual, due.Source)
				require.Equal(t, now.Add(time.Second), due.At)
			default:
				require.Equal(t, governor.SourceBaselineInterval, due.Source)
				require.Equal(t, c.Slot.Add(time.Minute), due.At)
			}
		})
	}
}

func TestARunNowDuringARunRunsAfterItOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, nil)
	c, s := b.StartOne(t, storetest.Worker{1})
	b.At(now.Add(time.Second))
	queued, err := b.Service.RunNow(t.Context(), storetest.Tenant, e.ID, endpoints.OneOffRequest{})
	require.NoError(t, err)
	require.Empty(t, b.Claim(t, storetest.Worker{2}, storetest.Horizon))
	b.Finish(t, storetest.Worker{1}, 0, storetest.Succeed(storetest.Worker{1}, c, s))

	manual := b.RunOne(t, storetest.Worker{2})
	require.Equal(t, queued.Slot, manual.ScheduledFor)
	require.Equal(t, "manual", manual.Source)
	after := b.Get(t, e.ID).State
	require.Zero(t, after.OneOffs)
	require.Equal(t, governor.SourceBaselineInterval, after.Due.Source)
}

// TestNoRunStartsAfterPauseHasReturned races starts against pauses, many times over.
func TestNoRunStartsAfterPauseHasReturned(t *testing.T) {
	t.Parallel()
	const rounds = 60
	b := setup(t)
	me := storetest.Worker{1}
	started, refused := 0, 0
	for range rounds {
		e := b.Register(t, nil)
		c := b.ClaimOne(t, me)
		var race sync.WaitGroup
		race.Go(func() {
			_, _ = b.Executions.Start(t.Context(), dispatch.Starting{Worker: me, List: storetest.StartsOf([]claims.Claim{c}), LockTTL: time.Minute})
		})
		race.Go(func() {
			if _, err := b.Service.Pause(t.Context(), storetest.Tenant, e.ID, endpoints.PauseRequest{}); err != nil {
				t.Error(err)
			}
		})
		race.Wait()
		require.Empty(t, b.Start(t, me, c), "after the pause nothing starts")
		require.Empty(t, b.Claim(t, me, 1000*time.Hour), "and nothing can be claimed")
		if b.Get(t, e.ID).State.Running == nil {
			refused++
			require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM decisions WHERE endpoint_id = $1 AND cause = 'pause'", [16]byte(e.ID)))
			continue
		}
		started++ // The start came first: the pause saw it, recorded itself and left the decision to the finish.
		require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM decisions WHERE endpoint_id = $1 AND cause = 'pause'", [16]byte(e.ID)))
	}
	require.Equal(t, rounds, started+refused)
	t.Logf("%d starts came first, %d pauses", started, refused)
}

// TestAStartThatWaitedForAFinishIsCheckedAgain lets a second start of one endpoint wait for the
// finish of the first: the finish raises the token, which the waiting statement cannot see.
func TestAStartThatWaitedForAFinishIsCheckedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	me := storetest.Worker{1}
	c, s := b.StartOne(t, me)

	tx, err := b.Pool.Begin(t.Context()) // A finish before its commit.
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), storetest.EndRun+", claimed_by = NULL, claimed_at = NULL WHERE run_id = $1", [16]byte(s.RunID))
	require.NoError(t, err)
	again := make(chan int, 1)
	go func() {
		list, err := b.Executions.Start(t.Context(), dispatch.Starting{Worker: me, List: storetest.StartsOf([]claims.Claim{c}), LockTTL: time.Minute})
		if err != nil {
			t.Error(err)
		}
		again <- len(list)
	}()
	require.NoError(t, tx.Commit(t.Context()))
	require.Zero(t, <-again)
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM live_runs"))
}

func TestAnArchivedEndpointIsOutOfService(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, func(s *endpoints.Spec) { s.Key = "mine" })
	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, e.ID, 0))
	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, e.ID, 0), "twice is no error")
	require.Empty(t, b.Claim(t, storetest.Worker{1}, time.Hour))
	require.NotZero(t, b.Get(t, e.ID).ArchivedAt)
	_, err := b.Service.Resume(t.Context(), storetest.Tenant, e.ID)
	require.Equal(t, errs.Conflict, errs.CodeOf(err))
	b.Register(t, func(s *endpoints.Spec) { s.Key = "mine" }) // Its key is free again.
}

func TestAnEditThatMeetsAnotherVersionChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	rename := func(version int64) error {
		_, _, err := b.Service.Edit(t.Context(), storetest.Tenant, e.ID, version, func(s endpoints.Spec) (endpoints.Spec, error) {
			s.Name += "!"
			return s, nil
		})
		return err
	}
	require.NoError(t, rename(1))
	require.Equal(t, errs.Precondition, errs.CodeOf(rename(1)))
	after := b.Get(t, e.ID)
	require.Equal(t, int64(2), after.Version)
	require.Equal(t, "probe!", after.Spec.Name)
}

func TestOfManyEditsAtOnceNoneIsLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, func(s *endpoints.Spec) { s.Name = "x" })
	var all sync.WaitGroup
	const writers = 8
	for range writers {
		all.Go(func() {
			_, _, err := b.Service.Edit(t.Context(), storetest.Tenant, e.ID, 0, func(s endpoints.Spec) (endpoints.Spec, error) {
				s.Name += "x"
				return s, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	after := b.Get(t, e.ID)
	require.Equal(t, int64(1+writers), after.Version)
	require.Len(t, after.Spec.Name, 1+writers)
}

// TestARunNowInAnHourThatTheClockRepeatsHasAnIDOfItsOwn sets the database's clock back to the very
// millisecond of a run.
func TestARunNowInAnHourThatTheClockRepeatsHasAnIDOfItsOwn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	e := b.Register(t, nil)
	first := b.RunOne(t, storetest.Worker{1})
	for range 3 { // Due times at the repeated instant run there too.
		b.At(first.ScheduledFor)
		queued, err := b.Service.RunNow(t.Context(), storetest.Tenant, e.ID, endpoints.OneOffRequest{})
		require.NoError(t, err)
		again := b.RunOne(t, storetest.Worker{1})
		require.Equal(t, queued.Slot, again.ScheduledFor)
		require.Equal(t, "manual", again.Source)
	}
	require.Equal(t, 4, storetest.Query[int](t, b.Bundle, "SELECT count(DISTINCT id) FROM runs WHERE attempt = 1"))
}

// TestARunNowBesideAStartAheadIsAnotherRun requests a run in the last millisecond before a due time
// with a run that has started ahead. Both would round to one due time and have one run ID, and the
// second could not be recorded.
func TestARunNowBesideAStartAheadIsAnotherRun(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	begin := b.At(storetest.Noon()).Add(5 * time.Second)
	e := b.Register(t, func(s *endpoints.Spec) { s.BaselineInterval, s.StartAt = time.Minute, begin })
	first := b.ClaimOne(t, me)
	b.At(begin.Add(-10 * time.Millisecond))
	ahead := b.Start(t, me, first)
	require.Len(t, ahead, 1)

	b.At(begin.Add(-400 * time.Microsecond))
	queued, err := b.Service.RunNow(t.Context(), storetest.Tenant, e.ID, endpoints.OneOffRequest{})
	require.NoError(t, err)
	require.Equal(t, begin.Add(time.Millisecond), queued.Slot)

	b.At(begin.Add(50 * time.Millisecond))
	b.Finish(t, me, 0, storetest.Succeed(me, first, ahead[0]))
	asked := b.ClaimOne(t, me)
	require.Equal(t, "manual", asked.Source)
	started := b.Start(t, me, asked)
	require.Len(t, started, 1)
	require.NotEqual(t, ahead[0].RunID, started[0].RunID)
	b.Finish(t, me, 0, storetest.Succeed(me, asked, started[0]))
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM live_runs"))
	require.Equal(t, 2, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM runs WHERE endpoint_id = $1", e.ID))
}
