package request

import (
	"errors"
	"fmt"

	"rubato/internal/runs"
)

// ErrShutdown is the cancellation cause of requests that outlast the grace period of a graceful
// shutdown.
var ErrShutdown = errors.New("the worker is stopping")

// CanceledError is the cancellation cause of a request that a user has canceled.
type CanceledError struct {
	Author string
	Reason string // may be empty
}

// Error names the user and the reason.
func (e *CanceledError) Error() string {
	text := "canceled by " + e.Author
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Unsent is the outcome of a run that was canceled before its request was sent.
func (e *CanceledError) Unsent() runs.Outcome {
	return runs.Outcome{
		Status: runs.Canceled,
		Reason: runs.CanceledByUser,
		Error:  fmt.Sprintf("nothing was sent: %s", e),
	}
}
