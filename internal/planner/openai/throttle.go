package openai

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"rubato/internal/egress"
)

const (
	maxWait     = 10 * time.Minute // cap on Retry-After, because a longer one is likely a mistake
	defaultWait = 30 * time.Second // for a 429 without Retry-After
)

// throttle stops requests while the service's Retry-After lasts. All sessions of a process share
// it. The mutex guards until.
type throttle struct {
	now func() time.Time

	mu    sync.Mutex
	until time.Time
}

// active returns the end of the wait, and whether it lies in the future.
func (g *throttle) active() (time.Time, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until, g.now().Before(g.until)
}

// observe starts a wait if the response asks for it: every 429, and a 503 with Retry-After. It
// returns the end of the wait. A longer wait in progress stays in force.
func (g *throttle) observe(answer *http.Response) time.Time {
	limited := answer.StatusCode == http.StatusTooManyRequests
	if !limited && answer.StatusCode != http.StatusServiceUnavailable {
		return time.Time{}
	}
	now := g.now()
	asked := defaultWait
	if at, ok := egress.RetryAfter(answer.Header, now); ok {
		asked = at.Sub(now)
	} else if !limited {
		return time.Time{} // the circuit breaker counts it
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	luck := rand.Float64() //nolint:gosec // Jitter is not a secret.
	if until := now.Add(withJitter(asked, luck)); until.After(g.until) {
		g.until = until
	}
	return g.until
}

// withJitter returns the wait for a Retry-After, with jitter so that many planners do not retry
// together. It is at least asked unless that exceeds the cap, and at most the cap. luck is in [0,
// 1).
func withJitter(asked time.Duration, luck float64) time.Duration {
	asked = max(asked, time.Second) // Retry-After has whole seconds; 0 must not cause a retry storm
	if asked >= maxWait {
		return maxWait - time.Duration(luck*float64(maxWait/10))
	}
	return asked + time.Duration(luck*float64(min(asked/4, maxWait-asked)))
}
