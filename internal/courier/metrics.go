package courier

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"rubato/internal/notices"
	"rubato/internal/telemetry"
)

// result is the result of an attempt to deliver a notice.
type result string

// The results in addition to the final states of notices.
const (
	// retried: the attempt failed and will be repeated.
	retried result = "retried"
	// held: a maintenance window holds the notice back.
	held result = "held"
)

func results() []result {
	return []result{result(notices.Delivered), result(notices.Dead), result(notices.Muted), retried, held}
}

// metrics holds the metrics of the courier.
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
			Name: "rubato_notices_deliveries_total", Help: "Due notices by channel and result.",
		}, []string{"channel", "result"}),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "rubato_notices_delivery_seconds", Help: "Duration of attempts to deliver a notice.",
			Buckets: []float64{.05, .25, 1, 5, 15},
		}),
		waiting: f.NewGauge(prometheus.GaugeOpts{
			Name: "rubato_notices_waiting", Help: "Undelivered notices of the installation, as this process last read.",
		}),
		oldest: f.NewGauge(prometheus.GaugeOpts{
			Name: "rubato_notices_oldest_waiting_seconds",
			Help: "Age of the oldest notice that no maintenance window holds, as this process last read; 0 if there is none.",
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
	if channel == "" { // The channel of a deleted rule is unknown; the first one stands in.
		channel = notices.Webhook
	}
	m.deliveries.WithLabelValues(string(channel), string(r)).Inc()
}

func (m *metrics) took(d time.Duration) { m.seconds.Observe(d.Seconds()) }

func (m *metrics) backlog(waiting int, oldest time.Duration) {
	m.waiting.Set(float64(waiting))
	m.oldest.Set(oldest.Seconds())
}
