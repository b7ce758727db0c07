package notices_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/hosts"
	"rubato/internal/notices"
	"rubato/internal/runs"
	hoststore "rubato/internal/store/hosts"
	"rubato/internal/store/storetest"
)

// skip records the next due time of an endpoint as skipped, because its host is open.
func (b *bundle) skip(t *testing.T, id endpoints.ID) {
	t.Helper()
	due := b.At(b.Get(t, id).State.Due.At)
	me := storetest.Worker{1}
	c, s := b.StartOne(t, me)
	run := storetest.Fail(me, c, s)
	run.Outcome = runs.Outcome{
		Status:    runs.Skipped,
		Reason:    runs.CircuitOpen,
		OpenUntil: due.Add(time.Minute),
	}
	b.Finish(t, me, 0, run)
}

// TestOneNoticeForAHostThatOpens has the breaker of a host open for two windows, while its
// endpoints are skipped.
func TestOneNoticeForAHostThatOpens(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	keeper := b.PutRule(t, "hosts", func(s *notices.Spec) { s.Event, s.Failures = notices.HostOpen, 0 })
	b.PutRule(t, "failing", func(s *notices.Spec) { s.Failures = 1 })
	e := b.Register(t, nil)
	store, key := hoststore.New(b.DB), hosts.Key{Scope: storetest.Tenant.TenantID, Host: "api.example.com:443"}
	report := func(r hosts.Report) hosts.Breaker {
		r.Key, r.Endpoint = key, e.ID
		list, _, err := store.Report(t.Context(), []hosts.Report{r})
		require.NoError(t, err)
		return list[0]
	}
	report(hosts.Report{Failures: hosts.DefaultFailures - 1})
	require.Empty(t, b.NoticeKinds(t), "the breaker is closed")
	open := report(hosts.Report{Failures: 1})
	require.Equal(t, hosts.Open, open.State)
	require.Equal(t, []string{"opened"}, b.NoticeKinds(t))
	require.Equal(t, key.Host, storetest.Query[string](t, b.Bundle, "SELECT detail ->> 'host' FROM notice_episodes"))

	// A failed probe begins another window.
	b.At(open.OpenUntil)
	seat := hosts.Seat{Endpoint: e.ID, Token: 1}
	admitted, _, err := store.Admit(t.Context(), []hosts.Probing{{Key: key, Seat: seat}})
	require.NoError(t, err)
	require.Equal(t, []bool{true}, admitted)
	open = report(hosts.Report{Probes: []hosts.Probe{{Seat: seat, Verdict: hosts.Failure}}})
	require.Equal(t, 2, open.Openings)
	b.skip(t, e.ID)
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened"}, b.NoticeKinds(t), "neither another window nor a skipped due time is an event")

	_, err = store.ResetHost(t.Context(), storetest.Tenant, key)
	require.NoError(t, err)
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened", "recovered"}, b.NoticeKinds(t))
}

// TestNoticeOfADeadLetterEndsWhenItIsHandled gives up a run, and discards its dead letter.
func TestNoticeOfADeadLetterEndsWhenItIsHandled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	keeper := b.PutRule(t, "letters", func(s *notices.Spec) { s.Event, s.Failures = notices.DeadLetter, 0 })
	e := b.Register(t, func(s *endpoints.Spec) { s.DeadLetter = true })
	b.failOne(t, e.ID)
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened"}, b.NoticeKinds(t))
	b.Exec(t, "UPDATE dead_letters SET state = 'discarded', handled_at = now(), handled_by = 'ada', handled_reason = 'old'")
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened", "recovered"}, b.NoticeKinds(t))
}
