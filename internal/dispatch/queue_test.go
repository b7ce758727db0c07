package dispatch_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/egress/egresstest"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
)

// TestQueuedDueTimesRunOneAfterTheOther has a target that holds its first request while several due
// times pass.
func TestQueuedDueTimesRunOneAfterTheOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	held, release := make(chan struct{}), make(chan struct{})
	var open, most, calls atomic.Int32
	target := egresstest.Start(t, func(c *egresstest.Conn) {
		for {
			if _, ok := c.Next(); !ok {
				return
			}
			most.Store(max(most.Load(), open.Add(1)))
			if calls.Add(1) == 1 {
				close(held)
				<-release
			}
			open.Add(-1)
			if !c.Write(egresstest.OK("ok")) {
				return
			}
		}
	})
	b.register(t, target, func(s *endpoints.Spec) { s.BaselineInterval, s.Overlap = time.Second, governor.OverlapQueue })
	p := b.work(t, nil)
	<-held
	b.await(t, 1, "SELECT count(*) FROM schedules WHERE started_at + interval '3500 ms' < clock_timestamp()")
	close(release)
	b.await(t, 1, "SELECT count(*) FROM (SELECT FROM runs WHERE attempt > 0 HAVING count(DISTINCT scheduled_for) >= 5) served")
	p.stop(t)

	require.Equal(t, int32(1), most.Load(), "runs of one endpoint do not overlap")
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM runs WHERE reason_code = 'overlap_skipped'"))
	require.Equal(t, 3, query[int](t, b, `
		SELECT count(*)
		FROM runs r
		         JOIN runs held ON held.status = 'succeeded' AND held.finished_at - held.started_at > interval '3 s'
		WHERE r.scheduled_for IN (held.scheduled_for + interval '1 s', held.scheduled_for + interval '2 s', held.scheduled_for + interval '3 s')
		  AND r.attempt = 1 AND r.infra_attempt = 0 AND r.started_at >= held.finished_at`), "each due time that passed has a run of its own after it")
}
