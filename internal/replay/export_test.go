package replay

import (
	"time"

	"rubato/internal/endpoints"
)

// WithAfterRun replaces the decision after a run by a variant.
func (o Options) WithAfterRun(f func(e *endpoints.Endpoint, now time.Time, run endpoints.Finished) (endpoints.Recorded, error)) Options {
	o.rules = shipped()
	o.rules.afterRun = f
	return o
}
