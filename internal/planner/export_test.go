package planner

import "rubato/internal/runs"

// NewResponse returns an answer as advisors see it.
func NewResponse(run runs.Run) Response { return newResponse(run) }
