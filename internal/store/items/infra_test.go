package items_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/store/storetest"
	"rubato/internal/store/views"
)

// hourly registers an endpoint with default settings that runs each hour.
func (b *bundle) hourly(t *testing.T) *endpoints.Endpoint {
	t.Helper()
	return b.Register(t, func(s *endpoints.Spec) { s.Key, s.BaselineInterval = "hourly", time.Hour })
}

// cut returns the run of a start that ended with its worker.
func cut(by storetest.Worker, c claims.Claim, s dispatch.Started) runs.Run {
	run := storetest.Succeed(by, c, s)
	run.Outcome = runs.Outcome{Status: runs.Lost, Reason: runs.Shutdown, MaybeSent: true, Error: "cut"}
	return run
}

// TestALostRunIsTriedAgainUnderItsBudget loses every run of a due time: by the sweep, by finishes,
// and by one that keeps the next claim.
func TestALostRunIsTriedAgainUnderItsBudget(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.hourly(t)
	slot := e.State.Due.Slot
	_, s := b.StartOne(t, storetest.Worker{1})
	b.At(now.Add(66 * time.Second))
	b.SettleLost(t, 1)
	ids := []runs.ID{s.RunID}

	state := b.Get(t, e.ID).State
	require.Equal(t, endpoints.LastRun{
		Slot: slot, Attempt: 1, Status: "lost", StartedAt: state.LastRun.StartedAt, FinishedAt: state.LastRun.FinishedAt,
	}, *state.LastRun)
	b.At(state.Due.At)
	c, s := b.StartOne(t, storetest.Worker{2})
	require.Equal(t, 1, c.InfraAttempt)
	require.Equal(t, 1, b.live(t).InfraAttempt)
	require.Equal(t, 1, b.Get(t, e.ID).State.Running.InfraAttempt)
	done := b.Finish(t, storetest.Worker{2}, time.Minute, cut(storetest.Worker{2}, c, s))
	ids = append(ids, s.RunID)

	require.Len(t, done.Kept, 1)
	c = done.Kept[0]
	require.Equal(t, 2, c.InfraAttempt, "a claim that stays with its worker knows the attempt")
	again := b.Finish(t, storetest.Worker{2}, time.Minute, cut(storetest.Worker{2}, claims.Claim{
		EndpointID: e.ID, Slot: slot, Attempt: 1, InfraAttempt: 1, Source: c.Source, Token: c.Token - 1,
	}, s))
	require.Equal(t, done.Kept, again.Kept, "so does one that is told again")
	for infra := 2; infra <= endpoints.InfraBudget; infra++ {
		b.At(c.PlannedAt)
		started := b.Start(t, storetest.Worker{2}, c)
		require.Len(t, started, 1)
		ids = append(ids, started[0].RunID)
		b.Finish(t, storetest.Worker{2}, 0, cut(storetest.Worker{2}, c, started[0]))
		state = b.Get(t, e.ID).State
		require.Equal(t, infra, state.LastRun.InfraAttempt)
		if infra < endpoints.InfraBudget {
			b.At(state.Due.At)
			c = b.ClaimOne(t, storetest.Worker{2})
		}
	}

	require.Equal(t, slot.Add(time.Hour), state.Due.Slot, "the budget is used up")
	require.Zero(t, state.Due.InfraAttempt)
	for infra, id := range ids {
		require.Equal(t, runs.NewID(slot, e.ID, 1, infra), id)
		run := b.Run(t, id)
		require.Equal(t, infra, run.InfraAttempt)
		require.Equal(t, 1, run.Attempt)
		require.Equal(t, infra < endpoints.InfraBudget, len(run.Decision.Steps) > 0)
	}
	require.Contains(t, string(b.Run(t, ids[0]).Decision.Steps), "infrastructure attempt 1 of 3 after worker_lost")
	require.Contains(t, string(b.Run(t, ids[2]).Decision.Steps), "infrastructure attempt 3 of 3 after shutdown")
}

// TestAChangeKeepsTheInfrastructureAttempt edits an endpoint with a planned infrastructure attempt,
// alone and in bulk.
func TestAChangeKeepsTheInfrastructureAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.hourly(t)
	c, s := b.StartOne(t, storetest.Worker{1})
	b.Finish(t, storetest.Worker{1}, 0, cut(storetest.Worker{1}, c, s))
	waiting := b.Get(t, e.ID).State.Due
	require.Equal(t, 1, waiting.InfraAttempt)
	b.Edit(t, e.ID, func(s *endpoints.Spec) { s.Description = "anew" })
	require.Equal(t, waiting, b.Get(t, e.ID).State.Due)
	b.Upsert(t, endpoints.Mode{}, storetest.Wanted("hourly", func(s *endpoints.Spec) { s.BaselineInterval, s.Description = time.Hour, "once more" }))
	require.Equal(t, waiting, b.Get(t, e.ID).State.Due)
	require.True(t, waiting.At.After(now))
}

// TestLostRunDoesNotCountAsPrompt has an infrastructure attempt start long after its due time.
func TestLostRunDoesNotCountAsPrompt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	e := b.hourly(t)
	c, s := b.StartOne(t, storetest.Worker{1})
	b.Finish(t, storetest.Worker{1}, 0, cut(storetest.Worker{1}, c, s))
	b.At(b.Get(t, e.ID).State.Due.At)
	b.RunOne(t, storetest.Worker{1})
	overview, err := views.NewStats(b.DB).Overview(t.Context(), e.TenantID)
	require.NoError(t, err)
	require.Less(t, overview.StartLag.P99, time.Second)
}
