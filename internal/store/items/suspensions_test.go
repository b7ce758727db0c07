package items_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/runs"
	"rubato/internal/store/history"
	"rubato/internal/store/items"
	"rubato/internal/store/storetest"
	"rubato/internal/zombie"
)

// suspend starts the run that is due and suspends it for an hour.
func (b *bundle) suspend(t *testing.T, me storetest.Worker) (*items.Suspensions, claims.FencedRun, time.Time) {
	t.Helper()
	store, _, held, until := b.suspendRun(t, me)
	return store, held, until
}

// suspendRun does the same, and returns the record that its worker would write as well.
func (b *bundle) suspendRun(t *testing.T, me storetest.Worker) (*items.Suspensions, runs.Run, claims.FencedRun, time.Time) {
	t.Helper()
	store := items.NewSuspensions(b.States)
	c, s := b.StartOne(t, me)
	held := claims.FencedRun{EndpointID: c.EndpointID, RunID: s.RunID, Token: c.Token}
	suspended, err := store.Suspend(t.Context(), suspension(me, held))
	require.NoError(t, err)
	require.True(t, suspended)
	return store, storetest.Succeed(me, c, s), held, b.Run(t, held.RunID).SuspendedUntil
}

// suspension asks for the suspension of a run for an hour.
func suspension(me storetest.Worker, held claims.FencedRun) dispatch.Suspension {
	return dispatch.Suspension{
		Worker: me,
		Run:    held,
		Wait:   time.Hour,
		Exchange: dispatch.Exchange{
			StatusCode: 202,
			Phases:     runs.Phases{Wait: 5 * time.Millisecond},
		},
	}
}

// suspendedRun is the run of a token.
func suspendedRun(held claims.FencedRun) dispatch.SuspendedRun {
	return dispatch.SuspendedRun{Run: runs.Run{
		ID:           held.RunID,
		EndpointID:   held.EndpointID,
		ClaimToken:   held.Token,
		ScheduledFor: runs.ID(held.RunID).Slot(),
	}}
}

// timedOut is the run as the sweeper ends it.
func timedOut(held claims.FencedRun) runs.Run {
	run := suspendedRun(held).Run
	run.Outcome = runs.Outcome{Status: runs.TimedOut, Reason: runs.Timeout, MaybeSent: true}
	return run
}

// reported is the outcome of a callback.
func reported() runs.Outcome {
	return runs.Outcome{Status: runs.Succeeded, Reason: runs.HTTPStatus, StatusCode: 202, Body: []byte("exported")}
}

// TestConcurrentCallbacksEndASuspendedRunOnce sends ten callbacks at once, and one later.
func TestConcurrentCallbacksEndASuspendedRunOnce(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	b.Register(t, nil)
	store, held, _ := b.suspend(t, me)
	var ended atomic.Int32
	var calls sync.WaitGroup
	for range 10 {
		calls.Go(func() {
			did, err := store.End(t.Context(), suspendedRun(held), reported())
			if err != nil {
				t.Error(err)
			}
			if did {
				ended.Add(1)
			}
		})
	}
	calls.Wait()
	require.Equal(t, int32(1), ended.Load())
	late, err := store.End(t.Context(), suspendedRun(held), runs.Outcome{Status: runs.Failed, Reason: runs.HTTPStatus})
	require.NoError(t, err)
	require.False(t, late)
	run := b.Run(t, held.RunID)
	require.Equal(t, runs.Succeeded, run.Outcome.Status)
	require.Equal(t, "exported", string(run.Outcome.Body))
	require.Equal(t, 5*time.Millisecond, run.Outcome.Phases.Wait, "of the answer 202")
	require.Equal(t, [16]byte(me), run.WorkerID, "the worker that sent the request")
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM suspensions"))
	require.Equal(t, run.ScheduledFor.Add(time.Minute), run.Decision.NextRunAt, "decided like any finish")
}

// TestNoWorkerOrSweepEndsASuspendedRun tries the finish of its worker, another token and the
// settlement of lost runs.
func TestNoWorkerOrSweepEndsASuspendedRun(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	b.Register(t, nil)
	sweeps := items.NewSweeps(b.States)
	store, record, held, until := b.suspendRun(t, me)
	require.Len(t, b.Finish(t, me, 0, record).Late, 1, "a worker that got no answer to its suspension finishes nothing")
	require.Equal(t, runs.Running, b.Run(t, held.RunID).Outcome.Status)
	again, err := store.Suspend(t.Context(), suspension(me, held))
	require.NoError(t, err)
	require.True(t, again, "the worker may have lost the response")
	again, err = store.Suspend(t.Context(), suspension(storetest.Worker{2}, held))
	require.NoError(t, err)
	require.False(t, again, "another worker never held it")
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM run_events WHERE kind = 'suspended'"))
	other := held
	other.Token++
	ended, err := store.End(t.Context(), suspendedRun(other), reported())
	require.NoError(t, err)
	require.False(t, ended)
	expired, err := sweeps.Expire(t.Context(), timedOut(held))
	require.NoError(t, err)
	require.False(t, expired, "its wait is not over")
	b.At(until.Add(time.Hour))
	require.Empty(t, b.ListLost(t, zombie.Signal{StaleAfter: time.Second, TrustSilence: true}))
	require.Empty(t, b.Claim(t, storetest.Worker{2}, 10*time.Second), "its endpoint is the mutex")
}

