package telemetry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Place is where a panic was contained.
type Place string

// Places.
const (
	// InRun is one execution. Its run is recorded as lost.
	InRun Place = "run"
	// InSweep is one sweep. The other sweeps of the pass continue.
	InSweep Place = "sweep"
	// InRequest is one API request. It gets status 500.
	InRequest Place = "request"
	// InAnalysis is one analysis of the planner. It is recorded as failed.
	InAnalysis Place = "analysis"
	// InNotice is one notice, or one poll for notices. It is retried.
	InNotice Place = "notice"
)

// Panics returns the counter of a place. All places of a registry share one vector.
func Panics(r prometheus.Registerer, at Place) prometheus.Counter {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rubato_panics_total", Help: "Contained panics, by place.",
	}, []string{"where"})
	if err := r.Register(v); err != nil {
		known, is := errors.AsType[prometheus.AlreadyRegisteredError](err)
		if !is {
			// Another metric has this name, which is a programming error.
			panic(err)
		}
		v = known.ExistingCollector.(*prometheus.CounterVec) //nolint:forcetypeassert // Only this function registers the description.
	}
	for _, place := range []Place{InRun, InSweep, InRequest, InAnalysis, InNotice} {
		v.WithLabelValues(string(place))
	}
	return v.WithLabelValues(string(at))
}
