package items_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/store/storetest"
	"rubato/internal/zombie"
)

func cancelOf(id runs.ID) runs.Cancel {
	return runs.Cancel{By: storetest.Tenant, RunID: id, Reason: "wrong dates"}
}

// canceled returns the finished run of a start that its worker canceled on request.
func canceled(by storetest.Worker, run runs.Run) runs.Run {
	run.Outcome = runs.Outcome{Status: runs.Canceled, Reason: runs.CanceledByUser, MaybeSent: true, Error: "canceled by tester: wrong dates"}
	return run
}

func (b *bundle) cancels(t *testing.T, by storetest.Worker) []dispatch.Cancel {
	t.Helper()
	list, err := b.Executions.Cancels(t.Context(), by)
	require.NoError(t, err)
	return list
}

func (b *bundle) story(t *testing.T, id runs.ID) []runs.Event {
	t.Helper()
	story, err := b.Runs.Events(t.Context(), storetest.Tenant.TenantID, id)
	require.NoError(t, err)
	return story
}

// TestACancelIsForTheHolderAlone asks twice for the end of a run: the first request stays, and only
// the run's worker hears of it.
func TestACancelIsForTheHolderAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, nil)
	other := b.Register(t, nil)
	me, bystander := storetest.Worker{1}, storetest.Worker{2}
	list := b.Claim(t, me, storetest.Horizon)
	require.Len(t, b.Start(t, me, list...), 2)
	conn, err := pgx.Connect(t.Context(), b.URL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	_, err = conn.Exec(t.Context(), "LISTEN rubato_cancel")
	require.NoError(t, err)
	id := runs.NewID(e.State.Due.Slot, e.ID, 1, 0)
	require.Empty(t, b.cancels(t, me))

	b.At(now.Add(time.Second))
	run, err := b.Runs.Cancel(t.Context(), cancelOf(id))
	require.NoError(t, err)
	require.Equal(t, runs.Running, run.Outcome.Status)
	require.Equal(t, now.Add(time.Second), run.CancelRequestedAt)
	b.At(now.Add(2 * time.Second))
	again := cancelOf(id)
	again.By.Name, again.Reason = "somebody else", "me too"
	run, err = b.Runs.Cancel(t.Context(), again)
	require.NoError(t, err)
	require.Equal(t, now.Add(time.Second), run.CancelRequestedAt)
	require.Empty(t, cmp.Diff(run, b.Run(t, id)), "the answer is the run as it stands")

	asked := storetest.Logged(t, b.Bundle, func(f *auditlog.Filter) { f.Kind = auditlog.Run })
	require.Len(t, asked, 1, "the second request changes nothing")
	require.Equal(t, auditlog.Object{Kind: auditlog.Run, ID: id.String()}, asked[0].Object)
	require.Equal(t, auditlog.Cancel, asked[0].Action)
	require.Equal(t, storetest.Tenant.Name, asked[0].By.Name)
	require.JSONEq(t, `{}`, string(asked[0].Before))
	require.JSONEq(t, `{"cancelRequestedAt":"`+now.Add(time.Second).Format(time.RFC3339)+`","reason":"wrong dates"}`, string(asked[0].After))

	token := storetest.Query[int64](t, b.Bundle, "SELECT claim_token FROM live_runs WHERE run_id = $1", [16]byte(id))
	require.Equal(t, []dispatch.Cancel{{RunID: id, Token: token, Author: "tester", Reason: "wrong dates"}}, b.cancels(t, me))
	require.Empty(t, b.cancels(t, bystander))
	for range 2 {
		message, err := conn.WaitForNotification(t.Context())
		require.NoError(t, err)
		require.Equal(t, "01000000-0000-0000-0000-000000000000", message.Payload)
	}
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM run_events"))
	require.Zero(t, b.Run(t, runs.NewID(other.State.Due.Slot, other.ID, 1, 0)).CancelRequestedAt, "no other run is touched")
	require.Equal(t, 2, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM live_runs"), "a request ends nothing by itself")
}

// TestACanceledRunEndsLikeAnyOther follows a request to the end: the failure count stays, nothing
// is tried again, and the endpoint goes on.
func TestACanceledRunEndsLikeAnyOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.Retry.MaxAttempts = 2 })
	c, s := b.StartOne(t, storetest.Worker{1})
	b.Finish(t, storetest.Worker{1}, 0, storetest.Fail(storetest.Worker{1}, c, s))
	b.At(b.Get(t, e.ID).State.Due.At)
	c, s = b.StartOne(t, storetest.Worker{1})
	b.Finish(t, storetest.Worker{1}, 0, storetest.Fail(storetest.Worker{1}, c, s))
	require.Equal(t, 1, b.Get(t, e.ID).State.FailureCount)

	b.At(b.Get(t, e.ID).State.Due.At)
	c, s = b.StartOne(t, storetest.Worker{1})
	_, err := b.Runs.Cancel(t.Context(), cancelOf(s.RunID))
	require.NoError(t, err)
	run := canceled(storetest.Worker{1}, storetest.Succeed(storetest.Worker{1}, c, s))
	require.Empty(t, b.Finish(t, storetest.Worker{1}, 0, run).Late)

	state := b.Get(t, e.ID).State
	require.Equal(t, 1, state.FailureCount, "neither a failure nor a success")
	require.Equal(t, 1, state.Due.Attempt, "not tried again")
	require.Equal(t, c.Slot.Add(2*time.Minute), state.Due.At, "and the backoff goes on")
	require.Empty(t, b.cancels(t, storetest.Worker{1}))
	require.Greater(t, state.Due.At, now)

	_, err = b.Runs.Cancel(t.Context(), cancelOf(s.RunID))
	require.Equal(t, errs.Conflict, errs.CodeOf(err))
	require.ErrorContains(t, err, "is over (canceled, canceled_by_user)")
	var refused *errs.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "run_finished", refused.Reason)

	var kinds []runs.EventKind
	for _, event := range b.story(t, s.RunID) {
		kinds = append(kinds, event.Kind)
	}
	require.Equal(t, []runs.EventKind{runs.EventClaimed, runs.EventStarted, runs.EventCancelRequested, runs.EventFinished}, kinds)
}

