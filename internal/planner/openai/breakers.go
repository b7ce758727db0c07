package openai

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/planner"
)

const (
	// maxRests bounds how many tenants and endpoints are remembered. Beyond it those that are forgotten are asked again, and found out again.
	maxBreakers = 10_000

	// maxFailures is how many requests in a row may fail before an endpoint, a tenant or the service is left alone.
	maxFailures = 3

	// failureWindow is the time within which failures belong together. Analyses of one tenant are minutes apart where it has few endpoints.
	failureWindow = 5 * time.Minute
)

// rests is a circuit breaker for each endpoint and each tenant, and decides when the service as a whole has to rest. A failure counts
// against the smallest of the three that explains it, so that the requests of one tenant never keep the model from another one:
//
//   - An endpoint rests after maxFailures in a row of its own.
//   - A tenant rests after maxFailures in a row from two of its endpoints, or when its requests are denied so often.
//   - The service rests after maxFailures in a row from two tenants, or when it says so itself.
//
// An answer ends a row. When a rest is over, one request tries; the others wait for it. It is safe for concurrent use.
type breakerSet struct {
	cooldown time.Duration
	now      func() time.Time

	mu       sync.Mutex
	states   map[scope]*breakerState
	service  breakerState
	answered time.Time // when the service last answered a request as it should
}

// restKey is a tenant, or an endpoint of it; the endpoint is zero for the tenant.
type scope = planner.Account

// failures is a row of failures.
type breakerState struct {
	consecutive int
	last        time.Time
	sources     map[scope]time.Time // whose requests failed, and when last
	openUntil   time.Time           // of the rest; zero: there was none since the last answer
}

// count adds a failure of a source, and reports whether the row is long enough and has so many sources within the window.
func (f *breakerState) count(source scope, sources int, now time.Time) bool {
	if now.Sub(f.last) > failureWindow {
		f.consecutive = 0
	}
	if f.sources == nil {
		f.sources = map[scope]time.Time{}
	}
	f.consecutive++
	f.last, f.sources[source] = now, now
	maps.DeleteFunc(f.sources, func(_ scope, at time.Time) bool { return now.Sub(at) > failureWindow })
	return f.consecutive >= maxFailures && len(f.sources) >= sources
}

func newBreakerSet(rest time.Duration) *breakerSet {
	return &breakerSet{cooldown: rest, now: time.Now, states: map[scope]*breakerState{}}
}

// keys returns what a request of an account may have to rest for.
func scopesOf(of planner.Account) [2]scope { return [2]scope{{TenantID: of.TenantID}, of} }

// until returns until when an account is left alone, and whether it is.
func (r *breakerSet) openUntil(of planner.Account) (at time.Time, resting bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.openUntilLocked(of)
}

func (r *breakerSet) openUntilLocked(of planner.Account) (at time.Time, resting bool) {
	for _, key := range scopesOf(of) {
		if f := r.states[key]; f != nil && f.openUntil.After(at) {
			at = f.openUntil
		}
	}
	return at, at.After(r.now())
}

// enter is until for a request that is about to be sent. The one that comes first after a rest begins another rest for those behind it,
// which its answer ends.
func (r *breakerSet) admit(of planner.Account) (at time.Time, resting bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, resting := r.openUntilLocked(of); resting {
		return at, true
	}
	for _, key := range scopesOf(of) {
		if f := r.states[key]; f != nil && !f.openUntil.IsZero() {
			f.openUntil = r.now().Add(r.cooldown)
		}
	}
	return time.Time{}, false
}

// failed counts a failure of an account, and reports whether the service has to rest for everybody.
func (r *breakerSet) recordFailure(of planner.Account, f *Failure) (service bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, tenant := r.now(), scopesOf(of)[0]
	switch f.Kind {
	case Throttled, BreakerOpen: // The gate keeps the time that the service asked for.
		return false
	case Unreadable, TooLarge:
		r.count(of, of, 1)
		return false
	case Denied:
		if r.isServiceWide(f.Status, now) {
			return true
		}
		r.count(tenant, of, 1)
		return f.Status == http.StatusForbidden && r.service.count(tenant, 2, now)
	case Unreachable, TimedOut, Unavailable:
	}
	r.count(of, of, 1)
	r.count(tenant, of, 2)
	return r.service.count(tenant, 2, now)
}

// speaksForAll reports whether a status is about the key or the account that every tenant shares. A 403 is also how some services refuse
// a prompt, so it counts as one about the key only while the service answers no request at all.
func (r *breakerSet) isServiceWide(status int, now time.Time) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired:
		return true
	case http.StatusForbidden:
		return now.Sub(r.answered) > failureWindow
	default:
		return false
	}
}

// count adds a failure of a source to what an account has to rest for, and begins the rest.
func (r *breakerSet) count(key, source scope, sources int) {
	f := r.states[key]
	if f == nil {
		if len(r.states) >= maxBreakers {
			clear(r.states)
		}
		f = &breakerState{}
		r.states[key] = f
	}
	if f.count(source, sources, r.now()) {
		f.openUntil = r.now().Add(r.cooldown)
	}
}

// succeeded ends the rows that a request of an account belongs to.
func (r *breakerSet) recordSuccess(of planner.Account) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range scopesOf(of) {
		delete(r.states, key)
	}
	r.service, r.answered = breakerState{}, r.now()
}

// resting returns how many tenants and how many endpoints are left alone.
func (r *breakerSet) openCounts() (tenants, single int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, f := range r.states {
		switch {
		case !f.openUntil.After(r.now()):
		case key.EndpointID == endpoints.ID{}:
			tenants++
		default:
			single++
		}
	}
	return tenants, single
}
