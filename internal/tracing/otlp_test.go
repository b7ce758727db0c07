package tracing

import (
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	collectmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collecttraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"rubato/internal/dispatch"
	"rubato/internal/egress"
	"rubato/internal/runs"
)

// receiver is an OTLP receiver over HTTP that records spans.
type receiver struct {
	url string

	mu       sync.Mutex
	resource *resourcepb.Resource // of the last message
	schema   string
	spans    map[string]*tracepb.Span
	metrics  map[string]*metricspb.Metric
	sent     map[string]int // how often each metric came in one message, at most
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{spans: map[string]*tracepb.Span{}, metrics: map[string]*metricspb.Metric{}, sent: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if err := r.take(q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) take(q *http.Request) error {
	body := io.Reader(q.Body)
	if q.Header.Get("Content-Encoding") == "gzip" {
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
	r.mu.Lock()
	defer r.mu.Unlock()
	switch q.URL.Path {
	case "/v1/traces":
		return r.takeSpans(raw)
	case "/v1/metrics":
		return r.takeMetrics(raw)
	default:
		return errors.New("no such signal: " + q.URL.Path)
	}
}

func (r *receiver) takeSpans(raw []byte) error {
	var message collecttraces.ExportTraceServiceRequest
	if err := proto.Unmarshal(raw, &message); err != nil {
		return err
	}
	for _, from := range message.GetResourceSpans() {
		r.resource, r.schema = from.GetResource(), from.GetSchemaUrl()
		for _, scope := range from.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				r.spans[span.GetName()] = span
			}
		}
	}
	return nil
}

func (r *receiver) takeMetrics(raw []byte) error {
	var message collectmetrics.ExportMetricsServiceRequest
	if err := proto.Unmarshal(raw, &message); err != nil {
		return err
	}
	r.sent = map[string]int{}
	for _, from := range message.GetResourceMetrics() {
		r.resource, r.schema = from.GetResource(), from.GetSchemaUrl()
		for _, scope := range from.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				r.metrics[m.GetName()] = m
				r.sent[m.GetName()]++
			}
		}
	}
	return nil
}

// attributesOf returns attributes as text.
func attributesOf(list []*commonpb.KeyValue) map[string]string {
	texts := map[string]string{}
	for _, a := range list {
		text := a.GetValue().String()
		_, value, _ := strings.Cut(text, ":")
		texts[a.GetKey()] = strings.Trim(value, `"`)
	}
	return texts
}

func TestFailedRequestsHaveAnErrorTypeAndStatus(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer egress.Response
		err    error
		want   string // error.type; empty: the request did not fail
	}{
		"Answered":     {egress.Response{StatusCode: 200}, nil, ""},
		"NotModified":  {egress.Response{StatusCode: 304}, nil, ""},
		"NotFound":     {egress.Response{StatusCode: 404}, nil, "404"},
		"Unavailable":  {egress.Response{StatusCode: 503}, nil, "503"},
		"NoConnection": {egress.Response{}, &egress.Error{Reason: egress.ConnectError}, "connect_error"},
		"BrokenBody":   {egress.Response{StatusCode: 200}, &egress.Error{Reason: egress.ProtocolError}, "protocol_error"},
		"Unnamed":      {egress.Response{}, errors.New("canary-text"), "_OTHER"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := receive(t)
			p, err := Open(t.Context(), Config{
				On: true, Endpoint: to.url + "/v1/traces", Sampler: "always_on", Service: Service{Name: "worker", Version: "v1.2.3", Instance: "one"},
			}, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			r := NewRuns(p, instant{})
			_, err = r.Start(t.Context(), dispatch.Starting{List: []dispatch.Start{{RunID: runs.ID{1}}}})
			require.NoError(t, err)
			_, done := r.Request(runs.ID{1}, egress.Request{Method: "PUT", URL: "https://shop.example/canary-path"})
			done(tc.answer, tc.err)
			require.NoError(t, p.Close(t.Context()))

			span := to.spans["PUT"]
			got := attributesOf(span.GetAttributes())
			require.Equal(t, tc.want, got["error.type"])
			require.Equal(t, tc.want != "", span.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR)
			require.Equal(t, "443", got["server.port"])
			require.NotContains(t, span.String(), "canary")
		})
	}
}