func TestOnlyALiveRunOfTheTenantCanBeCanceled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	c, s := b.StartOne(t, storetest.Worker{1})
	foreign := cancelOf(s.RunID)
	foreign.By.TenantID = [16]byte{7}
	_, err := b.Runs.Cancel(t.Context(), foreign)
	require.Equal(t, errs.NotFound, errs.CodeOf(err))
	_, err = b.Runs.Events(t.Context(), foreign.By.TenantID, s.RunID)
	require.Equal(t, errs.NotFound, errs.CodeOf(err))
	require.Empty(t, b.cancels(t, storetest.Worker{1}))
	unknown := runs.NewID(c.Slot, c.EndpointID, 2, 0)
	_, err = b.Runs.Cancel(t.Context(), cancelOf(unknown))
	require.Equal(t, errs.NotFound, errs.CodeOf(err))
	_, err = b.Runs.Events(t.Context(), storetest.Tenant.TenantID, unknown)
	require.Equal(t, errs.NotFound, errs.CodeOf(err))

	b.Finish(t, storetest.Worker{1}, 0, storetest.Succeed(storetest.Worker{1}, c, s))
	_, err = b.Runs.Cancel(t.Context(), foreign)
	require.Equal(t, errs.NotFound, errs.CodeOf(err), "who must not see a run does not learn that it is over")
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM run_events"))
}

