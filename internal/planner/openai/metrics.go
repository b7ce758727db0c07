package openai

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics holds the metrics of requests to the service. Tokens are counted with the sessions.
type metrics struct {
	requests *prometheus.CounterVec
	refused  *prometheus.CounterVec
	seconds  prometheus.Histogram
}

// answered is the label of a successful request.
const answered = "answered"

// Reasons why calls of the model are refused.
const (
	refusedUnknown   = "unknown_tool"
	refusedArguments = "bad_arguments"
	refusedRails     = "guardrails"
	refusedTooMany   = "too_many"
	refusedEmpty     = "no_call"
)

func newMetrics(r prometheus.Registerer, resting func() bool, alone *breakerSet) *metrics {
	f := promauto.With(r)
	m := &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_planner_model_requests_total", Help: "Requests to the model's service, by result.",
		}, []string{"result"}),
		refused: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_planner_model_refusals_total", Help: "Refused calls of the model and completions without a call, by reason.",
		}, []string{"reason"}),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "rubato_planner_model_seconds", Help: "Latency of requests to the model's service.",
			Buckets: []float64{.5, 2, 5, 15, 30},
		}),
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rubato_planner_model_breaker_open", Help: "1 while requests to the model's service are stopped for every tenant, because it failed for several tenants or asked to wait.",
	}, func() float64 {
		if resting() {
			return 1
		}
		return 0
	})
	for of, count := range map[string]func() int{
		"tenant":   func() int { tenants, _ := alone.openCounts(); return tenants },
		"endpoint": func() int { _, single := alone.openCounts(); return single },
	} {
		f.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rubato_planner_model_open_breakers", Help: "Tenants and endpoints whose circuit breaker is open, because their own requests failed.",
			ConstLabels: prometheus.Labels{"of": of},
		}, func() float64 { return float64(count()) })
	}
	for _, kind := range []Kind{Unreachable, TimedOut, Throttled, Denied, Unavailable, Unreadable, TooLarge, BreakerOpen, answered} {
		m.requests.WithLabelValues(string(kind))
	}
	for _, reason := range []string{refusedUnknown, refusedArguments, refusedRails, refusedTooMany, refusedEmpty} {
		m.refused.WithLabelValues(reason)
	}
	return m
}
