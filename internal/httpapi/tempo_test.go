package httpapi_test

import (
	"math"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTempoOfAnEndpointWithoutAnswers(t *testing.T) {
	t.Parallel()
	s := newService(t)
	got := s.call("GET", "/v1/endpoints/"+s.register(`{"name":"p","url":"https://p.example/","baselineIntervalMs":60000,"maxIntervalMs":90000,"budget":"600/h"}`)+"/tempo", "").is(http.StatusOK)
	require.Equal(t, "planner is observe, so the baseline sets the interval; no two answers could be compared yet", got["why"])
	require.Equal(t, false, got["steers"])
	for _, unknown := range []string{"changesPerHour", "price", "waitMs", "nextLook"} {
		require.Contains(t, got, unknown)
		require.Nil(t, got[unknown], unknown)
	}
	require.InDelta(t, 1000, got["minWaitMs"], 0, "a budget bounds the requests")
	require.InDelta(t, 90000, got["maxWaitMs"], 0)
	require.Equal(t, map[string]any{"name": "endpoint", "budget": "600/h", "everyMs": 6000.}, got["budget"])
	require.InEpsilon(t, 3600*math.Log(4.0/3)/5, got["likeliestChangesPerHour"], 1e-9, "ten of forty looks five seconds apart")
	record := got["record"].(map[string]any)
	require.Equal(t, []any{42., 40., 10.}, []any{record["runs"], record["compared"], record["changes"]})
}

func TestTempoNamesTheSharedBudget(t *testing.T) {
	t.Parallel()
	s := newService(t)
	got := s.call("GET", "/v1/endpoints/"+s.register(minimal)+"/tempo", "").is(http.StatusOK)
	require.Equal(t, map[string]any{"name": "tenant", "budget": "60/m", "everyMs": 1000.}, got["budget"])
	steps := got["steps"].([]any)
	require.NotEmpty(t, steps)
	require.InDelta(t, 10000, got["stepMs"], 0)
}
