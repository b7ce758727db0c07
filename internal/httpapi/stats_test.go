package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHealthHasNoRateWithoutJudgedRuns(t *testing.T) {
	t.Parallel()
	s := newService(t)
	items := s.call("GET", "/v1/endpoints/"+s.register(minimal)+"/health", "").is(http.StatusOK)["items"].([]any)
	require.Equal(t, []any{
		map[string]any{
			"windowMs": 3600e3, "runs": 0., "succeeded": 0., "failed": 0., "skipped": 0., "successRate": nil,
			"latencyMs": map[string]any{"p50": 0., "p95": 0., "p99": 0.},
		},
		map[string]any{
			"windowMs": 14400e3, "runs": 5., "succeeded": 3., "failed": 1., "skipped": 7., "successRate": 0.75,
			"latencyMs": map[string]any{"p50": 1., "p95": 1000., "p99": 60000.},
		},
	}, items)
}
