package courier

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"rubato/internal/notices"
	"rubato/internal/telemetry"
)

// result is what came of an attempt to deliver a notice.
type result string

// The results beside the states in which a notice ends.
const (
	retried result = "retried" // it failed, and is tried again
	held    result = "held"    // a maintenance window keeps it
)

func results() []result {
	return []result{result(notices.Delivered), result(notices.Dead), result(notices.Muted), retried, held}
}

// metrics counts what the courier does.
type metrics struct {
	deliveries *prometheus.CounterVec
	seconds    prometheus.Histogram
	waiting    prometheus.Gauge
	oldest     prometheus.Gauge
	panics     prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	m := &metrics{
		deliveries: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_notices_deliveries_total", Help: "What came of notices that were due, by channel.",
		}, []string{"channel", "result"}),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "rubato_notices_delivery_seconds", Help: "How long attempts to deliver a notice took.",
			Buckets: []float64{.05, .25, 1, 5, 15},
		}),
		waiting: f.NewGauge(prometheus.GaugeOpts{
			Name: "rubato_notices_waiting", Help: "Notices of the installation that are not delivered yet, as this process last saw.",
		}),
		oldest: f.NewGauge(prometheus.GaugeOpts{
			Name: "rubato_notices_oldest_waiting_seconds",
			Help: "For how long the oldest notice waits that no maintenance window holds, as this process last saw; 0 where none does.",
		}),
		panics: telemetry.Panics(r, telemetry.InNotice),
	}
	for _, channel := range notices.ChannelKinds() {
		for _, result := range results() {
			m.deliveries.WithLabelValues(string(channel), string(result))
		}
	}
	return m
}

func (m *metrics) count(channel notices.ChannelKind, r result) {
	if channel == "" { // Of a rule that is gone nobody knows the channel: the first one stands for it.
		channel = notices.Webhook
	}
	m.deliveries.WithLabelValues(string(channel), string(r)).Inc()
}

func (m *metrics) took(d time.Duration) { m.seconds.Observe(d.Seconds()) }

func (m *metrics) backlog(waiting int, oldest time.Duration) {
	m.waiting.Set(float64(waiting))
	m.oldest.Set(oldest.Seconds())
}
