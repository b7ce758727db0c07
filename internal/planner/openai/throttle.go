package openai

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"rubato/internal/egress"
)

const (
	maxWait     = 10 * time.Minute // a service that asks for longer is asked again after this; the rest would be somebody's mistake
	defaultWait = 30 * time.Second // for a service that has no room and does not say for how long
)

// gate is shut while the service has asked to be left alone. All sessions of a process stand before the same one.
type throttle struct {
	now func() time.Time

	mu    sync.Mutex
	until time.Time
}

// shut returns until when nothing may be asked, and whether that is now.
func (g *throttle) active() (time.Time, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until, g.now().Before(g.until)
}

// observe shuts the gate where the answer asks for it: a 429 always, a 503 that says how long. It returns until when. A gate that is
// shut for longer already stays so.
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
		return time.Time{} // The breaker counts it.
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	luck := rand.Float64() //nolint:gosec // Nobody gains by guessing it.
	if until := now.Add(withJitter(asked, luck)); until.After(g.until) {
		g.until = until
	}
	return g.until
}

// spread returns how long to wait where asked is asked for: never less than that unless it exceeds the cap, never more than the cap,
// and different for each of many planners that were refused together. luck is in [0, 1).
func withJitter(asked time.Duration, luck float64) time.Duration {
	asked = max(asked, time.Second) // Retry-After counts whole seconds; 0 of them is no reason to storm.
	if asked >= maxWait {
		return maxWait - time.Duration(luck*float64(maxWait/10))
	}
	return asked + time.Duration(luck*float64(min(asked/4, maxWait-asked)))
}
