package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/notices"
	"rubato/internal/planner"
	"rubato/internal/store"
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
		p.ended(t, e, before, "succeeded", 0, latency)
		p.exec(t, "INSERT INTO run_news (tenant_id, at, run_ids, endpoint_ids) VALUES ($1, now(), ARRAY[$2::uuid], ARRAY[$2::uuid])", e.TenantID, e.ID)
	}
	for _, e := range all {
		for i := range 15 {
			run(e, time.Hour-time.Duration(i)*time.Minute, 20*time.Millisecond)
		}
	}
	look := func() planner.FleetSlowdown {
		m, err := store.NewPlannerEvidence(p.states).Load(t.Context(), planner.Account{TenantID: tenant.TenantID, EndpointID: all[0].ID})
		require.NoError(t, err)
		return m.FleetSlowdown
	}
	p.at(noon())
	require.Zero(t, look(), "nobody is strained, so nobody is asked about")
	slow := func(e *endpoints.Endpoint) {
		for i := range 5 {
			run(e, 30*time.Minute-time.Duration(i)*time.Minute, 400*time.Millisecond)
		}
	}
	slow(all[0])
	require.Equal(t, planner.FleetSlowdown{Endpoints: 4, Slow: 1, Hosts: 1}, look())
	slow(all[1])
	slow(all[2])
	crowd := look()
	require.Equal(t, planner.FleetSlowdown{Endpoints: 4, Slow: 3, Hosts: 3, Recent: true}, crowd)
	require.True(t, crowd.SchedulerLoaded())
}

// TestALongRetryAfterIsToldUntilItIsOver has a target ask for years.
func TestALongRetryAfterIsToldUntilItIsOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.at(noon())
	keeper := b.noticed(t, "held", func(s *notices.Spec) { s.Event, s.Failures = notices.Paused, 0 })
	e := b.register(t, nil)
	asks := func(wait time.Duration) {
		b.at(b.get(t, e.ID).State.Due.At)
		c, s := b.startOne(t, worker{1})
		run := fail(worker{1}, c, s)
		run.Outcome.RetryAfter = run.FinishedAt.Add(wait)
		b.finish(t, worker{1}, 0, run)
	}
	asks(time.Hour)
	require.Empty(t, b.told(t), "an hour is no news")
	asks(99_999_999 * time.Second)
	require.Equal(t, []string{"opened"}, b.told(t))
	require.True(t, strings.HasPrefix(query[string](t, b, "SELECT detail->>'reason' FROM notice_episodes"), "the target asked to wait until 20"))
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened"}, b.told(t))
	b.at(b.get(t, e.ID).State.Due.At)
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened", "recovered"}, b.told(t))
}
