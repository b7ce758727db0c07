package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewRegistry returns a registry with metrics of the Go runtime, the process and the build.
// Programs add their own.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "rubato_build_info",
			Help:        "Always 1; the label is the running version.",
			ConstLabels: prometheus.Labels{"version": Version()},
		}, func() float64 { return 1 }),
	)
	return r
}
