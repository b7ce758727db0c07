package planner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/notices"
	"rubato/internal/planner"
	plannerstore "rubato/internal/store/planner"
	"rubato/internal/store/storetest"
)

// TestEndpointsThatAreSlowTogetherAreCounted slows one endpoint, and then one of each host.
func TestEndpointsThatAreSlowTogetherAreCounted(t *testing.T) {
	t.Parallel()
	p := setupPlanning(t)
	var all []*endpoints.Endpoint
	for _, host := range []string{"a", "b", "c", "d"} {
		all = append(all, p.endpoint(t, func(s *endpoints.Spec) { s.URL = "https://" + host + ".example.com/" }))
	}
	run := func(e *endpoints.Endpoint, before, latency time.Duration) {
		p.Ended(t, e, before, "succeeded", 0, latency)
		p.Exec(t, "INSERT INTO finished_runs (tenant_id, at, run_ids, endpoint_ids) VALUES ($1, now(), ARRAY[$2::uuid], ARRAY[$2::uuid])", e.TenantID, e.ID)
	}
	for _, e := range all {
		for i := range 15 {
			run(e, time.Hour-time.Duration(i)*time.Minute, 20*time.Millisecond)
		}
	}
	look := func() planner.FleetSlowdown {
		m, err := plannerstore.NewEvidence(p.States).Load(t.Context(), planner.Account{TenantID: storetest.Tenant.TenantID, EndpointID: all[0].ID})
		require.NoError(t, err)
		return m.FleetSlowdown
	}
	p.At(storetest.Noon())
	require.Zero(t, look(), "no endpoint is slow, so the fleet is not sampled")
	slow := func(e *endpoints.Endpoint) {
		for i := range 5 {
			run(e, 30*time.Minute-time.Duration(i)*time.Minute, 400*time.Millisecond)
		}
	}
	slow(all[0])
	require.Equal(t, planner.FleetSlowdown{Endpoints: 4, Slow: 1, Hosts: 1}, look())
	slow(all[1])
	slow(all[2])
	fleet := look()
	require.Equal(t, planner.FleetSlowdown{Endpoints: 4, Slow: 3, Hosts: 3, Recent: true}, fleet)
	require.True(t, fleet.SchedulerLoaded())
}

// TestLongRetryAfterIsNotifiedUntilItsEnd has a target ask for years.
func TestLongRetryAfterIsNotifiedUntilItsEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	keeper := b.PutRule(t, "held", func(s *notices.Spec) { s.Event, s.Failures = notices.Paused, 0 })
	e := b.Register(t, nil)
	asks := func(wait time.Duration) {
		b.At(b.Get(t, e.ID).State.Due.At)
		c, s := b.StartOne(t, storetest.Worker{1})
		run := storetest.Fail(storetest.Worker{1}, c, s)
		run.Outcome.RetryAfter = run.FinishedAt.Add(wait)
		b.Finish(t, storetest.Worker{1}, 0, run)
	}
	asks(time.Hour)
	require.Empty(t, b.NoticeKinds(t), "an hour is no news")
	asks(99_999_999 * time.Second)
	require.Equal(t, []string{"opened"}, b.NoticeKinds(t))
	require.True(t, strings.HasPrefix(storetest.Query[string](t, b.Bundle, "SELECT detail->>'reason' FROM notice_episodes"), "the target asked to wait until 20"))
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened"}, b.NoticeKinds(t))
	b.At(b.Get(t, e.ID).State.Due.At)
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened", "recovered"}, b.NoticeKinds(t))
}
