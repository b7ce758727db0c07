package request

import (
	"net/http"
	"slices"

	"rubato/internal/budget"
	"rubato/internal/change"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// Noise is the state of the search for noise in the answers of an endpoint, and its findings.
type Noise struct {
	// Watch is the state of the search.
	Watch change.Watch
	// Found are the paths that are not compared. Rejected are findings that a user rejected.
	Found, Rejected []string
}

// WithNoise returns a copy of the target that leaves out the noise that was found, and searches for
// more.
func (t *Target) WithNoise(n Noise) *Target {
	copied := *t
	copied.Noise = &n
	copied.Form = t.Form.Ignoring(n.Found)
	return &copied
}

// searchNoise adds a successful answer to the search for noise. Only the planner's authority to act
// permits further looks, and only for a safe method.
func (t *Target) searchNoise(o *runs.Outcome, x Exchange, members []change.Member) {
	if t.Noise == nil || o.Status != runs.Succeeded {
		return
	}
	var r change.Result
	if x.Answer.StatusCode == http.StatusNotModified {
		r = t.Noise.Watch.Unchanged()
	} else {
		r = t.Noise.Watch.After(change.Look{
			At:       x.At,
			Digest:   o.BodyDigest,
			Members:  members,
			Rejected: t.Noise.Rejected,
		})
	}
	if !r.Changed {
		return
	}
	o.NoiseWatch = r.Watch.Encode()
	o.Noise = t.shownNoise(r.Noise, x.budget)
	o.LookAgain = r.Again && t.Spec.Planner == endpoints.PlannerAct && t.Spec.SafeMethod()
}

// shownNoise returns the findings that may be stored: those whose path redaction would not change,
// as many as an endpoint may have.
func (t *Target) shownNoise(found []runs.Noise, b *budget.Budget) []runs.Noise {
	found = slices.DeleteFunc(slices.Clone(found), func(n runs.Noise) bool { return t.Redact.Text(n.Path, b) != n.Path })
	room := max(0, change.MaxPaths-len(t.Noise.Found)-len(t.Noise.Rejected))
	return found[:min(len(found), room)]
}
