package openai

import (
	"sync"
	"time"

	"rubato/internal/planner"
)

// maxRests bounds how many tenants and endpoints are remembered. Beyond it those that are forgotten are asked again, and found out again.
const maxRests = 10_000

// rests remembers whose requests failed by their own fault: a tenant's prompts that the service denies, an endpoint's that it answers with
// what cannot be read. Each is left alone by itself after maxFailures in a row, and everybody else goes on. It is safe for concurrent use.
type rests struct {
	rest time.Duration
	now  func() time.Time

	mu sync.Mutex
	of map[restKey]*failures
}

// restKey is a tenant, or an endpoint of it; the endpoint is zero for the tenant.
type restKey = planner.Account

type failures struct {
	inARow int
	until  time.Time
}

func newRests(rest time.Duration) *rests {
	return &rests{rest: rest, now: time.Now, of: map[restKey]*failures{}}
}

// keys returns what a request of an account may have to rest for.
func keys(of planner.Account) [2]restKey { return [2]restKey{{TenantID: of.TenantID}, of} }

// until returns until when an account is left alone, and whether it is. When the rest is over, one failure begins another one.
func (r *rests) until(of planner.Account) (at time.Time, resting bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys(of) {
		if f := r.of[key]; f != nil && f.until.After(at) {
			at = f.until
		}
	}
	return at, at.After(r.now())
}

// failed counts a failure against the tenant or the endpoint that caused it; one of the service itself is nobody's here.
func (r *rests) failed(of planner.Account, kind Kind) {
	key := of
	switch kind {
	case Denied:
		key = keys(of)[0]
	case Unreadable, TooLarge:
	case Unreachable, TimedOut, Throttled, Unavailable, Rested:
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.of[key]
	if f == nil {
		if len(r.of) >= maxRests {
			clear(r.of)
		}
		f = &failures{}
		r.of[key] = f
	}
	if f.inARow++; f.inARow >= maxFailures {
		f.until = r.now().Add(r.rest)
	}
}

// succeeded forgets the failures of an account.
func (r *rests) succeeded(of planner.Account) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys(of) {
		delete(r.of, key)
	}
}
