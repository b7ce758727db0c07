package dispatch_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
)

// TestOverlappingRunsStartAtTheirDueTimes has a target that answers no request until five are open.
// The fifth answer is a failure. The first due time is a second ahead, so that the worker is up by
// then and skips none.
func TestOverlappingRunsStartAtTheirDueTimes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var calls atomic.Int32
	release := make(chan struct{})
	target := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n := calls.Add(1)
		if n == 5 {
			close(release)
		}
		<-release
		if n == 5 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	e := b.register(t, target, func(s *endpoints.Spec) {
		s.BaselineInterval, s.Overlap, s.MaxRuns = time.Second, governor.OverlapAllow, 5
		s.StartAt = time.Now().Add(time.Second).Truncate(time.Millisecond)
	})
	p := b.work(t, nil)
	<-release
	b.await(t, 5, "SELECT count(*) FROM runs WHERE endpoint_id = $1 AND attempt = 1", e.ID)
	p.stop(t)

	require.Equal(t, 5, query[int](t, b, "SELECT count(DISTINCT scheduled_for) FROM runs"), "each due time has a run of its own")
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM runs WHERE started_at - scheduled_for > interval '900 ms'"), "no run waits for another")
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM runs WHERE status = 'failed'"))
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM schedules"), "a detached run leaves no row")
	list, err := b.runs.List(t.Context(), runs.Filter{TenantID: tenant.TenantID, EndpointID: e.ID, Limit: 10})
	require.NoError(t, err)
	for _, run := range list {
		require.Equal(t, runs.NewID(run.ScheduledFor, e.ID, 1, 0), run.ID)
	}
}

// TestARunThatIsNotDetachedInTimeIsRepeated has a database that answers no request for a row at
// first.
func TestARunThatIsNotDetachedInTimeIsRepeated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var calls atomic.Int32
	target := serve(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	e := b.register(t, target, func(s *endpoints.Spec) { s.Overlap = governor.OverlapAllow })
	var away atomic.Bool
	away.Store(true)
	p := b.work(t, b.with(&faultyExecutions{detach: func(next func() ([16]byte, bool, error)) ([16]byte, bool, error) {
		if away.Load() {
			return [16]byte{}, false, errAway
		}
		return next()
	}}))
	b.await(t, 1, "SELECT count(*) FROM runs WHERE reason_code = 'start_expired' AND infra_attempt = 0")
	away.Store(false)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded' AND infra_attempt > 0")
	p.stop(t)
	require.EqualValues(t, 1, calls.Load())
	require.Equal(t, e.ID, endpoints.ID(query[[16]byte](t, b, "SELECT endpoint_id FROM runs WHERE status = 'succeeded'")))
}

// TestADetachIsRepeatedAfterALostResponse has the first response of the database lost.
func TestADetachIsRepeatedAfterALostResponse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	b.register(t, target, func(s *endpoints.Spec) { s.Overlap = governor.OverlapAllow })
	var tries atomic.Int32
	p := b.work(t, b.with(&faultyExecutions{detach: func(next func() ([16]byte, bool, error)) ([16]byte, bool, error) {
		item, ours, err := next()
		if tries.Add(1) == 1 {
			return [16]byte{}, false, errAway
		}
		return item, ours, err
	}}))
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded' AND infra_attempt = 0")
	p.stop(t)
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM schedules"))
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM runs"))
}
