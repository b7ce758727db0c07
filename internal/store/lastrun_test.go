package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch"
	"rubato/internal/template"
)

// TestAStartKnowsOfTheRunBeforeWhereItAsks: of its own endpoint's newest run, whatever the other one's did, and nothing unasked.
func TestAStartKnowsOfTheRunBeforeWhereItAsks(t *testing.T) {
	t.Parallel()
	b, me := setup(t), worker{1}
	asks, other := b.register(t, nil), b.register(t, nil)
	now := b.at(noon())
	// round starts both and finishes them: the one that asks with a failure, the other one with a success.
	round := func() map[[16]byte]dispatch.Started {
		list := b.claim(t, me, horizon)
		require.Len(t, list, 2)
		starts := startsOf(list)
		for i := range starts {
			starts[i].Last = starts[i].Claim.EndpointID == asks.ID
		}
		started, err := b.executions.Start(t.Context(), dispatch.Starting{Worker: me, List: starts, LockTTL: time.Minute})
		require.NoError(t, err)
		require.Len(t, started, 2)
		found := map[[16]byte]dispatch.Started{}
		for _, s := range started {
			found[s.EndpointID] = s
		}
		for _, c := range list {
			run := succeed(me, c, found[c.EndpointID])
			if c.EndpointID == asks.ID {
				run = fail(me, c, found[c.EndpointID])
			}
			b.finish(t, me, 0, run)
		}
		return found
	}
	first := round()
	require.Zero(t, first[asks.ID].Last, "it never ran")
	b.at(now.Add(2 * time.Minute))
	second := round()
	want := template.Last{Status: "failed", StatusCode: 503, FinishedAt: first[asks.ID].StartedAt} // The clock stood still, and no run ends after its finish.
	require.Equal(t, want, second[asks.ID].Last)
	require.Zero(t, second[other.ID].Last, "nobody asked")
}
