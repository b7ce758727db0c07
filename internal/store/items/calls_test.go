package items_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
	"rubato/internal/calls"
	"rubato/internal/deadletters"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
	callstore "rubato/internal/store/calls"
	"rubato/internal/store/storetest"
)

// send stores a call.
func (b *bundle) send(t *testing.T, store *callstore.Store, edit func(*calls.Call)) *calls.Call {
	t.Helper()
	return b.sendAfter(t, store, 0, edit)
}

// sendAfter stores a call that is due after a delay.
func (b *bundle) sendAfter(t *testing.T, store *callstore.Store, delay time.Duration, edit func(*calls.Call)) *calls.Call {
	t.Helper()
	c := &calls.Call{ID: calls.NewID(), TenantID: storetest.Tenant.TenantID, Author: storetest.Tenant.Name, Spec: calls.Defaults()}
	c.Spec.URL = "http://target.example/"
	edit(c)
	c.Spec = c.Spec.Normalize()
	stored, err := store.Send(t.Context(), c, func(c *calls.Call, now time.Time) {
		c.CreatedAt, c.NotBefore = now, now.Add(delay).Truncate(time.Millisecond)
	})
	require.NoError(t, err)
	return stored
}

func (b *bundle) stateOf(t *testing.T, store *callstore.Store, c *calls.Call) runs.Status {
	t.Helper()
	found, err := store.Get(t.Context(), c.TenantID, c.ID)
	require.NoError(t, err)
	return found.State
}

// TestACallIsRetriedAndEnds fails the first attempt of a call, and looks for its schedule after the
// second.
func TestACallIsRetriedAndEnds(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	store := callstore.New(b.DB)
	c := b.send(t, store, func(c *calls.Call) {
		c.Spec.Idempotent, c.Spec.Retry.MaxAttempts, c.Spec.Retry.Backoff = true, 2, time.Millisecond
	})
	require.Equal(t, runs.Waiting, b.stateOf(t, store, c))
	b.failNext(t, me)
	require.Equal(t, runs.Waiting, b.stateOf(t, store, c), "another attempt follows")
	b.At(time.Now().UTC().Add(5 * time.Second))
	claim, started := b.StartOne(t, me)
	require.Equal(t, 2, claim.Attempt)
	require.Equal(t, runs.Running, b.stateOf(t, store, c))
	require.Empty(t, b.Finish(t, me, 0, storetest.Succeed(me, claim, started)).Late)
	require.Equal(t, runs.Succeeded, b.stateOf(t, store, c))
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules"))
}

// TestTheResultOfACallIsSentByAnotherCall gives a call up.
func TestTheResultOfACallIsSentByAnotherCall(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	store := callstore.New(b.DB)
	c := b.send(t, store, func(c *calls.Call) { c.Callback = "http://answer.example/" })
	run := b.failNext(t, me)
	require.Equal(t, 1, b.deadLetters(t))
	list, err := store.List(t.Context(), calls.Filter{TenantID: c.TenantID, Open: true, Limit: 9})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "http://answer.example/", list[0].Spec.URL)
	var sent map[string]any
	require.NoError(t, json.Unmarshal([]byte(list[0].Spec.Body), &sent))
	require.Equal(t, []any{c.ID.String(), run.ID.String(), "failed", "closed"}, []any{sent["id"], sent["runId"], sent["status"], sent["body"]})
}

// TestADeduplicationKeyStandsForItsFirstCall also cancels the call, twice.
func TestADeduplicationKeyStandsForItsFirstCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := callstore.New(b.DB)
	first := b.send(t, store, func(c *calls.Call) { c.Key = "order-17" })
	again := b.send(t, store, func(c *calls.Call) { c.Key = "order-17" })
	require.Equal(t, first.ID, again.ID)
	require.NoError(t, store.Cancel(t.Context(), storetest.Tenant, first.ID))
	require.Equal(t, runs.Canceled, b.stateOf(t, store, first))
	noted := storetest.Logged(t, b.Bundle, func(f *auditlog.Filter) { f.Kind = auditlog.Call })
	require.Len(t, noted, 1)
	require.Equal(t, first.ID.String(), noted[0].Object.ID)
	err := store.Cancel(t.Context(), storetest.Tenant, first.ID)
	require.Equal(t, errs.Conflict, errs.CodeOf(err))
}

