package items_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/store/storetest"
)

// TestARunFromClaimToFinish walks the main path once.
func TestARunFromClaimToFinish(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	me := storetest.Worker{1}

	list := b.Claim(t, me, 10*time.Second)
	require.Len(t, list, 1)
	c := list[0]
	require.Equal(t, [16]byte(e.ID), c.EndpointID)
	require.Equal(t, int64(1), c.Token)
	require.Equal(t, e.State.Due.At, c.PlannedAt)
	require.Empty(t, b.Claim(t, storetest.Worker{2}, 10*time.Second), "what is claimed cannot be claimed again")

	started := b.Start(t, me, c)
	require.Len(t, started, 1)
	live, err := b.Runs.Get(t.Context(), storetest.Tenant.TenantID, started[0].RunID)
	require.NoError(t, err)
	require.Equal(t, runs.Running, live.Outcome.Status)

	done := b.Finish(t, me, 0, storetest.Succeed(me, c, started[0]))
	require.Empty(t, done.Late)
	require.Empty(t, done.Kept)

	run, err := b.Runs.Get(t.Context(), storetest.Tenant.TenantID, started[0].RunID)
	require.NoError(t, err)
	require.Equal(t, runs.Succeeded, run.Outcome.Status)
	require.Equal(t, "ok", string(run.Outcome.Body))
	require.Equal(t, c.Slot.Add(time.Minute), run.Decision.NextRunAt)

	after, _, err := b.Service.Get(t.Context(), storetest.Tenant, e.ID)
	require.NoError(t, err)
	require.Nil(t, after.State.Running)
	require.Equal(t, c.Slot.Add(time.Minute), after.State.Due.At)
	require.Equal(t, c.Slot, after.State.Anchor)
	decided, err := b.Service.Explain(t.Context(), storetest.Tenant, e.ID)
	require.NoError(t, err)
	require.Equal(t, endpoints.CauseFinish, decided.Cause)
	require.Equal(t, after.State.Due.At, decided.Due.At)
}
