package items_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/store/items"
	"rubato/internal/store/storetest"
)

// overlapping registers an endpoint that runs every minute, also while earlier runs are in flight.
func (b *bundle) overlapping(t *testing.T, edit func(*endpoints.Spec)) *endpoints.Endpoint {
	t.Helper()
	return b.Register(t, func(s *endpoints.Spec) {
		s.BaselineInterval, s.Overlap, s.Idempotent = time.Minute, governor.OverlapAllow, true
		if edit != nil {
			edit(s)
		}
	})
}

// detach starts the run that is due and detaches it. It returns its record as a success.
func (b *bundle) detach(t *testing.T, me storetest.Worker) runs.Run {
	t.Helper()
	c, s := b.StartOne(t, me)
	require.Zero(t, c.OwnerID)
	item, ours, err := b.Executions.Detach(t.Context(), dispatch.Detaching{
		Worker: me, StartedAt: s.StartedAt, Run: claims.FencedRun{EndpointID: c.EndpointID, RunID: s.RunID, Token: c.Token},
	})
	require.NoError(t, err)
	require.True(t, ours)
	run := storetest.Succeed(me, c, s)
	run.ItemID = item
	return run
}

func TestADetachedRunLeavesItsEndpointFree(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	now := b.At(storetest.Noon())
	e := b.overlapping(t, nil)
	first := b.detach(t, me)
	require.NotZero(t, first.ItemID)
	again, ours, err := b.Executions.Detach(t.Context(), dispatch.Detaching{
		Worker: me, StartedAt: first.StartedAt, Run: claims.FencedRun{EndpointID: e.ID, RunID: first.ID, Token: first.ClaimToken},
	})
	require.NoError(t, err)
	require.True(t, ours)
	require.Equal(t, first.ItemID, again, "a repeated call finds the row")
	state := b.Get(t, e.ID).State
	require.Nil(t, state.Running)
	require.Equal(t, now.Add(time.Minute), state.Due.At)

	now = b.At(now.Add(time.Minute))
	second := b.detach(t, me)
	require.Equal(t, 2, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM live_runs"))
	now = b.At(now.Add(5 * time.Second))
	second.FinishedAt, second.Outcome = now, runs.Outcome{Status: runs.Failed, Reason: runs.HTTPStatus, StatusCode: 500}
	done := b.Finish(t, me, 0, second)
	require.Empty(t, done.Late)
	state = b.Get(t, e.ID).State
	require.Equal(t, 1, state.FailureCount)
	require.Equal(t, second.ScheduledFor, state.LastRun.Slot)
	require.Equal(t, second.ScheduledFor.Add(2*time.Minute), state.Due.At, "the failure stretches the interval")

	first.FinishedAt = now
	b.Finish(t, me, 0, first)
	state = b.Get(t, e.ID).State
	require.Zero(t, state.FailureCount)
	require.Equal(t, second.ScheduledFor.Add(time.Minute), state.Due.At)
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules"))
	require.Equal(t, []string{"register", "detach", "detach", "result", "result"},
		storetest.Query[[]string](t, b.Bundle, "SELECT array_agg(cause ORDER BY id) FROM decisions"))
	for _, run := range []runs.Run{first, second} {
		got := b.Run(t, run.ID)
		require.Equal(t, e.ID, endpoints.ID(got.EndpointID))
		require.Equal(t, runs.NewID(run.ScheduledFor, e.ID, 1, 0), got.ID)
		require.Equal(t, run.Outcome.Status, got.Outcome.Status)
	}
}

func TestALostDetachedRunIsRepeated(t *testing.T) {
	t.Parallel()
	b, me, other := setup(t), storetest.Worker{1}, storetest.Worker{2}
	now := b.At(storetest.Noon())
	e := b.overlapping(t, func(s *endpoints.Spec) { s.BaselineInterval = time.Hour })
	lost := b.detach(t, me)
	now = b.At(now.Add(10 * time.Minute))
	b.SettleLost(t, 1)
	require.Equal(t, runs.Lost, b.Run(t, lost.ID).Outcome.Status)

	b.Edit(t, e.ID, func(s *endpoints.Spec) { s.Description = "another version" })
	b.At(now.Add(5 * time.Second))
	c := b.ClaimOne(t, other)
	targets, err := b.Executions.Targets(t.Context(), []claims.Claim{c})
	require.NoError(t, err)
	require.Equal(t, "another version", targets[c.EndpointID].Spec.Description)
	require.Equal(t, e.ID, endpoints.ID(c.OwnerID))
	require.Equal(t, lost.ItemID, c.EndpointID)
	require.Equal(t, 1, c.InfraAttempt)
	run := storetest.Succeed(other, c, b.Start(t, other, c)[0])
	b.Finish(t, other, 0, run)
	require.Equal(t, runs.Succeeded, b.Run(t, run.ID).Outcome.Status)
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules"))
}

func TestAPausedEndpointRepeatsNoDetachedRun(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	now := b.At(storetest.Noon())
	e := b.overlapping(t, func(s *endpoints.Spec) { s.Retry.MaxAttempts = 3 })
	first := b.detach(t, me)
	now = b.At(now.Add(time.Minute))
	second := b.detach(t, me)
	failed := runs.Outcome{Status: runs.Failed, Reason: runs.ConnectError}
	first.Outcome, first.FinishedAt = failed, now
	b.Finish(t, me, 0, first)
	require.Equal(t, 3, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules"), "another attempt waits")

	_, err := b.Service.Pause(t.Context(), storetest.Tenant, e.ID, endpoints.PauseRequest{})
	require.NoError(t, err)
	require.Equal(t, 2, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules"), "the attempt is withdrawn")
	second.Outcome, second.FinishedAt = failed, now
	b.Finish(t, me, 0, second)
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules"))
	state := b.Get(t, e.ID).State
	require.Equal(t, 1, state.FailureCount)
	require.True(t, state.Due.Source == governor.SourcePaused)
}

func TestADetachedRunOfAnArchivedEndpointIsRecorded(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	now := b.At(storetest.Noon())
	e := b.overlapping(t, func(s *endpoints.Spec) { s.DeadLetter = true })
	run := b.detach(t, me)
	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, e.ID, 0))
	run.Outcome, run.FinishedAt = runs.Outcome{Status: runs.Failed, Reason: runs.ConnectError}, now
	b.Finish(t, me, 0, run)
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules"))
	require.Equal(t, runs.Failed, b.Run(t, run.ID).Outcome.Status)
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM dead_letters WHERE endpoint_id = $1 AND NOT call", e.ID))
}

// TestARunOfAnArchivedEndpointStays archives an endpoint between the start of its run and the
// request for a row of its own.
func TestARunOfAnArchivedEndpointStays(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	b.At(storetest.Noon())
	e := b.overlapping(t, nil)
	c, s := b.StartOne(t, me)
	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, e.ID, 0))
	item, ours, err := b.Executions.Detach(t.Context(), dispatch.Detaching{
		Worker: me, StartedAt: s.StartedAt, Run: claims.FencedRun{EndpointID: e.ID, RunID: s.RunID, Token: c.Token},
	})
	require.NoError(t, err)
	require.True(t, ours)
	require.Zero(t, item)
	b.Finish(t, me, 0, storetest.Succeed(me, c, s))
	require.Equal(t, runs.Succeeded, b.Run(t, s.RunID).Outcome.Status)
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules"))
}

