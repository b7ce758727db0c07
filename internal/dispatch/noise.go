package dispatch

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

// SearchesNoise reports whether noise is searched for in the answers: not for an endpoint with
// planner authority off, and not if a change key selects the compared members.
func (t *Target) SearchesNoise() bool {
	return t.Spec.Planner != endpoints.PlannerOff && t.Spec.MaxResponseKB > 0 && !t.Form.HasKey()
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
func (t *Target) searchNoise(o *runs.Outcome, x exchange, members []change.Member) {
	if t.Noise == nil || o.Status != runs.Succeeded {
		return
	}
	var r change.Result
	if x.answer.StatusCode == http.StatusNotModified {
		r = t.Noise.Watch.Unchanged()
	} else {
		r = t.Noise.Watch.After(change.Look{
			At:       x.at,
			Digest:   o.BodyDigest,
			Members:  members,
			Rejected: t.Noise.Rejected,
		})
	}
	if !r.Changed {
		return
	}
	o.NoiseWatch = r.Watch.Encode()
	o.Noise = t.shownPaths(r.Noise, x.budget)
	o.LookAgain = r.Again && t.Spec.Planner == endpoints.PlannerAct && t.Spec.SafeMethod()
}

// shownPaths returns the paths that may be stored: those that redaction would not change, as many
// as an endpoint may have.
func (t *Target) shownPaths(paths []string, b *budget.Budget) []string {
	paths = slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return t.Redact.Text(path, b) != path })
	room := max(0, change.MaxPaths-len(t.Noise.Found)-len(t.Noise.Rejected))
	return paths[:min(len(paths), room)]
}
