package endpoints_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/store/storetest"
)

// poisonHint gives an endpoint a hint that no program writes, and that the program panics over.
func (b *bundle) poisonHint(t *testing.T, id endpoints.ID) {
	t.Helper()
	b.Exec(t, "ALTER TABLE hints DROP CONSTRAINT hints_shape_check")
	b.Exec(t, `INSERT INTO hints (endpoint_id, kind, expires_at, reason, author, created_at)
		VALUES ($1, 'interval', now() + interval '3 days', '', 'hand', now())`, id)
	b.Exec(t, "UPDATE schedules SET hinted = true WHERE endpoint_id = $1", id)
}

// underWay starts every endpoint, and returns their runs as succeeded.
func (b *bundle) underWay(t *testing.T, by storetest.Worker) map[endpoints.ID]runs.Run {
	t.Helper()
	list := b.Claim(t, by, storetest.Horizon)
	_, err := b.Executions.Targets(t.Context(), list)
	require.NoError(t, err)
	claimed := map[[16]byte]claims.Claim{}
	for _, c := range list {
		claimed[c.EndpointID] = c
	}
	ended := map[endpoints.ID]runs.Run{}
	for _, s := range b.Start(t, by, list...) {
		ended[s.EndpointID] = storetest.Succeed(by, claimed[s.EndpointID], s)
	}
	return ended
}

// requirePutAside requires that the run is recorded as it ended, and its endpoint paused with the
// reason.
func (b *bundle) requirePutAside(t *testing.T, run runs.Run, status runs.Status) {
	t.Helper()
	require.Equal(t, status, b.Run(t, run.ID).Outcome.Status)
	require.Equal(t, "quarantined: it leads to a fault inside Rubato; see the log at level error",
		storetest.Query[string](t, b.Bundle, "SELECT pause_reason FROM schedules WHERE endpoint_id = $1 AND run_id IS NULL AND claimed_by IS NULL", run.EndpointID))
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM decisions WHERE endpoint_id = $1 AND cause = 'quarantine'", run.EndpointID))
}

// TestADecisionThatPanicsHurtsNoOtherRunOfItsBatch ends two runs at once; the governor panics over
// one of them.
func TestADecisionThatPanicsHurtsNoOtherRunOfItsBatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sick, sound := b.Register(t, nil), b.Register(t, nil)
	ended := b.underWay(t, storetest.Worker{1})
	b.States.PoisonCron(sick.ID)
	done := b.Finish(t, storetest.Worker{1}, 0, ended[sick.ID], ended[sound.ID])
	require.Len(t, done.Decided, 1)
	b.requirePutAside(t, ended[sick.ID], runs.Succeeded)
	require.Equal(t, runs.Succeeded, b.Run(t, ended[sound.ID].ID).Outcome.Status)
	require.Empty(t, b.Get(t, sound.ID).State.PauseReason)
}

// TestRunWithPanickingRowsIsRecordedAlone ends two runs. The rows of one make the program panic
// before it decides anything.
func TestRunWithPanickingRowsIsRecordedAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sick, sound := b.Register(t, nil), b.Register(t, nil)
	ended := b.underWay(t, storetest.Worker{1})
	b.poisonHint(t, sick.ID)
	whole := dispatch.Finish{Worker: storetest.Worker{1}, Runs: []runs.Run{ended[sick.ID], ended[sound.ID]}, LockTTL: time.Minute}
	_, err := b.Executions.Finish(t.Context(), whole)
	require.ErrorContains(t, err, "a fault inside Rubato", "the worker ends them one by one")
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM runs"))
	for _, run := range whole.Runs {
		one := whole
		one.Runs = []runs.Run{run}
		_, err := b.Executions.Finish(t.Context(), one)
		require.NoError(t, err)
	}
	b.requirePutAside(t, ended[sick.ID], runs.Succeeded)
	require.Equal(t, runs.Succeeded, b.Run(t, ended[sound.ID].ID).Outcome.Status)
}

// TestLostRunWithPanickingRowsIsSettled leaves such a run to the sweeper.
func TestLostRunWithPanickingRowsIsSettled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	sick := b.Register(t, nil)
	ended := b.underWay(t, storetest.Worker{1})
	b.poisonHint(t, sick.ID)
	b.At(now.Add(66 * time.Second))
	b.SettleLost(t, 1)
	b.requirePutAside(t, ended[sick.ID], runs.Lost)
}
