package claims

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics counts claims, lost locks and heartbeats.
type Metrics struct {
	total      prometheus.Counter
	expired    prometheus.Counter
	shared     prometheus.Counter
	batch      prometheus.Histogram
	seconds    prometheus.Histogram
	locksLost  *prometheus.CounterVec
	heartbeats *prometheus.CounterVec
}

// NewMetrics registers the metrics of claims.
func NewMetrics(r prometheus.Registerer) *Metrics {
	f := promauto.With(r)
	m := &Metrics{
		total: f.NewCounter(prometheus.CounterOpts{
			Name: "rubato_claims_claimed_total", Help: "Endpoints claimed.",
		}),
		expired: f.NewCounter(prometheus.CounterOpts{
			Name: "rubato_claims_lock_expired_total", Help: "Endpoints claimed from a worker that let its lock run out without a start.",
		}),
		shared: f.NewCounter(prometheus.CounterOpts{
			Name: "rubato_claims_shared_total", Help: "Endpoints claimed in shares by tenant, because more was due than the worker could take.",
		}),
		batch: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "rubato_claims_batch_size",
			Help:    "Endpoints per claim.",
			Buckets: []float64{0, 1, 2, 5, 10, 20, 50, 100, 200, 500},
		}),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "rubato_claims_claim_seconds",
			Help:    "Duration of a claim.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		locksLost: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_claims_lock_lost_total", Help: "Locks lost during a run: revoked by another, or expired on the worker's own clock or the database's.",
		}, []string{"cause"}),
		heartbeats: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_claims_heartbeats_total", Help: "Heartbeats that extended locks.",
		}, []string{"result"}),
	}
	for _, cause := range []string{"revoked", "expired"} {
		m.locksLost.WithLabelValues(cause)
	}
	for _, result := range []string{"ok", "failed"} {
		m.heartbeats.WithLabelValues(result)
	}
	return m
}

func (m *Metrics) claimed(r Request, list []Claim, took time.Duration) {
	m.total.Add(float64(len(list)))
	if len(r.Tenants) > 0 {
		m.shared.Add(float64(len(list)))
	}
	m.batch.Observe(float64(len(list)))
	for _, c := range list {
		if c.Expired {
			m.expired.Inc()
		}
	}
	m.seconds.Observe(took.Seconds())
}

func (m *Metrics) lost(cause string) { m.locksLost.WithLabelValues(cause).Inc() }

func (m *Metrics) heartbeat(err error) {
	if err != nil {
		m.heartbeats.WithLabelValues("failed").Inc()
		return
	}
	m.heartbeats.WithLabelValues("ok").Inc()
}
