package items_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch/request"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
	"rubato/internal/store/storetest"
)

// ask queues a one-off run.
func (b *bundle) ask(t *testing.T, id endpoints.ID, r endpoints.OneOffRequest) endpoints.Queued {
	t.Helper()
	queued, err := b.Service.RunNow(t.Context(), storetest.Tenant, id, r)
	require.NoError(t, err)
	return queued
}

// target returns the target of a claim.
func (b *bundle) target(t *testing.T, c claims.Claim) *request.Target {
	t.Helper()
	targets, err := b.Executions.Targets(t.Context(), []claims.Claim{c})
	require.NoError(t, err)
	return targets[c.EndpointID]
}

func (b *bundle) waiting(t *testing.T) int {
	t.Helper()
	return storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM one_off_items")
}

// TestEachOneOffRunSendsItsOwnRequest queues two with requests of their own and one without, and
// runs them.
func TestEachOneOffRunSendsItsOwnRequest(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	now := b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) {
		s.Method, s.Body, s.Headers = "POST", "plain", map[string]string{"X-Day": "0"}
		s.StartAt = now.Add(time.Hour)
	})
	deadline := 10 * time.Minute
	b.ask(t, e.ID, endpoints.OneOffRequest{Override: endpoints.Override{Body: new("one"), Query: map[string]string{"day": "1"}}, Deadline: &deadline})
	b.ask(t, e.ID, endpoints.OneOffRequest{Override: endpoints.Override{Headers: map[string]string{"x-day": "2"}}})
	require.Equal(t, 3, b.ask(t, e.ID, endpoints.OneOffRequest{}).Waiting)

	for n, want := range []struct{ url, body, day string }{
		{"http://target.example/?day=1", "one", "0"}, {"http://target.example/", "plain", "2"}, {"http://target.example/", "plain", "0"},
	} {
		c := b.ClaimOne(t, me)
		require.Equal(t, "manual", c.Source)
		target := b.target(t, c)
		require.Equal(t, want, struct{ url, body, day string }{target.URL, target.Spec.Body, target.Header.Get("X-Day")})
		if n == 0 {
			require.Equal(t, now.Add(deadline), target.Deadline)
		} else {
			require.Zero(t, target.Deadline)
		}
		b.Finish(t, me, 0, storetest.Succeed(me, c, b.Start(t, me, c)[0]))
		require.Equal(t, 2-n, b.waiting(t))
	}
	require.Empty(t, b.Claim(t, me, storetest.Horizon))
	require.Equal(t, 3, storetest.Query[int](t, b.Bundle, "SELECT count(DISTINCT id) FROM runs WHERE source = 'manual' AND status = 'succeeded'"))
}

