package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
)

// metrics returns the metrics of the service as text.
func (s *service) metrics() string {
	w := httptest.NewRecorder()
	handler := promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{})
	handler.ServeHTTP(w, httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

func TestRequestsAreCountedByRouteAndClass(t *testing.T) {
	t.Parallel()
	s := newService(t)
	series := strings.Count(s.metrics(), "\nrubato_http_requests_total{")
	require.Contains(t, s.metrics(), `rubato_http_requests_total{method="POST",route="/v1/endpoints/{id}/pause",status="5xx"} 0`)

	id := s.register(minimal)
	s.call("GET", "/v1/endpoints/"+id, "")
	s.call("GET", "/v1/endpoints/"+strings.Repeat("x", 50), "")
	s.call("GET", "/healthz", "")
	s.call("GET", "/secret/"+id, "")
	s.call("BREW", "/v1/endpoints", "")

	for _, want := range []string{
		`{method="GET",route="/v1/endpoints/{id}",status="2xx"} 1`,
		`{method="GET",route="/v1/endpoints/{id}",status="4xx"} 1`,
		`{method="POST",route="/v1/endpoints",status="2xx"} 1`,
		`{method="GET",route="/healthz",status="2xx"} 1`,
		`{method="other",route="other",status="4xx"} 2`,
	} {
		require.Contains(t, s.metrics(), "\nrubato_http_requests_total"+want+"\n")
	}
	require.Contains(t, s.metrics(), "\nrubato_http_request_duration_seconds_count 6\n")
	require.NotContains(t, s.metrics(), id)
	require.NotContains(t, s.metrics(), "BREW")
	require.Equal(t, series, strings.Count(s.metrics(), "\nrubato_http_requests_total{"), "every series was there before it counted")
}
