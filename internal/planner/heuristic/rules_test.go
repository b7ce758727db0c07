package heuristic

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/planner"
)

// boring returns the case of an endpoint with answers that never change.
func boring(method string) planner.Snapshot {
	at := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	c := planner.Snapshot{At: at, Method: method, Tempo: time.Minute, Usual: time.Minute, Baseline: planner.Baseline{Interval: time.Minute}}
	for n := range planner.MaxOutcomes {
		c.Outcomes = append(c.Outcomes, planner.Outcome{
			StartedAt: at.Add(-time.Duration(n) * time.Minute), Status: "succeeded", StatusCode: 200, Digest: 7,
		})
	}
	return c
}

func TestOnlyReadsAreSlowedDown(t *testing.T) {
	t.Parallel()
	seldom := func(method string) planner.Snapshot {
		c := boring(method)
		c.ByChanges = 5 * time.Minute
		return c
	}
	require.Equal(t, 2*time.Minute, firstRule(seldom(http.MethodGet)).interval)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		require.Zero(t, firstRule(seldom(method)).interval, method)
	}
}

func TestOnlyFailingReadsAreSpedUp(t *testing.T) {
	t.Parallel()
	failing := func(method string) planner.Snapshot {
		c := boring(method)
		c.FailureCount, c.Outcomes[0].Status, c.Outcomes[0].StatusCode = 1, "failed", 500
		return c
	}
	require.Equal(t, 20*time.Second, firstRule(failing(http.MethodGet)).interval)
	require.Zero(t, firstRule(failing(http.MethodPost)).interval)
}

// TestRecoveryBeginsWithASuccess has a failed attempt with a retry ahead, which the failure count
// does not include. It must not read as a recovery.
func TestRecoveryBeginsWithASuccess(t *testing.T) {
	t.Parallel()
	c := boring(http.MethodGet)
	c.Outcomes[0].Status, c.Outcomes[0].StatusCode = "failed", 500
	o := firstRule(c)
	require.True(t, o.keepHints)
	require.Zero(t, o.interval)
	require.NotContains(t, o.reason, "succeeds")

	c.Outcomes[0], c.Outcomes[1] = c.Outcomes[1], c.Outcomes[0]
	o = firstRule(c)
	require.Equal(t, 30*time.Second, o.interval)
	require.Contains(t, o.reason, "it succeeds again (1 in a row")
}
