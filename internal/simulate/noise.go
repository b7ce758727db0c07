package simulate

import (
	"net/http"
	"time"

	"rubato/internal/budget"
	"rubato/internal/change"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// noiseSearch compares the answers of a target with noise, and searches them for it, by the shipped
// code and with the rules of a worker.
type noiseSearch struct {
	spec  *endpoints.Spec
	form  change.Form
	watch change.Watch
}

// newNoiseSearch returns the search of an endpoint.
func newNoiseSearch(spec *endpoints.Spec) *noiseSearch {
	form, _ := change.Parse(spec.ChangeKey, spec.Ignore) // Validated when the scenario was read.
	return &noiseSearch{spec: spec, form: form}
}

// look completes the outcome of a successful request by its digest and by what the search needs.
func (s *noiseSearch) look(o *runs.Outcome, t *target, at time.Duration) {
	var members []change.Member
	unchanged := o.StatusCode == http.StatusNotModified
	if !unchanged {
		o.BodyDigest, members = s.form.Digest(t.body(at), budget.New(nil))
	}
	if !s.spec.SearchesNoise() {
		return
	}
	var r change.Result
	if unchanged {
		r = s.watch.Unchanged()
	} else {
		r = s.watch.After(change.Look{
			At:      t.begin.Add(at),
			Digest:  o.BodyDigest,
			Members: members,
		})
	}
	s.watch = r.Watch
	o.LookAgain = r.Again && s.spec.Planner == endpoints.PlannerAct && s.spec.SafeMethod()
	for _, found := range r.Noise {
		s.form = s.form.Ignoring([]string{found.Path})
	}
}
