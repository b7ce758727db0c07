package items_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/change"
	"rubato/internal/claims"
	"rubato/internal/dispatch/request"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
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
	finish := func(edit func(*runs.Outcome)) *request.Noise {
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
		o.NoiseWatch, o.Noise, o.LookAgain = change.Watch{}.Encode(), []runs.Noise{{Path: "$.now", Pairs: 9, Gap: time.Second}}, true
	})
	require.Equal(t, []string{"$.now"}, known.Found)
	require.Equal(t, change.Watch{}.Encode(), known.Watch.Encode())
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM hints WHERE ended_at IS NULL"), "the next look replaced the one that was used")
	require.Equal(t, 2, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM hints"))

	_, err := b.Service.JudgeNoise(t.Context(), storetest.Tenant, e.ID, endpoints.NoiseVerdict{Path: "$.now", State: endpoints.NoiseRejected})
	require.NoError(t, err)
	known = finish(func(o *runs.Outcome) {
		o.NoiseWatch, o.Noise = watch.Encode(), []runs.Noise{{Path: "$.now"}, {Path: "$.b", Pairs: 10, Gap: 1500 * time.Millisecond}}
	})
	require.Equal(t, []string{"$.b"}, known.Found)
	require.Equal(t, []string{"$.now"}, known.Rejected, "what a person rejected stays rejected")
	require.Nil(t, b.Get(t, e.ID).State.OneShotHint)
	found, searched, err := b.Service.Noise(t.Context(), storetest.Tenant, e.ID)
	require.NoError(t, err)
	require.True(t, searched)
	require.Len(t, found, 2)
	require.Equal(t, endpoints.Finding{Path: "$.b", Pairs: 10, Gap: 1500 * time.Millisecond, FoundAt: found[0].FoundAt}, found[0])
	require.Equal(t, []any{"$.now", 9, "tester"}, []any{found[1].Path, found[1].Pairs, found[1].RejectedBy})

	b.Exec(t, "UPDATE noise_watches SET state = '\\x00'")
	known = finish(func(*runs.Outcome) {})
	require.Equal(t, change.Watch{}.Encode(), known.Watch.Encode(), "a state that cannot be read begins anew")
}

// TestAVerdictOnNoiseRevokesClaims has a worker hold the claim of the next run while a user rejects
// a finding: the run must start with the verdict.
func TestAVerdictOnNoiseRevokesClaims(t *testing.T) {
	t.Parallel()
	b := setup(t)
	me := storetest.Worker{1}
	e := b.Register(t, func(s *endpoints.Spec) { s.BaselineInterval = time.Hour })
	b.Exec(t, `INSERT INTO noise_watches (endpoint_id, state, updated_at) VALUES ($1, '\x00', now())`, e.ID)
	b.Exec(t, "INSERT INTO noise (endpoint_id, path, found_at, pairs, gap_ms) VALUES ($1, '$.now', now(), 10, 1000)", e.ID)
	claimed := b.Claim(t, me, 0)
	require.Len(t, claimed, 1)
	token := func() int64 { return storetest.Query[int64](t, b.Bundle, "SELECT claim_token FROM schedules") }
	judge := func(path string, state endpoints.NoiseState) (endpoints.Finding, error) {
		return b.Service.JudgeNoise(t.Context(), storetest.Tenant, e.ID, endpoints.NoiseVerdict{Path: path, State: state})
	}

	_, err := judge("$.other", endpoints.NoiseRejected)
	require.Equal(t, errs.NotFound, errs.CodeOf(err))
	found, err := judge("$.now", endpoints.NoiseIgnored)
	require.NoError(t, err)
	require.Equal(t, endpoints.NoiseIgnored, found.State())
	require.Equal(t, claimed[0].Token, token(), "it was ignored before, so nothing changed")

	found, err = judge("$.now", endpoints.NoiseRejected)
	require.NoError(t, err)
	require.Equal(t, endpoints.NoiseRejected, found.State())
	require.Greater(t, token(), claimed[0].Token)
	again := b.Claim(t, me, 0)
	targets, err := b.Executions.Targets(t.Context(), again)
	require.NoError(t, err)
	require.Equal(t, []string{"$.now"}, targets[e.ID].Noise.Rejected)

	found, err = judge("$.now", endpoints.NoiseIgnored)
	require.NoError(t, err)
	require.Zero(t, found.RejectedAt)
	actions := storetest.Query[[]string](t, b.Bundle, "SELECT array_agg(action || coalesce(after->>'noise', '') ORDER BY id) FROM audit_log WHERE action <> 'register'")
	require.Equal(t, []string{`reject{"$.now": "rejected"}`, `approve{"$.now": "ignored"}`}, actions)
	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, e.ID, 0))
	_, err = judge("$.now", endpoints.NoiseRejected)
	require.Equal(t, errs.Conflict, errs.CodeOf(err))
}
