package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
)

// ask queues a one-off run.
func (b *bundle) ask(t *testing.T, id endpoints.ID, r endpoints.OneOffRequest) endpoints.Queued {
	t.Helper()
	queued, err := b.service.RunNow(t.Context(), tenant, id, r)
	require.NoError(t, err)
	return queued
}

// target returns what a claim calls.
func (b *bundle) target(t *testing.T, c claims.Claim) *dispatch.Target {
	t.Helper()
	targets, err := b.executions.Targets(t.Context(), []claims.Claim{c})
	require.NoError(t, err)
	return targets[c.EndpointID]
}

func (b *bundle) waiting(t *testing.T) int {
	t.Helper()
	return query[int](t, b, "SELECT count(*) FROM one_off_items")
}

// TestEachOneOffRunSendsItsOwnRequest queues two with requests of their own and one without, and runs them.
func TestEachOneOffRunSendsItsOwnRequest(t *testing.T) {
	t.Parallel()
	b, me := setup(t), worker{1}
	now := b.at(noon())
	e := b.register(t, func(s *endpoints.Spec) {
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
		c := b.claimOne(t, me)
		require.Equal(t, "manual", c.Source)
		target := b.target(t, c)
		require.Equal(t, want, struct{ url, body, day string }{target.URL, target.Spec.Body, target.Header.Get("X-Day")})
		if n == 0 {
			require.Equal(t, now.Add(deadline), target.Deadline)
		} else {
			require.Zero(t, target.Deadline)
		}
		b.finish(t, me, 0, succeed(me, c, b.start(t, me, c)[0]))
		require.Equal(t, 2-n, b.waiting(t))
	}
	require.Empty(t, b.claim(t, me, horizon))
	require.Equal(t, 3, query[int](t, b, "SELECT count(DISTINCT id) FROM runs WHERE source = 'manual' AND status = 'succeeded'"))
}

// TestAOneOffRunCanBeReadWhileItWaits follows one by its ID and in lists: before its start, in flight, and between two attempts.
func TestAOneOffRunCanBeReadWhileItWaits(t *testing.T) {
	t.Parallel()
	b, me := setup(t), worker{1}
	now := b.at(noon())
	e := b.register(t, func(s *endpoints.Spec) { s.StartAt, s.Retry.MaxAttempts = now.Add(time.Hour), 2 })
	slots := []time.Time{b.ask(t, e.ID, endpoints.OneOffRequest{}).Slot, b.ask(t, e.ID, endpoints.OneOffRequest{}).Slot}
	id := func(n, attempt int) runs.ID { return runs.NewID(slots[n], e.ID, attempt, 0) }
	status := func(id runs.ID) runs.Status {
		t.Helper()
		run, err := b.runs.Get(t.Context(), tenant.TenantID, id)
		require.NoError(t, err)
		require.Equal(t, id, run.ID)
		return run.Outcome.Status
	}
	list := func(f runs.Filter) (found []runs.ID) {
		t.Helper()
		f.TenantID, f.Limit = tenant.TenantID, 50
		read, err := b.runs.List(t.Context(), f)
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
	_, err := b.runs.Get(t.Context(), [16]byte{9}, id(0, 1))
	require.Equal(t, errs.NotFound, errs.CodeOf(err), "a run of another tenant")
	_, err = b.runs.Cancel(t.Context(), runs.Cancel{By: tenant, RunID: id(0, 1)})
	refused, is := errors.AsType[*errs.Error](err)
	require.True(t, is)
	require.Equal(t, "run_waiting", refused.Reason)

	c := b.claimOne(t, me)
	started := b.start(t, me, c)[0]
	require.Equal(t, runs.Running, status(id(0, 1)))
	require.Equal(t, []runs.ID{id(1, 1)}, list(waiting))
	require.Equal(t, []runs.ID{id(1, 1), id(0, 1)}, list(runs.Filter{}), "one in flight is listed once")

	b.finish(t, me, 0, fail(me, c, started))
	require.Equal(t, runs.Failed, status(id(0, 1)))
	again, err := b.runs.Get(t.Context(), tenant.TenantID, id(0, 2))
	require.NoError(t, err)
	require.Equal(t, runs.Waiting, again.Outcome.Status)
	require.False(t, again.NotBefore.Before(now))
	require.ElementsMatch(t, []runs.ID{id(1, 1), id(0, 2)}, list(waiting))
}

// TestAOneOffRunKeepsItsRequestForItsNextAttempt fails the first attempt.
func TestAOneOffRunKeepsItsRequestForItsNextAttempt(t *testing.T) {
	t.Parallel()
	b, me := setup(t), worker{1}
	now := b.at(noon())
	e := b.register(t, func(s *endpoints.Spec) {
		s.Method, s.StartAt, s.Idempotent = "POST", now.Add(time.Hour), true
		s.Retry = endpoints.Retry{MaxAttempts: 2, Backoff: time.Second, MaxBackoff: time.Second}
	})
	queued := b.ask(t, e.ID, endpoints.OneOffRequest{Override: endpoints.Override{Body: new("mine")}})
	c := b.claimOne(t, me)
	b.finish(t, me, 0, fail(me, c, b.start(t, me, c)[0]))
	b.at(now.Add(2 * time.Second))
	again := b.claimOne(t, me)
	require.Equal(t, 2, again.Attempt)
	require.Equal(t, queued.Slot, again.Slot)
	require.Equal(t, "mine", b.target(t, again).Spec.Body)
	b.finish(t, me, 0, fail(me, again, b.start(t, me, again)[0]))
	require.Zero(t, b.waiting(t))
	require.Equal(t, 1, b.get(t, e.ID).State.FailureCount)
}

// TestAPauseRecordsEachOneOffRunThatItWithdraws has one in flight and two that wait.
func TestAPauseRecordsEachOneOffRunThatItWithdraws(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *bundle, *endpoints.Endpoint){"Pause": pauseIt(time.Time{}), "Archive": archiveIt} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, me := setup(t), worker{1}
			now := b.at(noon())
			e := b.register(t, func(s *endpoints.Spec) { s.StartAt = now.Add(time.Hour) })
			b.ask(t, e.ID, endpoints.OneOffRequest{})
			c, started := b.startOne(t, me)
			var asked []runs.ID
			for range 2 {
				asked = append(asked, runs.NewID(b.ask(t, e.ID, endpoints.OneOffRequest{}).Slot, e.ID, 1, 0))
			}
			end(t, b, e)
			require.Zero(t, b.waiting(t))
			for _, id := range asked {
				run, err := b.runs.Get(t.Context(), tenant.TenantID, id)
				require.NoError(t, err)
				require.Equal(t, runs.Skipped, run.Outcome.Status)
				require.Equal(t, runs.Withdrawn, run.Outcome.Reason)
			}
			b.finish(t, me, 0, succeed(me, c, started))
			require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM runs WHERE status = 'succeeded'"))
			require.Empty(t, b.claim(t, me, horizon))
		})
	}
}