func TestFailedRunsHaveTheirReasonAsErrorType(t *testing.T) {
	t.Parallel()
	to := receive(t)
	p, err := Open(t.Context(), Config{On: true, Endpoint: to.url + "/v1/traces", Sampler: "always_on"}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	r := NewRuns(p, instant{})
	_, err = r.Start(t.Context(), dispatch.Starting{List: []dispatch.Start{{RunID: runs.ID{1}}}})
	require.NoError(t, err)
	_, err = r.Finish(t.Context(), dispatch.Finish{Runs: []runs.Run{{ID: runs.ID{1}, Outcome: runs.Outcome{Status: runs.Failed, Reason: runs.ConnectError}}}})
	require.NoError(t, err)
	require.NoError(t, p.Close(t.Context()))
	require.Equal(t, string(runs.ConnectError), attributesOf(to.spans["run"].GetAttributes())["error.type"])
}

// requireResource holds a resource to what OpenTelemetry's conventions call a service, a host and a
// process.
func (r *receiver) requireResource(t *testing.T) {
	t.Helper()
	host, err := os.Hostname()
	require.NoError(t, err)
	got := attributesOf(r.resource.GetAttributes())
	for key, want := range map[string]string{
		"service.name": "worker", "service.version": "v1.2.3", "service.instance.id": "one", "host.name": host, "telemetry.sdk.language": "go",
		"process.runtime.name": "go",
	} {
		require.Equal(t, want, got[key], key)
	}
	for _, key := range []string{"os.type", "process.pid", "process.executable.name", "process.runtime.version", "telemetry.sdk.version"} {
		require.NotEmpty(t, got[key], key)
	}
	require.NotContains(t, got, "process.command_args", "they may hold secrets")
	require.Contains(t, r.schema, "opentelemetry.io/schemas/")
}

func TestPushedMetricsEqualScrapedOnes(t *testing.T) {
	t.Parallel()
	to := receive(t)
	registry := prometheus.NewRegistry()
	started := prometheus.NewCounter(prometheus.CounterOpts{Name: "rubato_runs_started_total", Help: "Runs started."})
	slots := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "rubato_dispatch_slots", Help: "Slots."}, []string{"state"})
	lag := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rubato_dispatch_start_lag_seconds", Help: "Lag.", Buckets: []float64{0.1, 1}})
	registry.MustRegister(started, slots, lag)
	started.Add(41)
	slots.WithLabelValues("busy").Set(3)
	lag.Observe(0.5)
	m, err := OpenMetrics(t.Context(), MetricsConfig{
		On: true, Endpoint: to.url + "/v1/metrics", Service: Service{Name: "worker", Version: "v1.2.3", Instance: "one"},
	}, registry, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	started.Inc()

	require.NoError(t, m.Close(t.Context()), "the end sends what is there")

	sum := to.metrics["rubato_runs_started_total"].GetSum()
	require.True(t, sum.GetIsMonotonic())
	require.Equal(t, metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, sum.GetAggregationTemporality())
	require.InDelta(t, 42, sum.GetDataPoints()[0].GetAsDouble(), 0)
	gauge := to.metrics["rubato_dispatch_slots"].GetGauge().GetDataPoints()[0]
	require.InDelta(t, 3, gauge.GetAsDouble(), 0)
	require.Equal(t, map[string]string{"state": "busy"}, attributesOf(gauge.GetAttributes()))
	histogram := to.metrics["rubato_dispatch_start_lag_seconds"].GetHistogram().GetDataPoints()[0]
	require.Equal(t, []uint64{0, 1, 0}, histogram.GetBucketCounts())
	for name, n := range to.sent {
		require.Equal(t, 1, n, "%s is counted once", name)
	}
	to.requireResource(t)
}

func TestSpansHaveTheResourceOfTheirProcess(t *testing.T) {
	t.Parallel()
	to := receive(t)
	p, err := Open(t.Context(), Config{
		On: true, Endpoint: to.url + "/v1/traces", Sampler: "always_on", Service: Service{Name: "worker", Version: "v1.2.3", Instance: "one"},
	}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	_, span := p.tracer().Start(t.Context(), "claim")
	span.End()
	require.NoError(t, p.Close(t.Context()))
	to.requireResource(t)
}

func TestMetricsPushOffCreatesNothing(t *testing.T) {
	t.Parallel()
	m, err := OpenMetrics(t.Context(), MetricsConfig{}, nil, nil)
	require.NoError(t, err)
	require.Nil(t, m)
	require.NoError(t, m.Close(t.Context()))
}
