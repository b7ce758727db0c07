package endpoints

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/governor"
)

// pacedEndpoint returns an endpoint with an interval of 10 s and clamps of 1 s and 60 s, on which
// the planner may act.
func pacedEndpoint() *Endpoint {
	spec := Defaults()
	spec.BaselineInterval, spec.MinInterval, spec.MaxInterval = 10*time.Second, time.Second, time.Minute
	spec.Planner = PlannerAct
	return &Endpoint{Version: 1, Spec: spec.Normalize()}
}

// follow runs an endpoint at its due times for a span. digest returns the digest of the answer at
// an instant.
func follow(t *testing.T, e *Endpoint, from time.Time, span time.Duration, digest func(time.Time) uint64) []Recorded {
	t.Helper()
	_, err := e.Replan(from)
	require.NoError(t, err)
	var list []Recorded
	for at := e.State.Due.At; at.Before(from.Add(span)); at = e.State.Due.At {
		recorded, err := e.AfterRun(at, Finished{
			Slot:       e.State.Due.Slot,
			Attempt:    1,
			Source:     e.State.Due.Source,
			StartedAt:  at,
			FinishedAt: at,
			Status:     "succeeded",
			Verdict:    Success,
			Digest:     digest(at),
		})
		require.NoError(t, err)
		list = append(list, recorded)
	}
	return list
}

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// everySecond is a digest that changes once a second.
func everySecond(at time.Time) uint64 { return uint64(at.Unix()) }

func never(time.Time) uint64 { return 1 }

func TestChangeRateSetsTheTempo(t *testing.T) {
	t.Parallel()
	e := pacedEndpoint()
	calm := follow(t, e, noon, time.Hour, never)
	last := calm[len(calm)-1]
	require.Equal(t, governor.SourceChangeRate, last.Due.Source)
	require.Greater(t, last.Input.ChangeRate.Wait, 20*time.Second, "an hour without a change")
	busy := follow(t, e, noon.Add(time.Hour), 2*time.Minute, everySecond)
	require.Less(t, busy[len(busy)-1].Input.ChangeRate.Wait, 3*time.Second)
	again := governor.Decide(busy[len(busy)-1].Input)
	require.Equal(t, busy[len(busy)-1].Decision, again, "the ledger holds the whole input")
}

func TestChangeRateNeedsAuthority(t *testing.T) {
	t.Parallel()
	for _, authority := range []Authority{PlannerOff, PlannerObserve, PlannerSuggest} {
		e := pacedEndpoint()
		e.Spec.Planner = authority
		for _, r := range follow(t, e, noon, 10*time.Minute, everySecond) {
			require.Equal(t, governor.SourceBaselineInterval, r.Due.Source)
		}
		require.Nil(t, e.State.Tempo)
	}
}

// TestChangeRateWithoutMinimumKeepsTheBaseline: without a minimum no endpoint runs faster than its
// baseline.
func TestChangeRateWithoutMinimumKeepsTheBaseline(t *testing.T) {
	t.Parallel()
	e := pacedEndpoint()
	e.Spec.MinInterval, e.Spec.MaxInterval = 0, 0
	for _, r := range follow(t, e, noon, time.Hour, everySecond) {
		if c := r.Input.ChangeRate; c != nil {
			require.GreaterOrEqual(t, c.Wait, 10*time.Second)
		}
	}
	calm := follow(t, e, noon.Add(time.Hour), 5*time.Hour, never)
	slowest := calm[len(calm)-1].Input.ChangeRate.Wait
	require.True(t, slowest > 40*time.Second && slowest <= 80*time.Second, "%s is not slower, or more than eight times", slowest)
}

func TestChangeRateOfACronNeedsABudget(t *testing.T) {
	t.Parallel()
	e := pacedEndpoint()
	e.Spec.BaselineInterval, e.Spec.MaxInterval, e.Spec.BaselineCron = 0, 0, "*/5 * * * *"
	for _, r := range follow(t, e, noon, time.Hour, everySecond) {
		require.Equal(t, governor.SourceBaselineCron, r.Due.Source)
	}
	e.Spec.Budget, e.Spec.MaxInterval = "60/h", 10*time.Minute
	list := follow(t, e, noon.Add(time.Hour), 3*time.Hour, everySecond)
	require.InEpsilon(t, 180, len(list), 0.2)
	require.Equal(t, "60/h", list[len(list)-1].Input.ChangeRate.Budget)
}

func TestSharedBudgetSetsThePrice(t *testing.T) {
	t.Parallel()
	e := pacedEndpoint()
	e.Shared = &SharedBudget{Name: "label team=shop 600/h", Price: 50}
	list := follow(t, e, noon, time.Hour, everySecond)
	dear := list[len(list)-1].Input.ChangeRate
	require.InDelta(t, 50, dear.Price, 0)
	require.Equal(t, e.Shared.Name, dear.Budget)
	e.Shared.Price = 1
	list = follow(t, e, noon.Add(time.Hour), time.Hour, everySecond)
	require.Less(t, list[len(list)-1].Input.ChangeRate.Wait, dear.Wait)
}

// TestOneOffRunsDoNotUpdateTheTempo: a one-off run does not update the filter, because its request
// may differ from the endpoint's.
func TestOneOffRunsDoNotUpdateTheTempo(t *testing.T) {
	t.Parallel()
	e := pacedEndpoint()
	follow(t, e, noon, 10*time.Minute, never)
	before := *e.State.Tempo
	at := noon.Add(10 * time.Minute)
	_, err := e.AfterRun(at, Finished{
		Slot:       at,
		Attempt:    1,
		Source:     governor.SourceManual,
		StartedAt:  at,
		FinishedAt: at,
		Status:     "succeeded",
		Verdict:    Success,
		Digest:     99,
	})
	require.NoError(t, err)
	require.Equal(t, before, *e.State.Tempo)
}

// TestPreviewLeavesTheTempoAlone: a preview works on copies of the endpoint.
func TestPreviewLeavesTheTempoAlone(t *testing.T) {
	t.Parallel()
	e := pacedEndpoint()
	follow(t, e, noon, 10*time.Minute, never)
	before := *e.State.Tempo
	_, err := e.Preview(noon.Add(10*time.Minute), 20)
	require.NoError(t, err)
	require.Equal(t, before, *e.State.Tempo)
}