// TestAOneOffRunCanBeReadWhileItWaits follows one by its ID and in lists: before its start, in
// flight, and between two attempts.
func TestAOneOffRunCanBeReadWhileItWaits(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	now := b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.StartAt, s.Retry.MaxAttempts = now.Add(time.Hour), 2 })
	slots := []time.Time{b.ask(t, e.ID, endpoints.OneOffRequest{}).Slot, b.ask(t, e.ID, endpoints.OneOffRequest{}).Slot}
	id := func(n, attempt int) runs.ID { return runs.NewID(slots[n], e.ID, attempt, 0) }
	status := func(id runs.ID) runs.Status {
		t.Helper()
		run, err := b.Runs.Get(t.Context(), storetest.Tenant.TenantID, id)
		require.NoError(t, err)
		require.Equal(t, id, run.ID)
		return run.Outcome.Status
	}
	list := func(f runs.Filter) (found []runs.ID) {
		t.Helper()
		f.TenantID, f.Limit = storetest.Tenant.TenantID, 50
		read, err := b.Runs.List(t.Context(), f)
		require.NoError(t, err)
		for _, run := range read {
			found = append(found, run.ID)
		}
		return found
	}
	waiting := runs.Filter{Statuses: []runs.Status{runs.Waiting}}
	require.Equal(t, runs.Waiting, status(id(0, 1)))
	require.Equal(t, []runs.ID{id(1, 1), id(0, 1)}, list(waiting))
	require.Equal(t, []runs.ID{id(0, 1)}, list(runs.Filter{Statuses: waiting.Statuses, Before: id(1, 1)}))
	require.Equal(t, []runs.ID{id(1, 1), id(0, 1)}, list(runs.Filter{EndpointID: e.ID}))
	_, err := b.Runs.Get(t.Context(), [16]byte{9}, id(0, 1))
	require.Equal(t, errs.NotFound, errs.CodeOf(err), "a run of another tenant")
	_, err = b.Runs.Cancel(t.Context(), runs.Cancel{By: storetest.Tenant, RunID: id(0, 1)})
	refused, is := errors.AsType[*errs.Error](err)
	require.True(t, is)
	require.Equal(t, "run_waiting", refused.Reason)

	c := b.ClaimOne(t, me)
	started := b.Start(t, me, c)[0]
	require.Equal(t, runs.Running, status(id(0, 1)))
	require.Equal(t, []runs.ID{id(1, 1)}, list(waiting))
	require.Equal(t, []runs.ID{id(1, 1), id(0, 1)}, list(runs.Filter{}), "one in flight is listed once")

	b.Finish(t, me, 0, storetest.Fail(me, c, started))
	require.Equal(t, runs.Failed, status(id(0, 1)))
	again, err := b.Runs.Get(t.Context(), storetest.Tenant.TenantID, id(0, 2))
	require.NoError(t, err)
	require.Equal(t, runs.Waiting, again.Outcome.Status)
	require.False(t, again.NotBefore.Before(now))
	require.ElementsMatch(t, []runs.ID{id(1, 1), id(0, 2)}, list(waiting))
}

// TestAOneOffRunKeepsItsRequestForItsNextAttempt fails the first attempt.
func TestAOneOffRunKeepsItsRequestForItsNextAttempt(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	now := b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) {
		s.Method, s.StartAt, s.Idempotent = "POST", now.Add(time.Hour), true
		s.Retry = endpoints.Retry{MaxAttempts: 2, Backoff: time.Second, MaxBackoff: time.Second}
	})
	queued := b.ask(t, e.ID, endpoints.OneOffRequest{Override: endpoints.Override{Body: new("mine")}})
	c := b.ClaimOne(t, me)
	b.Finish(t, me, 0, storetest.Fail(me, c, b.Start(t, me, c)[0]))
	b.At(now.Add(2 * time.Second))
	again := b.ClaimOne(t, me)
	require.Equal(t, 2, again.Attempt)
	require.Equal(t, queued.Slot, again.Slot)
	require.Equal(t, "mine", b.target(t, again).Spec.Body)
	b.Finish(t, me, 0, storetest.Fail(me, again, b.Start(t, me, again)[0]))
	require.Zero(t, b.waiting(t))
	require.Equal(t, 1, b.Get(t, e.ID).State.FailureCount)
}

// TestAPauseRecordsEachOneOffRunThatItWithdraws has one in flight and two that wait.
func TestAPauseRecordsEachOneOffRunThatItWithdraws(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *bundle, *endpoints.Endpoint){"Pause": pauseIt(time.Time{}), "Archive": archiveIt} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, me := setup(t), storetest.Worker{1}
			now := b.At(storetest.Noon())
			e := b.Register(t, func(s *endpoints.Spec) { s.StartAt = now.Add(time.Hour) })
			b.ask(t, e.ID, endpoints.OneOffRequest{})
			c, started := b.StartOne(t, me)
			var asked []runs.ID
			for range 2 {
				asked = append(asked, runs.NewID(b.ask(t, e.ID, endpoints.OneOffRequest{}).Slot, e.ID, 1, 0))
			}
			end(t, b, e)
			require.Zero(t, b.waiting(t))
			for _, id := range asked {
				run, err := b.Runs.Get(t.Context(), storetest.Tenant.TenantID, id)
				require.NoError(t, err)
				require.Equal(t, runs.Skipped, run.Outcome.Status)
				require.Equal(t, runs.Withdrawn, run.Outcome.Reason)
				require.True(t, run.ClaimedAt.IsZero() && run.StartedAt.IsZero(), "no worker took it")
			}
			b.Finish(t, me, 0, storetest.Succeed(me, c, started))
			require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM runs WHERE status = 'succeeded'"))
			require.Empty(t, b.Claim(t, me, storetest.Horizon))
		})
	}
}

