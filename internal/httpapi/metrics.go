package httpapi

import (
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"rubato/internal/telemetry"
)

// other stands for routes and methods that the contract does not know, so that clients cannot make labels up.
const other = "other"

// eventStream is the type of answers that last as long as somebody listens.
const eventStream = "text/event-stream"

// metrics counts what is served.
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

// classOf returns the class of a status, such as 4xx: with every status apart there would be a series for each of them and each
// route, and which one it was stands in the log.
func classOf(status int) string { return strconv.Itoa(status/100) + "xx" }

// count counts a request once it is answered.
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
		s.metrics.requests.WithLabelValues(route, method, classOf(c.Response().Status)).Inc()
		if !strings.HasPrefix(c.Response().Header().Get(echo.HeaderContentType), eventStream) {
			s.metrics.duration.Observe(time.Since(began).Seconds())
		}
		return nil
	}
}