// TestACancelAgainstAFinishHasOneEnd lets both come at once, again and again. Either the cancel
// comes first, and is in the story, or the finish, and the cancel is refused; there is one end each
// time.
func TestACancelAgainstAFinishHasOneEnd(t *testing.T) {
	t.Parallel()
	const rounds = 250
	b := setup(t)
	now := storetest.Noon()
	e := b.Register(t, func(s *endpoints.Spec) { s.BaselineInterval = time.Second })
	asked, refused := 0, 0
	for round := range rounds {
		b.At(now.Add(time.Duration(round) * time.Minute))
		c, s := b.StartOne(t, storetest.Worker{1})
		var done dispatch.Finished
		var asking, finishing error
		var both sync.WaitGroup
		begin := make(chan struct{})
		both.Go(func() {
			<-begin
			_, asking = b.Runs.Cancel(t.Context(), cancelOf(s.RunID))
		})
		both.Go(func() {
			<-begin
			done, finishing = b.Executions.Finish(t.Context(), dispatch.Finish{Worker: storetest.Worker{1}, Runs: []runs.Run{storetest.Succeed(storetest.Worker{1}, c, s)}, LockTTL: time.Minute})
		})
		close(begin)
		both.Wait()

		require.NoError(t, finishing)
		require.Empty(t, done.Late)
		events := storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM run_events WHERE run_id = $1", [16]byte(s.RunID))
		if asking == nil {
			asked++
			require.Equal(t, 1, events)
		} else {
			refused++
			require.Equal(t, errs.Conflict, errs.CodeOf(asking), "%v", asking)
			require.Zero(t, events)
		}
		require.Equal(t, runs.Succeeded, b.Run(t, s.RunID).Outcome.Status)
		require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM live_runs"))
	}
	require.Equal(t, rounds, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM runs WHERE status <> 'skipped'"))
	require.Zero(t, b.Get(t, e.ID).State.FailureCount)
	t.Logf("%d asked before the end, %d came after it", asked, refused)
}

// TestARunThatWasToBeCanceledIsLostWithItsWorker requests a cancel of a run without a live worker.
func TestARunThatWasToBeCanceledIsLostWithItsWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	e := b.Register(t, nil)
	c, s := b.StartOne(t, storetest.Worker{1})
	_, err := b.Runs.Cancel(t.Context(), cancelOf(s.RunID))
	require.NoError(t, err)
	require.Empty(t, b.ListLost(t, storetest.SilenceDistrusted), "a request is no sign that the worker is gone")
	settledAt := b.At(s.LockedUntil.Add(5*time.Second + time.Millisecond))
	b.SettleLost(t, 1)
	require.Len(t, b.Finish(t, storetest.Worker{1}, 0, canceled(storetest.Worker{1}, storetest.Succeed(storetest.Worker{1}, c, s))).Late, 1)

	require.Equal(t, runs.Lost, b.Run(t, s.RunID).Outcome.Status)
	require.Zero(t, b.Get(t, e.ID).State.FailureCount)
	stored := b.Run(t, s.RunID)
	want := []runs.Event{
		{At: stored.ClaimedAt, Kind: runs.EventClaimed, WorkerID: storetest.Worker{1}, ClaimToken: c.Token},
		{At: stored.StartedAt, Kind: runs.EventStarted, WorkerID: storetest.Worker{1}},
		{At: stored.StartedAt, Kind: runs.EventCancelRequested, Author: "tester", Why: "wrong dates"},
		{
			At: stored.FinishedAt, Kind: runs.EventSettled, Author: "sweeper", WorkerID: storetest.Worker{1}, Status: runs.Lost, Reason: runs.WorkerLost,
			Why: fmt.Sprintf("its lock ran out at %s, and its worker is not known any more", s.LockedUntil.Format("2006-01-02T15:04:05.000Z")),
		},
		{
			At: stored.FinishedAt, Kind: runs.EventFinished, WorkerID: storetest.Worker{1}, Status: runs.Lost, Reason: runs.WorkerLost, Error: "lost",
			Decision: stored.Decision,
		},
		{
			At: settledAt, Kind: runs.EventLateResult, WorkerID: storetest.Worker{1}, ClaimToken: c.Token, Status: runs.Canceled, Reason: runs.CanceledByUser,
		},
	}
	require.Empty(t, cmp.Diff(want, b.story(t, s.RunID)))
}