// TestACanceledCallIsRecordedAtTheTimeOfItsCancel cancels a call that is due in ten days, before an
// endpoint runs. Its record neither heads the list of runs nor counts as a start.
func TestACanceledCallIsRecordedAtTheTimeOfItsCancel(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	store := callstore.New(b.DB)
	sent := b.At(storetest.Noon())
	c := b.sendAfter(t, store, 10*24*time.Hour, func(*calls.Call) {})
	days := storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'runs'::regclass")
	canceled := b.At(sent.Add(time.Minute))
	require.NoError(t, store.Cancel(t.Context(), storetest.Tenant, c.ID))
	b.At(canceled.Add(time.Minute))
	b.Register(t, nil)
	ran := b.RunOne(t, me)

	list, err := b.Runs.List(t.Context(), runs.Filter{TenantID: c.TenantID, Limit: 9})
	require.NoError(t, err)
	require.Equal(t, []runs.ID{ran.ID, runs.NewID(canceled, c.ID, 1, 0)}, []runs.ID{list[0].ID, list[1].ID})
	unsent := list[1]
	require.Equal(t, []time.Time{canceled, {}, {}, canceled}, []time.Time{unsent.ScheduledFor.UTC(), unsent.ClaimedAt, unsent.StartedAt, unsent.FinishedAt.UTC()})
	story, err := b.Runs.Events(t.Context(), c.TenantID, unsent.ID)
	require.NoError(t, err)
	require.Len(t, story, 1, "it was neither claimed nor started")
	require.Equal(t, runs.EventFinished, story[0].Kind)
	found, err := store.Get(t.Context(), c.TenantID, c.ID)
	require.NoError(t, err)
	require.Equal(t, []any{runs.Canceled, unsent.ID, c.NotBefore}, []any{found.State, found.RunID, found.NotBefore.UTC()})
	require.Equal(t, days, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'runs'::regclass"),
		"no day of the history is created ahead")
}

// TestACallCanceledBetweenItsAttemptsKeepsItsDueTime cancels a call after its first attempt failed.
func TestACallCanceledBetweenItsAttemptsKeepsItsDueTime(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	store := callstore.New(b.DB)
	c := b.send(t, store, func(c *calls.Call) { c.Spec.Idempotent, c.Spec.Retry.MaxAttempts = true, 2 })
	b.failNext(t, me)
	require.NoError(t, store.Cancel(t.Context(), storetest.Tenant, c.ID))
	found, err := store.Get(t.Context(), c.TenantID, c.ID)
	require.NoError(t, err)
	require.Equal(t, []any{runs.Canceled, runs.NewID(c.NotBefore, c.ID, 2, 0)}, []any{found.State, found.RunID})
}

