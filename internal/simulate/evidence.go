package simulate

import (
	"rubato/internal/planner"
	"rubato/internal/runs"
)

// evidence keeps the newest runs of an endpoint, newest first, in one piece. Runs are written from
// the end of the buffer to its begin, so that the planner reads them without a copy.
type evidence struct {
	buffer []runs.Run
	// first is the index of the newest run.
	first int
}

func newEvidence() *evidence {
	const size = 2 * planner.HealthSample
	return &evidence{buffer: make([]runs.Run, size), first: size}
}

func (e *evidence) add(run *runs.Run) {
	if e.first == 0 {
		e.first = len(e.buffer) - planner.HealthSample
		copy(e.buffer[e.first:], e.buffer[:planner.HealthSample])
	}
	e.first--
	e.buffer[e.first] = *run
}

// newest returns at most limit runs, newest first. They are valid until the next run.
func (e *evidence) newest(limit int) []runs.Run {
	return e.buffer[e.first:min(e.first+limit, len(e.buffer))]
}
