package httpapi

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
)

// other stands for routes and methods that the contract does not know, so that clients cannot make labels up.
const other = "other"

// metrics counts what is served.
type metrics struct {
	requests *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer, r *rules) *metrics {
	m := &metrics{requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rubato_http_requests_total",
		Help: "Requests answered by the REST API, by route of the contract, method and status.",
	}, []string{"route", "method", "status"})}
	registerer.MustRegister(m.requests)
	for _, op := range r.operations {
		for _, status := range []int{http.StatusOK, http.StatusInternalServerError} {
			m.requests.WithLabelValues(op.route, op.method, strconv.Itoa(status))
		}
	}
	return m
}

// count counts a request once it is answered.
func (s *Server) count(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := next(c); err != nil {
			c.Error(err) // Answer now, so that the status is known.
		}
		route, method := other, other
		if op := s.operation(c); op != nil {
			route, method = op.route, op.method
		}
		s.metrics.requests.WithLabelValues(route, method, strconv.Itoa(c.Response().Status)).Inc()
		return nil
	}
}
