package simulate_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/simulate"
)

// served returns the target of a scenario's only endpoint, which begins now.
func served(t *testing.T, text string) *simulate.Served {
	t.Helper()
	e := &read(t, text).Endpoints[0]
	return e.Serve(&e.Policies[0], time.Now(), simulate.ServeOptions{
		Length: time.Hour,
		Seed:   1,
	})
}

// call sends a request to a target, with the entity tag of an answer before.
func call(t *testing.T, s *simulate.Served, tag string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

// Requests at a fixed interval detect the changes that the simulation of this interval detects.
func TestServedTargetAgreesWithTheSimulation(t *testing.T) {
	t.Parallel()
	text := one(`{"kind": "poisson", "rate": 0.02, "outages": {"every": "20m", "for": "3m"}}`, `, "policies": ["fixed"]`)
	rows, err := read(t, text).Run(t.Context(), simulate.Options{Length: time.Hour, Seeds: 1})
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		s := served(t, text)
		for range 360 {
			require.NoError(t, call(t, s, "").Body.Close())
			time.Sleep(10 * time.Second)
		}
		row, err := s.Row()
		require.NoError(t, err)
		require.Equal(t, rows[0].Polls, row.Polls)
		require.Equal(t, rows[0].Changes, row.Changes)
		require.InEpsilon(t, rows[0].MeanDelayMs, row.MeanDelayMs, 0.1, "the first request is an interval earlier")
		require.NotNil(t, row.RatioToBestFixed)
		res := call(t, s, "")
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusGone, res.StatusCode)
	})
}

func TestServedTargetAnswersAsItsProcessSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := served(t, one(`{"kind": "periodic", "every": "10s", "offset": "5s", "etag": true, "next": "45s", "latency": "100ms"}`, ``))
		first := call(t, s, "")
		require.NoError(t, first.Body.Close())
		require.Equal(t, http.StatusOK, first.StatusCode)
		require.Equal(t, "45", first.Header.Get("Rubato-Next"))
		tag := first.Header.Get("ETag")
		require.Equal(t, http.StatusNotModified, call(t, s, tag).StatusCode)
		time.Sleep(6 * time.Second)
		require.Equal(t, http.StatusOK, call(t, s, tag).StatusCode, "the content changed")

		s = served(t, one(`{"kind": "poisson", "rate": 1, "limit": {"requests": 1, "per": "8s"}, "retryAfter": "7500ms", "noise": ["timestamp", "uuid", "counter"]}`, ``))
		res := call(t, s, "")
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		var members map[string]any
		require.NoError(t, json.Unmarshal(text, &members))
		require.Len(t, members, 4)
		res = call(t, s, "")
		require.Equal(t, http.StatusTooManyRequests, res.StatusCode)
		require.Equal(t, "8", res.Header.Get("Retry-After"), "whole seconds, rounded up")
		row, err := s.Row()
		require.NoError(t, err)
		require.EqualValues(t, 1, row.Refusals)
	})
}
