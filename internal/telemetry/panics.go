package telemetry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// PanicSource is where a panic was contained.
type PanicSource string

// Sources of panics.
const (
	// InRun is one execution. Its run is recorded as lost.
	InRun PanicSource = "run"
	// InSweep is one sweep. The other sweeps of the pass continue.
	InSweep PanicSource = "sweep"
	// InRequest is one API request. It gets status 500.
	InRequest PanicSource = "request"
	// InAnalysis is one analysis of the planner. It is recorded as failed.
	InAnalysis PanicSource = "analysis"
	// InNotice is one notice, or one poll for notices. It is retried.
	InNotice PanicSource = "notice"
)

// Panics returns the counter of a source. All sources of a registry share one vector.
func Panics(r prometheus.Registerer, at PanicSource) prometheus.Counter {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rubato_panics_total", Help: "Contained panics, by source.",
	}, []string{"source"})
	if err := r.Register(v); err != nil {
		known, is := errors.AsType[prometheus.AlreadyRegisteredError](err)
		if !is {
			// Another metric has this name, which is a programming error.
			panic(err)
		}
		v = known.ExistingCollector.(*prometheus.CounterVec) //nolint:forcetypeassert // Only this function registers the description.
	}
	for _, source := range []PanicSource{InRun, InSweep, InRequest, InAnalysis, InNotice} {
		v.WithLabelValues(string(source))
	}
	return v.WithLabelValues(string(at))
}
