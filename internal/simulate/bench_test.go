package simulate_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/httpapi"
	"rubato/internal/simulate"
)

// read returns the scenario of a JSON object.
func read(tb testing.TB, text string) simulate.Scenario {
	tb.Helper()
	var document map[string]any
	require.NoError(tb, json.Unmarshal([]byte(text), &document))
	s, err := reader().Read(document)
	require.NoError(tb, err)
	return s
}

func reader() simulate.Reader {
	return simulate.Reader{
		Check: func(document map[string]any) (endpoints.Spec, error) {
			body, err := json.Marshal(document)
			if err != nil {
				return endpoints.Spec{}, err
			}
			return httpapi.ReadEndpoint(body)
		},
		Open: os.ReadFile,
	}
}

// BenchmarkRun simulates a day of an endpoint with a tempo that follows its bursts. A run takes 3
// us if 100 such endpoints take a minute for 30 days.
func BenchmarkRun(b *testing.B) {
	s := read(b, `{"endpoints": [{"name": "bursts", "baselineIntervalMs": 12000, "minIntervalMs": 1000, "maxIntervalMs": 60000, "planner": "act",
		"process": {"kind": "bursts", "quiet": "25m", "burst": "2m", "rate": 0.5}}]}`)
	b.ReportAllocs()
	var polls int64
	for b.Loop() {
		rows, err := s.Run(b.Context(), simulate.Options{Length: 24 * time.Hour, Seeds: 1})
		require.NoError(b, err)
		polls += rows[0].Polls
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(polls), "ns/run")
}