// TestSettlementRecordsItsSignal has each sign that a worker is gone.
func TestSettlementRecordsItsSignal(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		state   dispatch.State
		silence time.Duration
		age     time.Duration
		why     string
	}{
		"Goodbye":  {"inactive", time.Second, 2 * time.Minute, "its worker has said goodbye"},
		"Deadline": {"active", time.Second, time.Hour + 6*time.Second, "its execution should have ended at 2"},
		"Silence":  {"active", 2 * time.Minute, 3 * time.Minute, "its worker was last heard of at 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			started := b.At(storetest.Noon())
			b.Register(t, nil)
			starts := storetest.StartsOf([]claims.Claim{b.ClaimOne(t, storetest.Worker{1})})
			starts[0].Execution = time.Hour
			_, err := b.Executions.Start(t.Context(), dispatch.Starting{Worker: storetest.Worker{1}, List: starts, LockTTL: time.Minute})
			require.NoError(t, err)
			now := b.At(started.Add(tc.age))
			b.Beat(t, storetest.Worker{1}, tc.state, now.Add(-tc.silence))
			signal := zombie.Signal{StaleAfter: 90 * time.Second, TrustSilence: true}
			list := b.ListLost(t, signal)
			require.Len(t, list, 1)
			settled, err := b.Sweeps.Settle(t.Context(), signal, list[0])
			require.NoError(t, err)
			require.True(t, settled)
			story := b.story(t, list[0].ID)
			require.Equal(t, runs.EventSettled, story[2].Kind)
			require.Contains(t, story[2].Why, tc.why)
			again, err := b.Sweeps.Settle(t.Context(), signal, list[0])
			require.NoError(t, err)
			require.False(t, again)
			require.Len(t, b.story(t, list[0].ID), 4, "one settlement, one event")
		})
	}
}

// TestRepeatedFinishReturnsKeptClaim loses the answer of a finish that kept the next claim.
func TestRepeatedFinishReturnsKeptClaim(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Register(t, func(s *endpoints.Spec) { s.BaselineInterval = time.Second })
	me := storetest.Worker{1}
	c, s := b.StartOne(t, me)
	run := storetest.Succeed(me, c, s)
	lost := b.Finish(t, me, storetest.Horizon, run)
	require.Len(t, lost.Kept, 1)

	again := b.Finish(t, me, 0, run)
	require.Empty(t, again.Late)
	require.Equal(t, []runs.ID{s.RunID}, again.Repeated)
	require.Equal(t, []governor.Source{governor.SourceBaselineInterval}, again.Decided)
	require.Empty(t, cmp.Diff(lost.Kept, again.Kept))

	for name, spoil := range map[string]func(*runs.Run){
		"AnotherOutcome": func(r *runs.Run) { r.Outcome.Status = runs.Failed },
		"AnotherReason":  func(r *runs.Run) { r.Outcome.Reason = runs.Timeout },
		"AnotherToken":   func(r *runs.Run) { r.ClaimToken-- },
		"AnotherWorker":  func(r *runs.Run) { r.WorkerID = storetest.Worker{2} },
	} {
		other := run
		spoil(&other)
		done := b.Finish(t, other.WorkerID, storetest.Horizon, other)
		require.Len(t, done.Late, 1, "%s is not its own record", name)
		require.Empty(t, done.Repeated)
		require.Empty(t, done.Kept)
	}

	b.At(now.Add(time.Second))
	require.Len(t, b.Start(t, me, again.Kept...), 1)
	require.Empty(t, b.Finish(t, me, 0, run).Kept, "what has started is not handed out again")
}

// TestAKeptClaimThatWasTakenSinceIsNotHandedBack has a claim that a lost answer returned. Another
// worker, or the same one under a newer token, has claimed the endpoint since.
func TestAKeptClaimThatWasTakenSinceIsNotHandedBack(t *testing.T) {
	t.Parallel()
	me := storetest.Worker{1}
	for name, taker := range map[string]storetest.Worker{"ByAnother": {2}, "ByTheSame": me} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.At(storetest.Noon())
			b.Register(t, func(s *endpoints.Spec) { s.BaselineInterval = time.Second })
			c, s := b.StartOne(t, me)
			run := storetest.Succeed(me, c, s)
			kept := b.Finish(t, me, storetest.Horizon, run).Kept
			b.At(kept[0].LockedUntil.Add(time.Millisecond))
			b.ClaimOne(t, taker)
			again := b.Finish(t, me, storetest.Horizon, run)
			require.Equal(t, []runs.ID{s.RunID}, again.Repeated)
			require.Empty(t, again.Kept)
		})
	}
}
