package dispatch

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/telemetry"
)

// metrics are the Prometheus metrics of a worker.
type metrics struct {
	started   prometheus.Counter
	ended     counters[outcomeLabels]
	duration  prometheus.Histogram
	startLag  prometheus.Histogram
	refused   prometheus.Counter
	late      prometheus.Counter
	decisions counters[governor.Source]
	resized   *prometheus.CounterVec
	trips     prometheus.Counter
	deferred  *prometheus.CounterVec
	suspended prometheus.Counter
	polls     *prometheus.CounterVec
	skew      prometheus.Gauge
	panics    prometheus.Counter
}

// outcomeLabels is the status and the reason of a finished run, the labels of its counter.
type outcomeLabels struct {
	status runs.Status
	reason runs.Reason
}

// counters caches the counters of a vector, because a lookup by labels takes longer than an
// increment. It is never changed, therefore it needs no lock.
type counters[K comparable] struct {
	vector *prometheus.CounterVec
	labels func(K) []string
	known  map[K]prometheus.Counter
}

func newCounters[K comparable](vector *prometheus.CounterVec, labels func(K) []string, keys ...K) counters[K] {
	c := counters[K]{
		vector: vector,
		labels: labels,
		known:  make(map[K]prometheus.Counter, len(keys)),
	}
	for _, key := range keys {
		c.known[key] = vector.WithLabelValues(labels(key)...)
	}
	return c
}

// of returns the counter of a key. A key outside the cache is looked up by its labels.
func (c counters[K]) of(key K) prometheus.Counter {
	if known := c.known[key]; known != nil {
		return known
	}
	return c.vector.WithLabelValues(c.labels(key)...)
}

// countEndings returns the counters of finished runs by status and reason.
func countEndings(f promauto.Factory) counters[outcomeLabels] {
	statuses, reasons := runs.Statuses()[1:], runs.Reasons()
	endings := make([]outcomeLabels, 0, len(statuses)*len(reasons))
	for _, status := range statuses {
		for _, reason := range reasons {
			endings = append(endings, outcomeLabels{status, reason})
		}
	}
	return newCounters(f.NewCounterVec(prometheus.CounterOpts{
		Name: "rubato_runs_finished_total", Help: "Runs finished, and due times that a finish found to have passed without a run.",
	}, []string{"status", "reason"}), func(e outcomeLabels) []string { return []string{string(e.status), string(e.reason)} }, endings...)
}

// countDecisions returns the counters of decisions by source.
func countDecisions(f promauto.Factory) counters[governor.Source] {
	return newCounters(f.NewCounterVec(prometheus.CounterOpts{
		Name: "rubato_governor_decisions_total", Help: "Next due times decided at a finish, by source.",
	}, []string{"source"}), func(s governor.Source) []string { return []string{string(s)} }, governor.Sources()...)
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	m := &metrics{
		started: f.NewCounter(prometheus.CounterOpts{Name: "rubato_runs_started_total", Help: "Runs started."}),
		ended:   countEndings(f), decisions: countDecisions(f),
		duration: f.NewHistogram(prometheus.HistogramOpts{
			Name: "rubato_runs_duration_seconds", Help: "From the start of a run to its end.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 21),
		}),
		startLag: f.NewHistogram(prometheus.HistogramOpts{
			Name: "rubato_dispatch_start_lag_seconds", Help: "From the planned time of a run to its request; runs triggered by hand are left out.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 18),
		}),
		refused: f.NewCounter(prometheus.CounterOpts{
			Name: "rubato_runs_duplicates_prevented_total", Help: "Starts that the fence refused: the claim had been revoked, or a run was live.",
		}),
		late: f.NewCounter(prometheus.CounterOpts{
			Name: "rubato_runs_late_results_total", Help: "Results that arrived after their run had been settled.",
		}),
		resized: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_dispatch_slot_changes_total", Help: "Changes of the worker's number of slots, by direction.",
		}, []string{"direction"}),
		trips: f.NewCounter(prometheus.CounterOpts{
			Name: "rubato_dispatch_host_trips_total", Help: "Windows without requests to a host that reports of the worker began.",
		}),
		deferred: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_dispatch_host_deferred_total",
			Help: "Claims that were released because of their host: one-off runs of an open one, and claims at one that took no request for 2 s.",
		}, []string{"cause"}),
		suspended: f.NewCounter(prometheus.CounterOpts{
			Name: "rubato_dispatch_suspended_total", Help: "Runs suspended, because their targets answered 202.",
		}),
		polls: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rubato_dispatch_polls_total", Help: "Requests to the status URLs of suspended runs, by result.",
		}, []string{"result"}),
		skew:   f.NewGauge(prometheus.GaugeOpts{Name: "rubato_clock_skew_seconds", Help: "How far the worker's wall clock is ahead of the database's."}),
		panics: telemetry.Panics(r, telemetry.InRun),
	}
	for _, direction := range []string{grown, shrunk} {
		m.resized.WithLabelValues(direction)
	}
	for _, result := range []string{pollPending, pollEnded} {
		m.polls.WithLabelValues(result)
	}
	for _, cause := range []string{deferredOpen, deferredFull} {
		m.deferred.WithLabelValues(cause)
	}
	return m
}

// Results of a request to a status URL.
const (
	pollPending = "pending" // the run goes on, or the target did not answer
	pollEnded   = "ended"   // the answer ended the run
)

// Causes for which a claim is released because of its host.
const (
	deferredOpen = "circuit_open"
	deferredFull = "full"
)

// observe registers gauges that read the worker's state at each scrape. A periodic sample would
// alias with intervals of endpoints, because it would always show the same instant of an interval.
func (w *Worker) observe(r prometheus.Registerer) {
	f := promauto.With(r)
	for state, slots := range map[string]func() int{
		"busy": w.queue.Busy,
		"free": func() int { return max(w.queue.Slots()-w.queue.Busy(), 0) },
	} {
		f.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "rubato_dispatch_slots",
			Help:        "Slots of the worker, by state.",
			ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return float64(slots()) })
	}
	for _, gauge := range []struct {
		name, help string
		read       func() int
	}{
		{"rubato_dispatch_slot_limit", "Current number of slots, between the configured minimum and maximum.", w.queue.Slots},
		{"rubato_dispatch_waiting", "Claims that wait for their due time or for a slot.", w.queue.Len},
		{"rubato_dispatch_host_waiting", "Waiting claims at hosts that have reached their limit of requests in flight.", w.queue.WaitingForHost},
	} {
		f.NewGaugeFunc(prometheus.GaugeOpts{Name: gauge.name, Help: gauge.help}, func() float64 { return float64(gauge.read()) })
	}
}

func (m *metrics) finished(run runs.Run) {
	m.ended.of(outcomeLabels{run.Outcome.Status, run.Outcome.Reason}).Inc()
	m.duration.Observe(run.FinishedAt.Sub(run.StartedAt).Seconds())
}

// skipped counts each due time that passed without a run.
func (m *metrics) skipped(s endpoints.Skip) {
	m.ended.of(outcomeLabels{runs.Skipped, runs.Reason(s.Reason)}).Add(float64(s.Count))
}
