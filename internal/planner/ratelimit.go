package planner

import (
	"net/http"
	"time"

	"rubato/internal/runs"
)

// Additive increase, multiplicative decrease (AIMD) of the request rate to a target that answers
// 429: its interval grows by half with each 429 and shrinks by a step with each success. Therefore
// it settles just above the shortest interval that the target accepts.
const (
	intervalGrowth   = 1.5
	intervalDecrease = 50 * time.Millisecond
)

// rateLimitInterval returns the shortest interval that a target accepts according to its responses,
// newest first. The result is between usual and most.
func rateLimitInterval(list []runs.Run, usual, most time.Duration) time.Duration {
	every := usual
	for i := len(list) - 1; i >= 0; i-- { // Without copies, because each run is large.
		switch o := &list[i].Outcome; {
		case o.StatusCode == http.StatusTooManyRequests:
			every = min(scale(every, intervalGrowth), most)
		case o.Status == runs.Succeeded:
			every = max(every-intervalDecrease, usual)
		}
	}
	return every
}