func TestTheMostDetachedRunsLeaveTheNextOneAttached(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	now := b.At(storetest.Noon())
	e := b.overlapping(t, nil)
	for range endpoints.MaxDetached {
		require.NotZero(t, b.detach(t, me).ItemID)
		now = b.At(now.Add(time.Minute))
	}
	attached := b.detach(t, me)
	require.Zero(t, attached.ItemID)
	require.NotNil(t, b.Get(t, e.ID).State.Running)
	now = b.At(now.Add(150 * time.Second))
	attached.FinishedAt = now
	b.Finish(t, me, 0, attached)
	due := b.Get(t, e.ID).State.Due
	require.Equal(t, now, due.At, "the due times that passed follow one after the other")
	require.Equal(t, attached.ScheduledFor.Add(time.Minute), due.Slot)
}

// besideOneOff has a detached run and a one-off run of an endpoint in flight, and returns their
// records as failures. The one-off run holds the row of the endpoint.
func (b *bundle) besideOneOff(t *testing.T, me storetest.Worker) (e *endpoints.Endpoint, first, oneOff runs.Run) {
	t.Helper()
	now := b.At(storetest.Noon())
	e = b.overlapping(t, nil)
	first = b.detach(t, me)
	now = b.At(now.Add(time.Second))
	_, err := b.Service.RunNow(t.Context(), storetest.Tenant, e.ID, endpoints.OneOffRequest{})
	require.NoError(t, err)
	c, s := b.StartOne(t, me)
	oneOff = storetest.Fail(me, c, s)
	now = b.At(now.Add(time.Second))
	first.Outcome, first.FinishedAt, oneOff.FinishedAt = oneOff.Outcome, now, now
	return e, first, oneOff
}

// TestRunsOfOneEndpointEndInOneBatch has a detached run and a one-off run, which holds the row of
// the endpoint.
func TestRunsOfOneEndpointEndInOneBatch(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	e, first, oneOff := b.besideOneOff(t, me)
	first.Outcome.StatusCode, oneOff.Outcome.StatusCode = 410, 410
	b.Finish(t, me, 0, oneOff, first)
	state := b.Get(t, e.ID).State
	require.Equal(t, 2, state.FailureCount)
	require.Equal(t, oneOff.ScheduledFor, state.LastRun.Slot)
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules"))
}

// TestAResultDuringARunIsKept ends a detached run while a one-off run holds the row of its
// endpoint.
func TestAResultDuringARunIsKept(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	e, first, oneOff := b.besideOneOff(t, me)
	b.Finish(t, me, 0, first)
	require.Equal(t, 1, b.Get(t, e.ID).State.FailureCount)
	b.Finish(t, me, 0, oneOff)
	require.Equal(t, 2, b.Get(t, e.ID).State.FailureCount)
}

func TestAReportEndsADetachedRun(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	now := b.At(storetest.Noon())
	e := b.overlapping(t, func(s *endpoints.Spec) { s.Async.Timeout = time.Hour })
	run := b.detach(t, me)
	store := items.NewSuspensions(b.States)
	held := claims.FencedRun{EndpointID: run.ItemID, RunID: run.ID, Token: run.ClaimToken}
	suspended, err := store.Suspend(t.Context(), suspension(me, held))
	require.NoError(t, err)
	require.True(t, suspended)
	now = b.At(now.Add(10 * time.Minute))
	held.EndpointID = e.ID // The token of a callback names the endpoint.
	reported, _, err := store.Reported(t.Context(), held)
	require.NoError(t, err)
	until, extended, err := store.Extend(t.Context(), reported)
	require.NoError(t, err)
	require.True(t, extended)
	require.Equal(t, now.Add(time.Hour), until.UTC())
	ended, err := store.End(t.Context(), reported, runs.Outcome{Status: runs.Failed, Reason: runs.CallbackFailed})
	require.NoError(t, err)
	require.True(t, ended)
	require.Equal(t, runs.Failed, b.Run(t, run.ID).Outcome.Status)
	require.Equal(t, 1, b.Get(t, e.ID).State.FailureCount)
}
