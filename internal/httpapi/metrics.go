package httpapi

import (
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/trace"

	"rubato/internal/auth"
	"rubato/internal/telemetry"
)

// other stands for routes and methods that the contract does not know, so that clients cannot make
// labels up.
const other = "other"

// eventStream is the media type of responses that last until the client disconnects.
const eventStream = "text/event-stream"

// metrics counts the served requests.
type metrics struct {
	requests *prometheus.CounterVec
	duration prometheus.Histogram
	panics   prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer, r *rules) *metrics {
	f := promauto.With(registerer)
	m := &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_http_requests_total",
			Help: "Requests answered by the REST API, by route of the contract, method and class of the status.",
		}, []string{"route", "method", "status"}),
		duration: f.NewHistogram(prometheus.HistogramOpts{
			Name: "rubato_http_request_duration_seconds", Help: "From a request to the end of its answer; streams are left out.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}),
		panics: telemetry.Panics(registerer, telemetry.InRequest),
	}
	for _, op := range r.operations {
		for _, class := range []string{"2xx", "4xx", "5xx"} {
			m.requests.WithLabelValues(op.route, op.method, class)
		}
	}
	m.requests.WithLabelValues(other, other, "4xx")
	return m
}

// classOf returns the class of a status, such as 4xx: with every status apart there would be a
// series for each of them and each route, and which one it was stands in the log.
func classOf(status int) string { return strconv.Itoa(status/100) + "xx" }

// count counts a request once it is answered, and logs it.
func (s *Server) count(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := time.Now()
		if err := next(c); err != nil {
			c.Error(err) // Answer now, so that the status is known.
		}
		route, method := other, other
		if op := s.operation(c); op != nil {
			route, method = op.route, op.method
		}
		took := time.Since(began)
		s.metrics.requests.WithLabelValues(route, method, classOf(c.Response().Status)).Inc()
		if !strings.HasPrefix(c.Response().Header().Get(echo.HeaderContentType), eventStream) {
			s.metrics.duration.Observe(took.Seconds())
		}
		s.logAccess(c, route, took)
		return nil
	}
}

// logAccess writes one line about a request: its route, never its path or query, and its key's ID,
// never the key. What asks whether the server is well is of no interest by itself.
func (s *Server) logAccess(c echo.Context, route string, took time.Duration) {
	level := slog.LevelInfo
	if op := s.operation(c); op != nil && op.public {
		level = slog.LevelDebug
	}
	ctx := c.Request().Context()
	from := callOf(ctx)
	attrs := []slog.Attr{
		slog.String("request_id", from.id), slog.String("method", methodOf(c)), slog.String("route", route),
		slog.Int("status", c.Response().Status), slog.Duration("duration", took), slog.Int64("bytes", c.Response().Size),
		slog.String("remote_address", from.peer),
	}
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
		attrs = append(attrs, slog.String("trace_id", span.TraceID().String()))
	}
	if p := principalOf(ctx); p.KeyID != [16]byte{} {
		attrs = append(attrs, slog.String("key_id", auth.KeyID(p.KeyID).String()))
	}
	s.logger.LogAttrs(ctx, level, "request answered", attrs...)
}

// methodOf returns the method of a request where it is one of HTTP's own; any other method is not
// logged, because it is client input.
func methodOf(c echo.Context) string {
	switch method := c.Request().Method; method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	default:
		return other
	}
}
