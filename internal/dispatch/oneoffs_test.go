package dispatch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/egress/egresstest"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// TestAOneOffRunPastItsDeadlineIsNotSent has a worker come too late for one one-off run, and in
// time for another.
func TestAOneOffRunPastItsDeadlineIsNotSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	e := b.register(t, target, func(s *endpoints.Spec) {
		s.Method, s.Body, s.StartAt = "POST", "plain", time.Now().Add(time.Hour)
	})
	late, err := b.service.RunNow(t.Context(), tenant, e.ID, endpoints.OneOffRequest{
		Override: endpoints.Override{Body: new("too late")}, Deadline: new(time.Millisecond), Priority: "high",
	})
	require.NoError(t, err)
	_, err = b.service.RunNow(t.Context(), tenant, e.ID, endpoints.OneOffRequest{
		Override: endpoints.Override{Body: new("in time"), Query: map[string]string{"day": "7"}, Headers: map[string]string{"X-Day": "7"}}, Deadline: new(time.Hour),
	})
	require.NoError(t, err)
	b.await(t, 1, "SELECT count(*) FROM one_off_items WHERE deadline_at < clock_timestamp()")
	p := b.work(t, nil)
	b.await(t, 2, "SELECT count(*) FROM runs WHERE endpoint_id = $1", [16]byte(e.ID))
	b.await(t, 0, "SELECT count(*) FROM one_off_items")
	p.stop(t)

	skipped, err := b.runs.Get(t.Context(), tenant.TenantID, runs.NewID(late.Slot, e.ID, 1, 0))
	require.NoError(t, err)
	require.Equal(t, runs.Skipped, skipped.Outcome.Status)
	require.Equal(t, runs.DeadlinePassed, skipped.Outcome.Reason)
	requests := target.Requests()
	require.Len(t, requests, 1)
	require.Equal(t, "in time", string(requests[0].Body))
	require.Equal(t, "/?day=7", requests[0].URI)
	require.Equal(t, "7", requests[0].Header.Get("X-Day"))
}
