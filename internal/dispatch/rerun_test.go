package dispatch_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/egress/egresstest"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// TestARerunKeepsTheIdempotencyKeyIfAsked repeats a one-off run under its own key and under a new
// one. The target sees the body of the repeated run both times.
func TestARerunKeepsTheIdempotencyKeyIfAsked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	e := b.register(t, target, func(s *endpoints.Spec) {
		s.Method, s.Body, s.StartAt = "POST", "plain", time.Now().Add(time.Hour)
		s.Query = map[string]string{"due": "{{run.scheduledFor}}"}
	})
	first, err := b.service.RunNow(t.Context(), tenant, e.ID, endpoints.OneOffRequest{Override: endpoints.Override{Body: new("order 7")}})
	require.NoError(t, err)
	p := b.work(t, nil)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE endpoint_id = $1", [16]byte(e.ID))
	id := runs.NewID(first.Slot, e.ID, 1, 0)
	run, err := b.runs.Get(t.Context(), tenant.TenantID, id)
	require.NoError(t, err)
	past := endpoints.RecordedRun{RunID: id, Endpoint: e.ID, Slot: run.ScheduledFor, At: run.ClaimedAt, Key: id.String()}
	for n, same := range []bool{true, false} {
		_, err := b.service.Rerun(t.Context(), tenant, endpoints.Rerun{Past: past, SameKey: same})
		require.NoError(t, err)
		b.await(t, n+2, "SELECT count(*) FROM runs WHERE endpoint_id = $1", [16]byte(e.ID))
	}
	p.stop(t)

	var bodies, keys, dues []string
	for _, r := range target.Requests() {
		bodies, keys = append(bodies, string(r.Body)), append(keys, r.Header.Get("Idempotency-Key"))
		dues = append(dues, r.URI)
	}
	require.Equal(t, []string{"order 7", "order 7", "order 7"}, bodies)
	require.Equal(t, keys[0], keys[1])
	require.NotEqual(t, keys[0], keys[2])
	require.Equal(t, slices.Repeat([]string{dues[0]}, 3), dues, "the requests are about the same due time")
	require.Contains(t, dues[0], "?due=2")
}
