package planner

import (
	"net/http"
	"slices"
	"time"

	"rubato/internal/runs"
)

// Additive increase, multiplicative decrease, of the rate at which a target is called that answers 429: its interval grows by half with
// each refusal, and shrinks by a step with each success, so that it settles just below what the target bears.
const (
	intervalGrowth   = 1.5
	intervalDecrease = 50 * time.Millisecond
)

// politeOf returns the shortest interval that a target accepts by its answers, newest first: at least the usual one, and at most most.
func rateLimitInterval(list []runs.Run, usual, most time.Duration) time.Duration {
	every := usual
	for _, run := range slices.Backward(list) {
		switch o := run.Outcome; {
		case o.StatusCode == http.StatusTooManyRequests:
			every = min(scale(every, intervalGrowth), most)
		case o.Status == runs.Succeeded:
			every = max(every-intervalDecrease, usual)
		}
	}
	return every
}
