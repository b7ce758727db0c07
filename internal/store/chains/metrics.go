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

// metrics are the Prometheus metrics of an advancer.
type metrics struct {
	ended  *prometheus.CounterVec
	starts *prometheus.CounterVec
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
	}
	for _, s := range []chains.Status{chains.Succeeded, chains.Failed, chains.TimedOut, chains.Canceled, chains.Compensated, chains.CompensationFailed} {
		m.ended.WithLabelValues(string(s))
	}
	for _, result := range []string{startMade, startRefused} {
		m.starts.WithLabelValues(result)
	}
	return m
}
