package zombie

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"rubato/internal/telemetry"
)

// metrics holds the sweeper's metrics.
type metrics struct {
	settled *prometheus.CounterVec
	errors  *prometheus.CounterVec
	last    prometheus.Gauge
	stolen  prometheus.Counter
	clamped prometheus.Counter
	freed   prometheus.Counter
	held    prometheus.Gauge
	panics  prometheus.Counter
}

func newMetrics(r prometheus.Registerer, lead *leadership) *metrics {
	f := promauto.With(r)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rubato_zombie_leader", Help: "1 if this process is the leader of the sweeps.",
	}, func() float64 {
		if lead.leads() {
			return 1
		}
		return 0
	})
	m := &metrics{
		settled: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_zombie_settled_total", Help: "Lost runs that were settled, by signal.",
		}, []string{"reason"}),
		errors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_zombie_errors_total", Help: "Sweeps, or rows of a sweep, that failed.",
		}, []string{"sweep"}),
		last: f.NewGauge(prometheus.GaugeOpts{
			Name: "rubato_zombie_last_sweep_timestamp_seconds", Help: "When this process last finished a sweep without an error.",
		}),
		stolen: f.NewCounter(prometheus.CounterOpts{
			Name: "rubato_claims_stolen_total", Help: "Claims taken over from workers that went silent before they started them.",
		}),
		clamped: f.NewCounter(prometheus.CounterOpts{
			Name: "rubato_zombie_locks_clamped_total", Help: "Locks and heartbeats shortened because a clock that was ahead had set them too far in the future.",
		}),
		freed: f.NewCounter(prometheus.CounterOpts{
			Name: "rubato_zombie_claims_freed_total", Help: "Claims freed that no worker took long after their locks had expired.",
		}),
		held: f.NewGauge(prometheus.GaugeOpts{
			Name: "rubato_zombie_held_back_runs", Help: "Silent runs whose settlement is delayed, because too many are silent at once.",
		}),
		panics: telemetry.Panics(r, telemetry.InSweep),
	}
	for _, reason := range Reasons() {
		m.settled.WithLabelValues(string(reason))
	}
	for _, sweep := range sweepNames() {
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

func (m *metrics) holds(held bool, silent int) {
	m.held.Set(0)
	if held {
		m.held.Set(float64(silent))
	}
}