// TestARunOfACallIsRepeatedByACall repeats a failed run under its own key, twice with one
// idempotency key, and the request of the repetition is that of the first call.
func TestARunOfACallIsRepeatedByACall(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	store := callstore.New(b.DB)
	service := calls.NewService(store, storetest.AnyTarget{})
	c := b.send(t, store, func(c *calls.Call) { c.Spec.Body, c.Callback = "order 7", "http://answer.example/" })
	run := b.failNext(t, me)
	past := endpoints.RecordedRun{RunID: run.ID, Endpoint: endpoints.ID(c.ID), Slot: run.ScheduledFor, At: run.ClaimedAt, Key: run.ID.String()}
	rerun := endpoints.Rerun{Past: past, SameKey: true, OneOffRequest: endpoints.OneOffRequest{Key: new("once"), Priority: "high"}}
	again, first, err := service.Rerun(t.Context(), storetest.Tenant, rerun)
	require.NoError(t, err)
	require.True(t, first)
	require.Equal(t, []any{"order 7", "http://answer.example/", endpoints.PriorityName("high")}, []any{again.Spec.Body, again.Callback, again.Spec.Priority})
	same, first, err := service.Rerun(t.Context(), storetest.Tenant, rerun)
	require.NoError(t, err)
	require.False(t, first)
	require.Equal(t, again.ID, same.ID)

	was, err := b.Service.PastRequest(t.Context(), storetest.Tenant, endpoints.RecordedRun{
		RunID: runs.FirstAttempt(again.NotBefore, endpoints.ID(again.ID)), Endpoint: endpoints.ID(again.ID), Slot: again.NotBefore, At: again.NotBefore,
	})
	require.NoError(t, err)
	require.Equal(t, "order 7", was.Spec.Body)
	require.Equal(t, run.ID.String(), was.Key)
	require.Equal(t, [16]byte(run.ID), was.RerunOf)

	b.At(time.Now().AddDate(0, 0, 60)) // There is no partition for that day yet.
	rerun.Key = nil
	_, _, err = service.Rerun(t.Context(), storetest.Tenant, rerun)
	require.NoError(t, err)

	rerun.Force, rerun.Priority = true, "urgent"
	_, _, err = service.Rerun(t.Context(), storetest.Tenant, rerun)
	var bad []string
	for _, f := range errs.FieldsOf(err) {
		bad = append(bad, f.Field)
	}
	require.Equal(t, []string{"priority", "force"}, bad)
	rerun.Past.Endpoint, rerun.Force, rerun.Priority = endpoints.ID(calls.NewID()), false, ""
	_, _, err = service.Rerun(t.Context(), storetest.Tenant, rerun)
	require.Equal(t, errs.NotFound, errs.CodeOf(err))
}

// TestACallThatWasGivenUpIsReplayedOnce replays a dead letter of a call fifty times at once. The
// replay is a call of its own with the Idempotency-Key of the one that was given up, and leaves a
// dead letter with that key in its turn, which is then replayed with a new one.
func TestACallThatWasGivenUpIsReplayedOnce(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	office, store := b.office(t), callstore.New(b.DB)
	c := b.send(t, store, func(c *calls.Call) {
		c.Spec.Body, c.Spec.Timeout, c.Deadline = "order 7", 7*time.Second, time.Now().Add(time.Hour)
	})
	first := b.failNext(t, me)
	id := deadletters.ID(first.ID)
	replayFifty(t, office, id)
	l, _, err := office.Get(t.Context(), storetest.Tenant, id)
	require.NoError(t, err)
	require.True(t, l.Call)
	again, err := store.Get(t.Context(), c.TenantID, l.ReplayCall)
	require.NoError(t, err)
	require.Equal(t, []any{runs.Waiting, "order 7", 7 * time.Second}, []any{again.State, again.Spec.Body, again.Spec.Timeout})
	require.Zero(t, again.Deadline, "that of the first call may have passed")
	require.Equal(t, first.ID[:], storetest.Query[[]byte](t, b.Bundle, "SELECT uuid_send(rerun_of) FROM run_requests WHERE endpoint_id = $1", again.ID[:]))

	b.At(time.Now().UTC().Add(time.Second))
	claim := b.ClaimOne(t, me)
	require.Equal(t, first.ID.String(), b.target(t, claim).SentKey, "the target can see that it is the same request")
	require.Equal(t, l.ReplayID(), runs.NewID(claim.Slot, claim.EndpointID, 1, 0))
	failed := storetest.Fail(me, claim, b.Start(t, me, claim)[0])
	require.Empty(t, b.Finish(t, me, 0, failed).Late)
	_, content, err := office.Get(t.Context(), storetest.Tenant, deadletters.ID(failed.ID))
	require.NoError(t, err)
	require.Equal(t, first.ID.String(), content.Key)
	l, _, err = office.Replay(t.Context(), storetest.Tenant, deadletters.ID(failed.ID), deadletters.Replay{NewKey: true})
	require.NoError(t, err)
	b.At(time.Now().UTC().Add(2 * time.Second))
	claim = b.ClaimOne(t, me)
	require.Equal(t, l.ReplayCall, calls.ID(claim.EndpointID))
	require.Empty(t, b.target(t, claim).SentKey)
}
