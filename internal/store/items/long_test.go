package items_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/store/storetest"
	"rubato/internal/zombie"
)

// TestHalfHourRunIsNeverTakenOver steps through the longest execution with a heartbeat every 20 s.
// Other workers claim all the time, and a sweeper acts on every signal.
func TestHalfHourRunIsNeverTakenOver(t *testing.T) {
	t.Parallel()
	const long = 30 * time.Minute
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.StartAt, s.MaxExecutionTime, s.Timeout = now, long, long })
	me := storetest.Worker{1}
	c := b.ClaimOne(t, me)
	starts := storetest.StartsOf([]claims.Claim{c})
	starts[0].Execution = long
	started, err := b.Executions.Start(t.Context(), dispatch.Starting{Worker: me, List: starts, LockTTL: time.Minute})
	require.NoError(t, err)
	require.Len(t, started, 1)
	held := []claims.FencedRun{{EndpointID: c.EndpointID, RunID: started[0].RunID, Token: c.Token}}
	believing := zombie.Signal{StaleAfter: 90 * time.Second, TrustSilence: true, Valve: time.Second}
	for since := 20 * time.Second; since <= long; since += 20 * time.Second {
		b.At(now.Add(since))
		require.Empty(t, b.ListLost(t, believing), "after %s, although the worker has no row at all", since)
		require.Empty(t, b.Claim(t, storetest.Worker{2}, time.Hour))
		settled, err := b.Sweeps.Settle(t.Context(), believing, b.live(t))
		require.NoError(t, err)
		require.False(t, settled)
		kept, _, err := b.Claims.ExtendLocks(t.Context(), me, held, time.Minute)
		require.NoError(t, err)
		require.Len(t, kept, 1)
	}
	require.Empty(t, b.Start(t, me, c), "and it is started once")
	require.Empty(t, b.Finish(t, me, 0, storetest.Succeed(me, c, started[0])).Late)
	require.Equal(t, "succeeded", b.Get(t, e.ID).State.LastRun.Status)
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM runs WHERE status <> 'skipped'"))
}
