package items_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/change"
	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/store/storetest"
)

// TestNoiseIsKeptWithItsEndpoint finishes three runs: one that asks for a close look, that look,
// which finds noise, and one that finds it again after a person rejected it.
func TestNoiseIsKeptWithItsEndpoint(t *testing.T) {
	t.Parallel()
	b := setup(t)
	me := storetest.Worker{1}
	e := b.Register(t, func(s *endpoints.Spec) { s.Planner, s.BaselineInterval = endpoints.PlannerAct, time.Hour })
	digest, members := change.Form{}.Digest([]byte(`{"now":1,"v":1}`), nil)
	watch := change.Watch{}.After(change.Look{At: time.Now(), Digest: digest, Members: members}).Watch
	// finish finishes a run and returns the noise that the next run of the endpoint reads.
	finish := func(edit func(*runs.Outcome)) *dispatch.Noise {
		b.Exec(t, "UPDATE schedules SET due_at = now(), planned_at = now(), slot = date_trunc('milliseconds', now())")
		b.Exec(t, "UPDATE hints SET run_at = now() - interval '1 s' WHERE ended_at IS NULL") // The run is the look.
		c, s := b.StartOne(t, me)
		run := storetest.Succeed(me, c, s)
		edit(&run.Outcome)
		require.Empty(t, b.Finish(t, me, 0, run).Late)
		targets, err := b.Executions.Targets(t.Context(), []claims.Claim{{EndpointID: e.ID, Version: e.Version}})
		require.NoError(t, err)
		return targets[e.ID].Noise
	}

	known := finish(func(o *runs.Outcome) { o.NoiseWatch, o.LookAgain = watch.Encode(), true })
	require.Equal(t, watch.Encode(), known.Watch.Encode())
	require.Empty(t, known.Found)
	look := b.Get(t, e.ID).State.OneShotHint
	require.NotNil(t, look, "it is stored and read again")
	require.Equal(t, endpoints.NoiseAuthor, look.Author)

	known = finish(func(o *runs.Outcome) {
		o.NoiseWatch, o.Noise, o.LookAgain = change.Watch{}.Encode(), []string{"$.now"}, true
	})
	require.Equal(t, []string{"$.now"}, known.Found)
	require.Equal(t, change.Watch{}.Encode(), known.Watch.Encode())
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM hints WHERE ended_at IS NULL"), "the next look replaced the one that was used")
	require.Equal(t, 2, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM hints"))

	b.Exec(t, "UPDATE noise SET rejected_at = now(), rejected_by = 'ops'")
	known = finish(func(o *runs.Outcome) { o.NoiseWatch, o.Noise = watch.Encode(), []string{"$.now", "$.b"} })
	require.Equal(t, []string{"$.b"}, known.Found)
	require.Equal(t, []string{"$.now"}, known.Rejected, "what a person rejected stays rejected")
	require.Nil(t, b.Get(t, e.ID).State.OneShotHint)

	b.Exec(t, "UPDATE noise_watches SET state = '\\x00'")
	known = finish(func(*runs.Outcome) {})
	require.Equal(t, change.Watch{}.Encode(), known.Watch.Encode(), "a state that cannot be read begins anew")
}
