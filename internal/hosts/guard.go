package hosts

import (
	"sync"
	"time"
)

// maxGuarded bounds the breakers of a [Guard]. Beyond it all are dropped; they open again after new
// failures.
const maxGuarded = 10_000

// probeLimit is how long a probe keeps its seat at most. A holder that panicked never ends its
// probe. Requests are far shorter.
const probeLimit = 5 * time.Minute

// Guard keeps circuit breakers in the memory of a process, for requests that are no runs: to the
// service of the model and to the receivers of notices. Its breakers follow the same rules as those
// of hosts in the database. It is safe for concurrent use.
type Guard struct {
	window time.Duration

	mu       sync.Mutex
	breakers map[Key]*Breaker
	// probing are the seats of the probes in flight, with the end of their time, and last is the
	// number of the latest one.
	probing map[Seat]time.Time
	last    int64
}

// NewGuard returns a guard without open breakers. window is the length of a first window; zero is
// the default.
func NewGuard(window time.Duration) *Guard {
	return &Guard{
		window:   window,
		breakers: map[Key]*Breaker{},
		probing:  map[Seat]time.Time{},
	}
}

// Pass is the right to send one request. Its holder returns it by [Guard.End].
type Pass struct {
	key  Key
	seat Seat // zero: the breaker is closed
}

// Probe reports whether the request decides about an open breaker.
func (p Pass) Probe() bool { return p.seat != Seat{} }

// Admit returns the right to send a request, or false and the instant at which to ask again. A
// forced request is admitted at any time, as a probe if the breaker is not closed.
func (g *Guard) Admit(key Key, force bool) (p Pass, again time.Time, admitted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b, now := g.breakers[key], time.Now()
	if b == nil || b.State == Closed {
		return Pass{key: key}, time.Time{}, true
	}
	g.last++
	p = Pass{
		key:  key,
		seat: Seat{Token: g.last},
	}
	if !b.Admit(now, p.seat, force, func(s Seat) bool { return now.Before(g.probing[s]) }) {
		return Pass{}, b.Back([16]byte{}, now), false
	}
	g.probing[p.seat] = now.Add(probeLimit)
	return p, time.Time{}, true
}

// End returns the right to send a request, with the outcome. retryAfter is the instant before which
// a failing target asked for no request; zero: none.
func (g *Guard) End(p Pass, v Verdict, retryAfter time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := Report{
		Key:        p.key,
		RetryAfter: retryAfter,
	}
	switch {
	case p.Probe():
		delete(g.probing, p.seat)
		r.Probes = []Probe{{Seat: p.seat, Verdict: v}}
	case v == Failure:
		r.Failures = 1
	case v == Success && g.breakers[p.key] != nil:
		r.Succeeded = true
	default:
		return
	}
	g.apply(r)
}

// Trip opens a closed breaker, if its user knows by other means that the target fails.
func (g *Guard) Trip(key Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.apply(Report{
		Key:      key,
		Failures: DefaultFailures,
	})
}

// OpenUntil returns the end of the window of an open breaker; zero: requests may be sent.
func (g *Guard) OpenUntil(key Key) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.breakers[key]; b != nil && b.State == Open && time.Now().Before(b.OpenUntil) {
		return b.OpenUntil
	}
	return time.Time{}
}

// apply merges a report, and forgets a breaker without failures. The caller holds mu.
func (g *Guard) apply(r Report) {
	now, b := time.Now(), g.breakers[r.Key]
	if b == nil {
		if len(g.breakers) >= maxGuarded {
			clear(g.breakers)
		}
		b = new(New(r.Key, now))
		b.Window = g.window
		g.breakers[r.Key] = b
	}
	if b.Apply(now, r); b.State == Closed && b.Failures == 0 {
		delete(g.breakers, r.Key)
	}
}
