package httpapi

import (
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"rubato/internal/auth"
)

// other stands for routes and methods that the contract does not know, so that clients cannot make labels up.
const other = "other"

// metrics counts what is served.
type metrics struct {
	requests *prometheus.CounterVec
	panics   prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer, r *rules) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_http_requests_total",
			Help: "Requests answered by the REST API, by route of the contract, method and status.",
		}, []string{"route", "method", "status"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rubato_panics_total", Help: "Panics that were contained.", ConstLabels: prometheus.Labels{"where": "request"},
		}),
	}
	registerer.MustRegister(m.requests, m.panics)
	for _, op := range r.operations {
		for _, status := range []int{http.StatusOK, http.StatusInternalServerError} {
			m.requests.WithLabelValues(op.route, op.method, strconv.Itoa(status))
		}
	}
	return m
}

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
		s.metrics.requests.WithLabelValues(route, method, strconv.Itoa(c.Response().Status)).Inc()
		s.logAccess(c, route, time.Since(began))
		return nil
	}
}

// logAccess writes one line about a request: its route, never its path or query, and its key's ID, never the key. What asks whether
// the server is well is of no interest by itself.
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
	if p := principalOf(ctx); p.KeyID != [16]byte{} {
		attrs = append(attrs, slog.String("key_id", auth.KeyID(p.KeyID).String()))
	}
	s.logger.LogAttrs(ctx, level, "request answered", attrs...)
}

// methodOf returns the method of a request where it is one of HTTP's own; anything else is for nobody's log.
func methodOf(c echo.Context) string {
	switch method := c.Request().Method; method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	default:
		return other
	}
}
