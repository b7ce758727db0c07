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
	require.Equal(t, 20*time.Second, decide(failing(http.MethodGet)).every)
	require.Zero(t, decide(failing(http.MethodPost)).every)
}

// TestARecoveryBeginsWithASuccess has an attempt fail that is tried again, so that no failure is counted.
func TestARecoveryBeginsWithASuccess(t *testing.T) {
	t.Parallel()
	c := boring(http.MethodGet)
	c.Outcomes[0].Status, c.Outcomes[0].StatusCode = "failed", 500
	o := decide(c)
	require.True(t, o.keep)
	require.Zero(t, o.every)
	require.NotContains(t, o.why, "succeeds")

	c.Outcomes[0], c.Outcomes[1] = c.Outcomes[1], c.Outcomes[0]
	o = decide(c)
	require.Equal(t, 30*time.Second, o.every)
	require.Contains(t, o.why, "it succeeds again (1 in a row")
}
