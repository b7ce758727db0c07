package telemetry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Place is where a panic was contained.
type Place string

// The places.
const (
	InRun      Place = "run"      // one execution; its run is recorded as lost
	InSweep    Place = "sweep"    // one sweep; the others of its pass go on
	InRequest  Place = "request"  // one API request; it is answered with 500
	InAnalysis Place = "analysis" // one analysis of the planner; it is recorded as failed
	InNotice   Place = "notice"   // one notice, or one look after them; it is tried again
)

// Panics returns the counter of a place, out of the one vector that all places of a registry share.
func Panics(r prometheus.Registerer, at Place) prometheus.Counter {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rubato_panics_total", Help: "Panics that were contained, by where.",
	}, []string{"where"})
	if err := r.Register(v); err != nil {
		known, is := errors.AsType[prometheus.AlreadyRegisteredError](err)
		if !is {
			panic(err) // A registry that holds another metric of this name: a fault of the build.
		}
		v = known.ExistingCollector.(*prometheus.CounterVec) //nolint:forcetypeassert // Equal descriptions come from here alone.
	}
	for _, place := range []Place{InRun, InSweep, InRequest, InAnalysis, InNotice} {
		v.WithLabelValues(string(place))
	}
	return v.WithLabelValues(string(at))
}
