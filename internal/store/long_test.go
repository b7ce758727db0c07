package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/zombie"
)

// TestARunOfHalfAnHourIsNobodyElses steps through the longest execution that there is, a heartbeat every 20 s, with everybody else after
// it all the time: workers that claim, and a sweeper that believes in everything.
func TestARunOfHalfAnHourIsNobodyElses(t *testing.T) {
	t.Parallel()
	const long = 30 * time.Minute
	b := setup(t)
	now := b.at(noon())
	e := b.register(t, func(s *endpoints.Spec) { s.StartAt, s.MaxExecutionTime, s.Timeout = now, long, long })
	me := worker{1}
	c := b.claimOne(t, me)
	starts := startsOf([]claims.Claim{c})
	starts[0].Execution = long
	started, err := b.executions.Start(t.Context(), dispatch.Starting{Worker: me, List: starts, LockTTL: time.Minute})
	require.NoError(t, err)
	require.Len(t, started, 1)
	held := []claims.Held{{EndpointID: c.EndpointID, RunID: started[0].RunID, Token: c.Token}}
	believing := zombie.Signal{StaleAfter: 90 * time.Second, TrustSilence: true, Valve: time.Second}
	for since := 20 * time.Second; since <= long; since += 20 * time.Second {
		b.at(now.Add(since))
		require.Empty(t, b.lost(t, believing), "after %s, although the worker has no row at all", since)
		require.Empty(t, b.claim(t, worker{2}, time.Hour))
		settled, err := b.sweeps.Settle(t.Context(), believing, b.live(t))
		require.NoError(t, err)
		require.False(t, settled)
		kept, _, err := b.claims.ExtendLocks(t.Context(), me, held, time.Minute)
		require.NoError(t, err)
		require.Len(t, kept, 1)
	}
	require.Empty(t, b.start(t, me, c), "and it is started once")
	require.Empty(t, b.finish(t, me, 0, succeed(me, c, started[0])).Late)
	require.Equal(t, "succeeded", b.get(t, e.ID).State.LastRun.Status)
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM runs WHERE status <> 'skipped'"))
}
