package chains

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"rubato/internal/chains"
)

// The results of a start by the outcome of a run.
const (
	startMade    = "started"
	startRefused = "refused"
)

// What failed and is tried again.
const (
	failedAdvance = "advance"
	failedStart   = "start"
)

// metrics are the Prometheus metrics of an advancer.
type metrics struct {
	ended  *prometheus.CounterVec
	starts *prometheus.CounterVec
	// failures counts advances and starts that failed and are tried again.
	failures *prometheus.CounterVec
}

// newMetrics registers the metrics. Every label has its series from the start.
func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	m := &metrics{
		ended: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_chains_ended_total", Help: "Runs of chains that ended, by status.",
		}, []string{"status"}),
		starts: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_chains_starts_total", Help: "Starts of chains by the outcome of a run, by result.",
		}, []string{"result"}),
		failures: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_chains_failures_total", Help: "Advances of chain runs and starts of chains that failed and are tried again, by kind.",
		}, []string{"kind"}),
	}
	for _, kind := range []string{failedAdvance, failedStart} {
		m.failures.WithLabelValues(kind)
	}
	for _, s := range []chains.Status{chains.Succeeded, chains.Failed, chains.TimedOut, chains.Canceled, chains.Compensated, chains.CompensationFailed} {
		m.ended.WithLabelValues(string(s))
	}
	for _, result := range []string{startMade, startRefused} {
		m.starts.WithLabelValues(result)
	}
	return m
}