// TestTwoRequestsWithOneKeyAtOnceAreOneRun sends them from many sides.
func TestTwoRequestsWithOneKeyAtOnceAreOneRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	const askers = 8
	answers := make(chan endpoints.Queued, askers)
	for range askers {
		go func() {
			queued, err := b.Service.RunNow(t.Context(), storetest.Tenant, e.ID, endpoints.OneOffRequest{Key: new("once")})
			if err != nil {
				t.Error(err)
			}
			answers <- queued
		}()
	}
	slots := map[time.Time]int{}
	for range askers {
		slots[(<-answers).Slot.UTC()]++
	}
	require.Len(t, slots, 1)
	require.Equal(t, 1, b.waiting(t))
}

// TestAKeyIsForgottenAfterADay asks again with it.
func TestAKeyIsForgottenAfterADay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, nil)
	first := b.ask(t, e.ID, endpoints.OneOffRequest{Key: new("daily")})
	b.At(now.Add(endpoints.OneOffKeyLife - time.Second))
	require.True(t, b.ask(t, e.ID, endpoints.OneOffRequest{Key: new("daily")}).Repeated)
	b.At(now.Add(endpoints.OneOffKeyLife + time.Second))
	require.NotEqual(t, first.Slot, b.ask(t, e.ID, endpoints.OneOffRequest{Key: new("daily")}).Slot)
}

// TestAnUnknownSecretInAOneOffRequestIsNamed refuses the request whole.
func TestAnUnknownSecretInAOneOffRequestIsNamed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, func(s *endpoints.Spec) { s.Method = "POST" })
	_, err := b.Service.RunNow(t.Context(), storetest.Tenant, e.ID, endpoints.OneOffRequest{Override: endpoints.Override{Body: new(`{{secret "nowhere"}}`)}})
	require.Equal(t, errs.Invalid, errs.CodeOf(err))
	require.Equal(t, "body", errs.FieldsOf(err)[0].Field)
	require.Equal(t, "secret_unknown", errs.FieldsOf(err)[0].Code)
	require.Zero(t, b.waiting(t))
}

// TestAScheduleWithoutItsOneOffItemGoesOn deletes the item past the program: the claim must not
// come back for ever.
func TestAScheduleWithoutItsOneOffItemGoesOn(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	now := b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.StartAt = now.Add(time.Hour) })
	b.ask(t, e.ID, endpoints.OneOffRequest{})
	b.Exec(t, "DELETE FROM one_off_items")
	require.Nil(t, b.target(t, b.ClaimOne(t, me)))
	require.Equal(t, now.Add(time.Hour), b.Get(t, e.ID).State.Due.At)

	b.ask(t, e.ID, endpoints.OneOffRequest{})
	b.Exec(t, `UPDATE one_off_items SET request = '{"body": 7}'`)
	require.Nil(t, b.target(t, b.ClaimOne(t, me)))
	require.Contains(t, b.Get(t, e.ID).State.PauseReason, "quarantined: decoding the request of a one-off run")
}

// TestARunBehindAServedDueTimeIsTheLastRun requests a one-off run after the clock of the database
// was set back behind a due time that was served. A retry of a one-off run is such a run too, if a
// due time was served between its attempts.
func TestARunBehindAServedDueTimeIsTheLastRun(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	now := b.At(storetest.Noon())
	e := b.Register(t, nil)
	served := b.RunOne(t, me)
	b.At(now.Add(-time.Minute))
	requested := b.ask(t, e.ID, endpoints.OneOffRequest{}).Slot
	require.True(t, requested.Before(served.ScheduledFor))

	last := b.RunOne(t, me)

	state := b.Get(t, e.ID).State
	require.Equal(t, requested, last.ScheduledFor)
	require.Equal(t, last.ID, runs.NewID(state.LastRun.Slot, e.ID, state.LastRun.Attempt, state.LastRun.InfraAttempt))
	require.Equal(t, served.ScheduledFor, state.LastSlot)
}
