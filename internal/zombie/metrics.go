package zombie

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"rubato/internal/runs"
	"rubato/internal/telemetry"
)

// metrics counts what the sweeper does.
type metrics struct {
	settled *prometheus.CounterVec
	errors  *prometheus.CounterVec
	last    prometheus.Gauge
	leader  prometheus.Gauge
	stolen  prometheus.Counter
	panics  prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	m := &metrics{
		settled: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_zombie_settled_total", Help: "Runs settled because nothing would ever have updated them.",
		}, []string{"reason"}),
		errors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_zombie_errors_total", Help: "Sweeps, or rows of a sweep, that failed.",
		}, []string{"sweep"}),
		last: f.NewGauge(prometheus.GaugeOpts{
			Name: "rubato_zombie_last_sweep_timestamp_seconds", Help: "When this process last finished a sweep without an error.",
		}),
		leader: f.NewGauge(prometheus.GaugeOpts{
			Name: "rubato_zombie_leader", Help: "1 where this process ran the last pass that it tried.",
		}),
		stolen: f.NewCounter(prometheus.CounterOpts{
			Name: "rubato_claims_stolen_total", Help: "Claims taken over from workers that went silent before they started them.",
		}),
		panics: telemetry.Panics(r, telemetry.InSweep),
	}
	m.settled.WithLabelValues(string(runs.WorkerLost))
	for _, sweep := range []string{"take_over", "lost", "history"} {
		m.errors.WithLabelValues(sweep)
	}
	return m
}

func (m *metrics) swept(name string, err error) {
	if err != nil {
		m.errors.WithLabelValues(name).Inc()
		return
	}
	m.last.SetToCurrentTime()
}

func (m *metrics) leads(alone bool) {
	m.leader.Set(0)
	if alone {
		m.leader.Set(1)
	}
}
