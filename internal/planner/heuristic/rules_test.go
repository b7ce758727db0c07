package heuristic

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/planner"
)

// boring returns the case of an endpoint whose answers never change.
func boring(method string) planner.Case {
	at := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	c := planner.Case{At: at, Method: method, Tempo: time.Minute, Usual: time.Minute, Baseline: planner.Baseline{Interval: time.Minute}}
	for n := range planner.MaxOutcomes {
		c.Outcomes = append(c.Outcomes, planner.Outcome{
			StartedAt: at.Add(-time.Duration(n) * time.Minute), Status: "succeeded", StatusCode: 200, Digest: 7,
		})
	}
	return c
}

func TestOnlyCallsThatLookAreMadeLessOften(t *testing.T) {
	t.Parallel()
	require.Equal(t, 2*time.Minute, decide(boring(http.MethodGet)).every)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		require.Zero(t, decide(boring(method)).every, method)
	}
}

func TestOnlyCallsThatLookAreMadeMoreOftenWhenTheyFail(t *testing.T) {
	t.Parallel()
	failing := func(method string) planner.Case {
		c := boring(method)
		c.FailureCount, c.Outcomes[0].Status, c.Outcomes[0].StatusCode = 1, "failed", 500
		return c
	}
	require.Equal(t, 15*time.Second, decide(failing(http.MethodGet)).every)
	require.Zero(t, decide(failing(http.MethodPost)).every)
}
