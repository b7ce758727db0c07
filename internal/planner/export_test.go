package planner

import "rubato/internal/runs"

// NewResponse returns the response of a run in the form that advisors see.
func NewResponse(run runs.Run) Response { return newResponse(run) }
