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
	// maxBreakers bounds the number of tenants and endpoints with state. Beyond it all state is
	// dropped; the breakers open again after new failures.
	maxBreakers = 10_000

	// maxFailures is the number of consecutive failures that opens a breaker.
	maxFailures = 3

	// failureWindow is the time within which failures count as consecutive. It is minutes, because
	// a tenant with few endpoints is analysed rarely.
	failureWindow = 5 * time.Minute
)

// breakerSet holds a circuit breaker per endpoint and per tenant, and decides when the breaker of
// the whole service opens. A failure counts against the smallest scope that explains it, so that
// one tenant's requests never block the model for another tenant:
//
//   - The breaker of an endpoint opens after maxFailures consecutive failures of its own.
//   - The breaker of a tenant opens after maxFailures from two of its endpoints, or after
//     maxFailures denied requests.
//   - The breaker of the service opens after maxFailures from two tenants, or if the service asks
//     for it.
//
// A success closes the breaker. After the cooldown, one request is the trial and the others wait
// for its result. It is safe for concurrent use.
type breakerSet struct {
	cooldown time.Duration
	now      func() time.Time

	mu      sync.Mutex
	states  map[scope]*breakerState
	service breakerState
	// answered is the time of the last successful request of any tenant.
	answered time.Time
}

// scope is a tenant, or one of its endpoints; the endpoint is zero for the tenant.
type scope = planner.Account

// breakerState is the state of one circuit breaker. The mutex of the set guards it.
type breakerState struct {
	consecutive int
	last        time.Time
	// sources are the scopes of the failed requests, with the time of their last failure.
	sources map[scope]time.Time
	// openUntil is the end of the cooldown; zero since the last success.
	openUntil time.Time
}

// count adds a failure, and reports whether enough consecutive failures from enough sources lie
// within the window.
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
	return &breakerSet{
		cooldown: rest,
		now:      time.Now,
		states:   map[scope]*breakerState{},
	}
}

// scopesOf returns the scopes of the breakers that apply to an account.
func scopesOf(of planner.Account) [2]scope { return [2]scope{{TenantID: of.TenantID}, of} }

// openUntil returns the end of an account's cooldown, and whether it lies in the future.
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

// admit is openUntil for a request that is about to be sent. The first request after a cooldown is
// the trial: admit starts another cooldown for all others, which the trial's success ends.
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

// recordFailure counts a failure of an account, and reports whether the service's breaker must
// open.
func (r *breakerSet) recordFailure(of planner.Account, f *Failure) (service bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, tenant := r.now(), scopesOf(of)[0]
	switch f.Kind {
	case Throttled, BreakerOpen: // the throttle holds the service's own wait
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

// isServiceWide reports whether a status concerns the API key, which all tenants share. Some
// services also refuse a prompt with 403, so a 403 counts only if no request has succeeded within
// the window.
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

// count adds a failure to the breaker of a scope, and opens it if necessary.
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

// recordSuccess closes the breakers of an account and of the service.
func (r *breakerSet) recordSuccess(of planner.Account) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range scopesOf(of) {
		delete(r.states, key)
	}
	r.service, r.answered = breakerState{}, r.now()
}

// openCounts returns the number of tenants and of endpoints with an open breaker.
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
