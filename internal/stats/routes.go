package stats

import (
	"slices"
	"strings"
	"time"

	"rubato/internal/placement"
)

// Routes says which workers may run an endpoint.
type Routes struct {
	At time.Time
	// UnservedSince is since when no active worker serves the endpoint's tags; zero: one does, or no
	// worker is active.
	UnservedSince time.Time
	// Workers are the workers that have not stopped, newest first.
	Workers []Route
}

// Route says whether a worker may run an endpoint.
type Route struct {
	ID           [16]byte
	Name         string
	State        WorkerState
	Tags         []string
	Capabilities []string
	Exclusive    bool
	// Serves reports whether the tags of the worker permit it.
	Serves bool
	// Missing are the required tags that the worker lacks, Unmet the preferred ones.
	Missing, Unmet []string
}

// Routable reports whether an active worker serves the endpoint.
func (r Routes) Routable() bool {
	for _, w := range r.Workers {
		if w.Serves && w.State == Active {
			return true
		}
	}
	return false
}

// Unroutable reports whether due times are skipped, because no worker has served the endpoint for
// [placement.UnroutableAfter].
func (r Routes) Unroutable() bool {
	return !r.UnservedSince.IsZero() && !r.At.Before(r.UnservedSince.Add(placement.UnroutableAfter))
}

// Missing returns those of the required tags that no active worker has.
func (r Routes) Missing(required []string) []string {
	var missing []string
	for _, tag := range required {
		lacking := true
		for _, w := range r.Workers {
			lacking = lacking && (w.State != Active || slices.Contains(w.Missing, tag))
		}
		if lacking {
			missing = append(missing, tag)
		}
	}
	return missing
}

// Sentence says in one sentence which workers run an endpoint with these required tags.
func (r Routes) Sentence(required []string) string {
	active, serving := 0, 0
	for _, w := range r.Workers {
		if w.State != Active {
			continue
		}
		active++
		if w.Serves {
			serving++
		}
	}
	missing := r.Missing(required)
	switch {
	case active == 0:
		return "No worker is active."
	case serving == 1:
		return "One active worker runs the endpoint."
	case serving > 1 && serving == active:
		return "Every active worker runs the endpoint."
	case serving > 1:
		return "Some active workers run the endpoint."
	case len(required) == 0:
		return "No active worker runs the endpoint: each is exclusive, and the endpoint requires no tag."
	case len(missing) == 0:
		return "No active worker has the required tags " + strings.Join(required, ", ") + " together."
	default:
		return "No active worker has the required tags " + strings.Join(missing, ", ") + "."
	}
}

// Why says why a worker runs the endpoint or not.
func (w Route) Why() string {
	switch {
	case len(w.Missing) > 0:
		return "lacks " + strings.Join(w.Missing, ", ")
	case !w.Serves:
		return "is exclusive, and the endpoint requires none of its tags"
	case w.State != Active:
		return "is " + string(w.State)
	case len(w.Unmet) > 0:
		return "runs it if no worker with the preferred tags " + strings.Join(w.Unmet, ", ") + " does"
	default:
		return "runs it"
	}
}
