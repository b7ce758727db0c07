package httpapi_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/httpapi"
	"rubato/internal/runs"
	"rubato/internal/simulate"
)

func TestShadowWithoutRunsHasNoScore(t *testing.T) {
	t.Parallel()
	s := newService(t)
	path := "/v1/endpoints/" + s.register(minimal) + "/shadow"
	got := s.call("GET", path, "").is(http.StatusOK)
	require.Equal(t, "Fewer than two recorded answers can be compared.", got["summary"])
	require.Equal(t, []any{"act", "observe", 0., nil}, []any{got["policy"], got["inForce"], got["runs"], got["score"]})
}

func TestShadowOfAnActingEndpointIsItsBaseline(t *testing.T) {
	t.Parallel()
	s := newService(t)
	id := s.register(`{"name":"p","url":"https://p.example/","baselineIntervalMs":60000,"maxIntervalMs":90000,"planner":"act"}`)
	require.Equal(t, "off", s.call("GET", "/v1/endpoints/"+id+"/shadow", "").is(http.StatusOK)["policy"])
}

func TestShadowRefusesPoliciesThatItCannotScore(t *testing.T) {
	t.Parallel()
	s := newService(t)
	id := s.register(`{"name":"c","url":"https://c.example/","baselineCron":"*/5 * * * *"}`)
	for _, policy := range []string{"fixed", "best"} {
		got := s.call("GET", "/v1/endpoints/"+id+"/shadow?policy="+policy, "").is(http.StatusBadRequest)
		require.Contains(t, fmt.Sprint(got["errors"]), "field:policy", policy)
	}
}

// TestShadowSaysWhatAPolicyIsWorth scores on a record of a minute apart in which every fourth
// answer is new: half as many runs find each change a minute later or in the same run.
func TestShadowSaysWhatAPolicyIsWorth(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	var newest []runs.Run
	for i := range 41 {
		at := noon.Add(time.Duration(40-i) * time.Minute)
		run := runs.Run{StartedAt: at, FinishedAt: at}
		run.Outcome.Status, run.Outcome.BodyDigest = runs.Succeeded, uint64(1+(40-i)/4)
		newest = append(newest, run)
	}
	newest = append([]runs.Run{{StartedAt: noon.Add(time.Hour), FinishedAt: noon.Add(time.Hour), Source: "manual"}}, newest...)
	spec := endpoints.Defaults()
	spec.BaselineInterval, spec.Planner = 2*time.Minute, endpoints.PlannerObserve
	policy, ok := simulate.Named("off", spec)
	require.True(t, ok)

	got, err := httpapi.ShadowOf(t.Context(), &endpoints.Endpoint{Spec: spec}, policy, newest)

	require.NoError(t, err)
	require.EqualValues(t, 41, got.Runs, "the one-off run does not count")
	require.Equal(t, noon, *got.From)
	require.EqualValues(t, 10, got.Changes)
	require.InDelta(t, 0.5, got.Score.RunsSaved.Least, 0.02)
	require.LessOrEqual(t, got.Score.SoonerMs.Most, 0.)
	require.Contains(t, got.Summary, "With off it would have made 49 % fewer runs")
}