// TestASuspendedRunTimesOutUnlessExtended extends a wait, lets it pass and sends a callback after
// it.
func TestASuspendedRunTimesOutUnlessExtended(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	b.Register(t, nil)
	sweeps := items.NewSweeps(b.States)
	store, held, until := b.suspend(t, me)
	b.At(until.Add(-time.Minute))
	longer, extended, err := store.Extend(t.Context(), suspendedRun(held))
	require.NoError(t, err)
	require.True(t, extended)
	b.At(until.Add(time.Minute))
	due, err := sweeps.ListExpired(t.Context(), nil, 10)
	require.NoError(t, err)
	require.Empty(t, due, "the wait was extended")
	b.At(longer.Add(time.Minute))
	due, err = sweeps.ListExpired(t.Context(), nil, 10)
	require.NoError(t, err)
	require.Len(t, due, 1)
	ended, err := store.End(t.Context(), suspendedRun(held), reported())
	require.NoError(t, err)
	require.False(t, ended, "the callback is too late")
	_, extended, err = store.Extend(t.Context(), suspendedRun(held))
	require.NoError(t, err)
	require.False(t, extended)
	expired, err := sweeps.Expire(t.Context(), timedOut(held))
	require.NoError(t, err)
	require.True(t, expired)
	require.Equal(t, runs.TimedOut, b.Run(t, held.RunID).Outcome.Status)
}

// TestTheSweeperEndsACanceledSuspendedRun cancels a suspended run, which no worker could end.
func TestTheSweeperEndsACanceledSuspendedRun(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	b.Register(t, nil)
	_, held, _ := b.suspend(t, me)
	_, err := history.NewRuns(b.DB).Cancel(t.Context(), runs.Cancel{By: storetest.Tenant, RunID: held.RunID, Reason: "not needed"})
	require.NoError(t, err)
	sweeps := items.NewSweeps(b.States)
	list, err := sweeps.ListExpired(t.Context(), nil, 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, zombie.Canceled, list[0].Reason)
	canceled := list[0].Run
	canceled.Outcome = runs.Outcome{Status: runs.Canceled, Reason: runs.CanceledByUser}
	ended, err := sweeps.Expire(t.Context(), canceled)
	require.NoError(t, err)
	require.True(t, ended)
	require.Equal(t, runs.Canceled, b.Run(t, held.RunID).Outcome.Status)
}

// TestLateReportsAreBounded sends more reports than are recorded about a run that has ended, and
// one about a run that has not.
func TestLateReportsAreBounded(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	e := b.Register(t, nil)
	store, held, _ := b.suspend(t, me)
	run := suspendedRun(held)
	run.TenantID = e.TenantID
	ended, err := store.Late(t.Context(), run, reported())
	require.NoError(t, err)
	require.False(t, ended, "it is suspended")
	ended, err = store.End(t.Context(), run, reported())
	require.NoError(t, err)
	require.True(t, ended)
	for range dispatch.MaxLateReports + 2 {
		ended, err = store.Late(t.Context(), run, reported())
		require.NoError(t, err)
		require.True(t, ended)
	}
	require.Equal(t, dispatch.MaxLateReports, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM run_events WHERE kind = 'late_result'"))
}

// TestAStatusURLIsClaimedByOneWorkerAtATime claims a due status URL twice, and again after the
// lease.
func TestAStatusURLIsClaimedByOneWorkerAtATime(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	b.Register(t, nil)
	c, s := b.StartOne(t, me)
	held := claims.FencedRun{EndpointID: c.EndpointID, RunID: s.RunID, Token: c.Token}
	store := items.NewSuspensions(b.States)
	asked := suspension(me, held)
	asked.StatusURL, asked.Poll = "https://shop.example.com/exports/7", time.Minute
	suspended, err := store.Suspend(t.Context(), asked)
	require.NoError(t, err)
	require.True(t, suspended)
	claim := func(at time.Duration, served claims.TagSets) []dispatch.SuspendedRun {
		b.At(s.StartedAt.Add(at))
		list, err := store.ClaimPolls(t.Context(), served, time.Minute, 10)
		require.NoError(t, err)
		return list
	}
	require.Empty(t, claim(30*time.Second, claims.TagSets{}), "it is not due")
	require.Empty(t, claim(2*time.Minute, claims.TagSets{Exclusive: true}), "the worker serves other tags")
	list := claim(2*time.Minute, claims.TagSets{})
	require.Len(t, list, 1)
	require.Equal(t, asked.StatusURL, list[0].StatusURL)
	require.Equal(t, 1, list[0].Polls)
	require.Equal(t, runs.ID(held.RunID), list[0].ID)
	require.Empty(t, claim(2*time.Minute+30*time.Second, claims.TagSets{}), "another worker asks it")
	require.NoError(t, store.PollLater(t.Context(), held.RunID, time.Second))
	require.Len(t, claim(2*time.Minute+40*time.Second, claims.TagSets{}), 1)
	require.Len(t, claim(5*time.Minute, claims.TagSets{}), 1, "the lease is over")
}
