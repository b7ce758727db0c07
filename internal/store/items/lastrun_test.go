package items_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch"
	"rubato/internal/store/storetest"
	"rubato/internal/template"
)

// TestStartsReadTheLastRunOnDemand reads the newest run of the endpoint itself, and only if its
// template uses it.
func TestStartsReadTheLastRunOnDemand(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	asks, other := b.Register(t, nil), b.Register(t, nil)
	now := b.At(storetest.Noon())
	// round starts both and finishes them: the one that asks with a failure, the other one with a
	// success.
	round := func() map[[16]byte]dispatch.Started {
		list := b.Claim(t, me, storetest.Horizon)
		require.Len(t, list, 2)
		starts := storetest.StartsOf(list)
		for i := range starts {
			starts[i].Last = starts[i].Claim.EndpointID == asks.ID
		}
		started, err := b.Executions.Start(t.Context(), dispatch.Starting{Worker: me, List: starts, LockTTL: time.Minute})
		require.NoError(t, err)
		require.Len(t, started, 2)
		found := map[[16]byte]dispatch.Started{}
		for _, s := range started {
			found[s.EndpointID] = s
		}
		for _, c := range list {
			run := storetest.Succeed(me, c, found[c.EndpointID])
			if c.EndpointID == asks.ID {
				run = storetest.Fail(me, c, found[c.EndpointID])
			}
			b.Finish(t, me, 0, run)
		}
		return found
	}
	first := round()
	require.Zero(t, first[asks.ID].Last, "it never ran")
	b.At(now.Add(2 * time.Minute))
	second := round()
	want := template.Last{Status: "failed", StatusCode: 503, FinishedAt: first[asks.ID].StartedAt} // The clock stood still, and no run ends after its finish.
	require.Equal(t, want, second[asks.ID].Last)
	require.Zero(t, second[other.ID].Last, "nobody asked")
}