// TestTwoRequestsWithOneKeyAtOnceAreOneRun sends them from many sides.
func TestTwoRequestsWithOneKeyAtOnceAreOneRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.register(t, nil)
	const askers = 8
	answers := make(chan endpoints.Queued, askers)
	for range askers {
		go func() {
			queued, err := b.service.RunNow(t.Context(), tenant, e.ID, endpoints.OneOffRequest{Key: new("once")})
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
	now := b.at(noon())
	e := b.register(t, nil)
	first := b.ask(t, e.ID, endpoints.OneOffRequest{Key: new("daily")})
	b.at(now.Add(endpoints.OneOffKeyLife - time.Second))
	require.True(t, b.ask(t, e.ID, endpoints.OneOffRequest{Key: new("daily")}).Repeated)
	b.at(now.Add(endpoints.OneOffKeyLife + time.Second))
	require.NotEqual(t, first.Slot, b.ask(t, e.ID, endpoints.OneOffRequest{Key: new("daily")}).Slot)
}

// TestAnUnknownSecretInAOneOffRequestIsNamed refuses the request whole.
func TestAnUnknownSecretInAOneOffRequestIsNamed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.register(t, func(s *endpoints.Spec) { s.Method = "POST" })
	_, err := b.service.RunNow(t.Context(), tenant, e.ID, endpoints.OneOffRequest{Override: endpoints.Override{Body: new(`{{secret "nowhere"}}`)}})
	require.Equal(t, errs.Invalid, errs.CodeOf(err))
	require.Equal(t, "body", errs.FieldsOf(err)[0].Field)
	require.Equal(t, "secret_unknown", errs.FieldsOf(err)[0].Code)
	require.Zero(t, b.waiting(t))
}

// TestAScheduleWithoutItsOneOffItemGoesOn deletes the item past the program: the claim must not come back for ever.
func TestAScheduleWithoutItsOneOffItemGoesOn(t *testing.T) {
	t.Parallel()
	b, me := setup(t), worker{1}
	now := b.at(noon())
	e := b.register(t, func(s *endpoints.Spec) { s.StartAt = now.Add(time.Hour) })
	b.ask(t, e.ID, endpoints.OneOffRequest{})
	b.exec(t, "DELETE FROM one_off_items")
	require.Nil(t, b.target(t, b.claimOne(t, me)))
	require.Equal(t, now.Add(time.Hour), b.get(t, e.ID).State.Due.At)

	b.ask(t, e.ID, endpoints.OneOffRequest{})
	b.exec(t, `UPDATE one_off_items SET request = '{"body": 7}'`)
	require.Nil(t, b.target(t, b.claimOne(t, me)))
	require.Contains(t, b.get(t, e.ID).State.PauseReason, "quarantined: decoding the request of a one-off run")
}
