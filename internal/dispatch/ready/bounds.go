package ready

import (
	"math"
	"time"
)

// Bound limits the requests of one tenant, or of all tenants, to a host. Its zero value is no
// limit.
type Bound struct {
	// Concurrency is the most requests in flight; zero: no limit.
	Concurrency int
	// Closed permits no request at all, because other processes have all of the limit.
	Closed bool
	// Rate is the most requests per second, evenly spread; zero: no limit.
	Rate float64
	// HeldUntil is the instant before which nothing is sent, on the process's clock; zero: none.
	HeldUntil time.Time
}

// burst is the time whose requests may be sent at once after a pause. A rate is a limit of each
// tenth of a second, not of each second, so that no second has more requests than the target takes.
const burst = 100 * time.Millisecond

// Use says which limits of a bound kept a request waiting since it was last asked.
type Use struct {
	Concurrency, Rate bool
}

// bound is a [Bound] in force, with the tokens of its rate. The lock of hosts guards it.
type bound struct {
	Bound

	// tokens are the requests that may be sent at once, as of filled.
	tokens float64
	filled time.Time
	use    Use
}

// SetBound sets the bound of a tenant's requests to a host. The zero tenant stands for all tenants
// together. A zero bound removes it.
func (h *Hosts) SetBound(tenant [16]byte, name string, b Bound) {
	if h.limit <= 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	at := h.host(name)
	old := at.bounds[tenant]
	switch {
	case b == (Bound{}):
		delete(at.bounds, tenant)
	case old == nil:
		at.bounds[tenant] = &bound{Bound: b, tokens: b.most(), filled: now}
	default:
		old.fill(now)
		old.Bound = b
		old.tokens = min(old.tokens, b.most())
	}
	h.admit(name, at, now)
}

// TakeUse returns which limits of a tenant at a host kept a request waiting since the last call.
func (h *Hosts) TakeUse(tenant [16]byte, name string) (u Use) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.byName[name]
	if at == nil {
		return u
	}
	if b := at.bounds[tenant]; b != nil {
		u = b.use
		b.use = Use{}
	}
	return u
}

// Opens returns when a tenant may send a request to a host again, which is zero if only requests in
// flight keep it from that, and whether a bound permits none at all.
func (h *Hosts) Opens(tenant [16]byte, name string) (when time.Time, closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at := h.byName[name]; at != nil {
		return at.opens(tenant, time.Now()), at.closed(tenant)
	}
	return time.Time{}, false
}

// calls returns the requests in flight of a tenant, or of all tenants.
func (at *host) calls(tenant [16]byte) int {
	if tenant == ([16]byte{}) {
		return at.inFlight
	}
	return at.byTenant[tenant]
}

// each calls f for the bounds that hold for a tenant.
func (at *host) each(tenant [16]byte, f func(scope [16]byte, b *bound)) {
	if len(at.bounds) == 0 { // Nearly every host.
		return
	}
	if b := at.bounds[[16]byte{}]; b != nil {
		f([16]byte{}, b)
	}
	if tenant != ([16]byte{}) {
		if b := at.bounds[tenant]; b != nil {
			f(tenant, b)
		}
	}
}

// permits reports whether the bounds let a tenant send one more request now, and notes in their use
// if not.
func (at *host) permits(tenant [16]byte, now time.Time) bool {
	permitted := true
	at.each(tenant, func(scope [16]byte, b *bound) {
		b.fill(now)
		switch {
		case b.Closed || b.Concurrency > 0 && at.calls(scope) >= b.Concurrency:
			permitted, b.use.Concurrency = false, true
		case b.Rate > 0 && b.tokens < 1:
			permitted, b.use.Rate = false, true
		case now.Before(b.HeldUntil):
			permitted = false
		}
	})
	return permitted
}

// spend takes a token of each bound for a request that begins.
func (at *host) spend(tenant [16]byte, now time.Time) {
	at.each(tenant, func(_ [16]byte, b *bound) {
		b.fill(now)
		b.tokens--
	})
}

// opens returns when the bounds let a tenant send a request again, as far as only time keeps it
// from that.
func (at *host) opens(tenant [16]byte, now time.Time) (when time.Time) {
	at.each(tenant, func(_ [16]byte, b *bound) {
		b.fill(now)
		if b.Rate > 0 && b.tokens < 1 {
			// A nanosecond more than enough, because of rounding.
			when = later(when, now.Add(time.Duration((1-b.tokens)/b.Rate*float64(time.Second))+1))
		}
		if now.Before(b.HeldUntil) {
			when = later(when, b.HeldUntil)
		}
	})
	return when
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// most returns the largest number of tokens.
func (b Bound) most() float64 { return max(1, b.Rate*burst.Seconds()) }

// fill adds the tokens of the time since the last call.
func (b *bound) fill(now time.Time) {
	if passed := now.Sub(b.filled).Seconds(); b.Rate > 0 && passed > 0 {
		b.tokens = math.Min(b.most(), b.tokens+passed*b.Rate)
	}
	b.filled = now
}

// wakeLater makes the waiters of a host go on when time lets the first of them. The caller holds
// mu.
func (h *Hosts) wakeLater(name string, at *host, now time.Time) {
	if len(at.bounds) == 0 || len(at.waiting.turns) == 0 {
		return
	}
	var first time.Time
	for _, tenant := range at.waiting.turns {
		if opens := at.opens(tenant, now); !opens.IsZero() && (first.IsZero() || opens.Before(first)) {
			first = opens
		}
	}
	if first.IsZero() || at.wake.After(now) && !first.Before(at.wake) {
		return
	}
	at.wake = first
	time.AfterFunc(first.Sub(now), func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		now := time.Now()
		if at.wake = (time.Time{}); h.byName[name] == at {
			h.admit(name, at, now)
		}
	})
}

// closed reports whether a bound permits a tenant no request at all.
func (at *host) closed(tenant [16]byte) (closed bool) {
	at.each(tenant, func(_ [16]byte, b *bound) { closed = closed || b.Closed })
	return closed
}
