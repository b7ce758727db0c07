package app_test

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"rubato/internal/app"
	"rubato/internal/app/apiserver"
	"rubato/internal/waittest"
)

// collector is an OpenTelemetry collector that records the spans it receives.
type collector struct {
	url string

	mu       sync.Mutex
	raw      strings.Builder
	services map[string]bool
	spans    []*tracepb.Span
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{services: map[string]bool{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/traces" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if err := c.take(r); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *collector) take(r *http.Request) error {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return err
		}
		body = unpacked
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var sent collect.ExportTraceServiceRequest
	if err := proto.Unmarshal(raw, &sent); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(raw)
	for _, resource := range sent.GetResourceSpans() {
		for _, a := range resource.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				c.services[a.GetValue().GetStringValue()] = true
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	return nil
}

// find returns the spans that match, in the order in which they came.
func (c *collector) find(match func(*tracepb.Span) bool) []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*tracepb.Span
	for _, s := range c.spans {
		if match(s) {
			found = append(found, s)
		}
	}
	return found
}

// await returns the one span of a name in a trace, or of any trace where that is empty.
func (c *collector) await(t *testing.T, name, traceID string) *tracepb.Span {
	t.Helper()
	match := func(s *tracepb.Span) bool {
		return s.GetName() == name && (traceID == "" || hex.EncodeToString(s.GetTraceId()) == traceID)
	}
	waittest.Until(t, func() bool { return len(c.find(match)) > 0 }, "the span %q arrives", name)
	return c.find(match)[0]
}

// attribute returns an attribute of a span as text.
func attribute(s *tracepb.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return strings.Trim(strings.TrimPrefix(strings.TrimPrefix(a.GetValue().String(), "string_value:"), "int_value:"), `"`)
		}
	}
	return ""
}

// A request and a run are followed from end to end: through the API into the store, and from the
// worker to the target.
func TestTracesLinkUpAndHoldNoSecret(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	parents := make(chan string, 10)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parents <- r.Header.Get("Traceparent")
		_, _ = io.WriteString(w, "canary-answer")
	}))
	t.Cleanup(target.Close)
	cfg := settings(t, migrated(t), "RUBATO_BOOTSTRAP_API_KEY=canary-key-of-the-test", "RUBATO_EGRESS_ALLOW=127.0.0.0/8",
		"OTEL_EXPORTER_OTLP_ENDPOINT="+c.url, "OTEL_SERVICE_NAME=the-service")
	logger := slog.New(slog.DiscardHandler)
	api := background(t, func(ctx context.Context, started func(app.Addresses)) error {
		return apiserver.API{Settings: cfg, Logger: logger, Started: started}.Run(ctx)
	})
	background(t, func(ctx context.Context, started func(app.Addresses)) error {
		return app.Worker{Settings: cfg, Logger: logger, Started: started}.Run(ctx)
	})

	const clients = "4bf92f3577b34da6a3ce929d0e0e4736"
	body, err := json.Marshal(map[string]any{
		"name": "canary-name", "url": target.URL + "/canary-path?token=canary-query", "method": "POST", "body": "canary-body",
		"headers": map[string]string{"Authorization": "canary-header"}, "baselineIntervalMs": 3_600_000,
	})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api.API+"/v1/endpoints", strings.NewReader(string(body)))
	require.NoError(t, err)
	req.Header = http.Header{
		"Authorization": {"Bearer canary-key-of-the-test"}, "Content-Type": {"application/json"},
		"Traceparent": {"00-" + clients + "-00f067aa0ba902b7-01"},
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusCreated, res.StatusCode)

	served := c.await(t, "POST /v1/endpoints", clients)
	require.Equal(t, "00f067aa0ba902b7", hex.EncodeToString(served.GetParentSpanId()), "the trace is the client's")
	require.Equal(t, "201", attribute(served, "http.response.status_code"))
	stored := c.find(func(s *tracepb.Span) bool { return string(s.GetParentSpanId()) == string(served.GetSpanId()) })
	require.NotEmpty(t, stored, "statements are parts of the request")

	parent := <-parents
	traceID := parent[3:35]
	run := c.await(t, "run", traceID)
	require.Equal(t, strings.ReplaceAll(strings.TrimPrefix(attribute(run, "rubato.run.id"), "run_"), "-", ""), traceID, "the trace has the run's ID")
	require.Equal(t, "succeeded", attribute(run, "rubato.run.status"))
	require.Empty(t, run.GetParentSpanId())
	sent := c.await(t, "POST", traceID)
	require.Equal(t, parent, "00-"+traceID+"-"+hex.EncodeToString(sent.GetSpanId())+"-01", "what the target does is a part of the request")
	require.Equal(t, "200", attribute(sent, "http.response.status_code"))
	for part, commit := range map[string]string{"start": "start runs", "finish": "finish runs"} {
		step := c.await(t, part, traceID)
		require.Equal(t, run.GetSpanId(), step.GetParentSpanId(), part)
		require.Len(t, step.GetLinks(), 1)
		batch := c.await(t, commit, hex.EncodeToString(step.GetLinks()[0].GetTraceId()))
		require.Equal(t, batch.GetSpanId(), step.GetLinks()[0].GetSpanId(), part)
		require.LessOrEqual(t, run.GetStartTimeUnixNano(), step.GetStartTimeUnixNano())
		require.GreaterOrEqual(t, run.GetEndTimeUnixNano(), step.GetEndTimeUnixNano())
	}
	require.Equal(t, "1", attribute(c.await(t, "claim", ""), "rubato.claim.size"))

	c.mu.Lock()
	defer c.mu.Unlock()
	require.Equal(t, map[string]bool{"the-service": true}, c.services)
	require.NotContains(t, c.raw.String(), "canary")
}

// The last metrics are read and sent before the database is closed, which some of them come from.
func TestMetricsGoToTheCollectorThatTheSettingsName(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- r.URL.Path + " " + string(body)
	}))
	t.Cleanup(collector.Close)
	cfg := settings(t, migrated(t), "OTEL_METRICS_EXPORTER=otlp", "OTEL_TRACES_EXPORTER=none", "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL)
	core, err := app.OpenCore(t.Context(), cfg, slog.New(slog.DiscardHandler), 2)
	require.NoError(t, err)

	core.Close(t.Context())

	sent := <-bodies
	require.True(t, strings.HasPrefix(sent, "/v1/metrics "), "traces are off")
	for _, name := range []string{"rubato_database_oldest_snapshot_seconds", "rubato_build_info", "go_goroutines", "service.instance.id"} {
		require.Contains(t, sent, name)
	}
}
