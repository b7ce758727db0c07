// Package callbacks defines the reports of targets about their asynchronous runs, and the tokens
// that permit them. It reads no clock and stores nothing.
package callbacks

import (
	"encoding/json"
	"net/http"
	"time"

	"rubato/internal/errs"
	"rubato/internal/runs"
)

// Status is what a target says about its run.
type Status string

// The statuses.
const (
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
	Progress  Status = "progress" // the run goes on
)

// Report is the report of a target about its asynchronous run.
type Report struct {
	Status Status
	// Body is the result in JSON; nil: none.
	Body json.RawMessage
	// Error is the cause of a failure; it may be empty.
	Error string
	// Header and Raw are the header and the exact body of the request, for its signature.
	Header http.Header
	Raw    []byte
}

// Known reports whether the status is one of the three. Their spelling is exact.
func (s Status) Known() bool { return s == Succeeded || s == Failed || s == Progress }

// Check returns an [errs.Invalid] if the status is unknown or fields of the report contradict each
// other, or nil. An unknown status must not end a run, because it may stand for a failure.
func (r *Report) Check() error {
	var bad []errs.Field
	if !r.Status.Known() {
		bad = append(bad, errs.Field{
			Field:   "status",
			Code:    "invalid_value",
			Message: "must be succeeded, failed or progress",
		})
	}
	if r.Status == Progress && r.Body != nil {
		bad = append(bad, errs.Field{
			Field:   "body",
			Code:    "body_without_end",
			Message: "must be absent where status is progress, because only the end of a run has a result",
		})
	}
	if r.Status.Known() && r.Status != Failed && r.Error != "" {
		bad = append(bad, errs.Field{
			Field:   "error",
			Code:    "error_without_failure",
			Message: "must be absent unless status is failed",
		})
	}
	return errs.InvalidFields(bad)
}

// Result is the effect of a report.
type Result struct {
	RunID runs.ID
	// Status is that of the run: running after a report of progress.
	Status runs.Status
	// Until is the end of the wait of a run that goes on; otherwise zero.
	Until time.Time
}
