package ready

import (
	"context"
	"sync"
	"time"
)

// shareFactor bounds the part of a resource that one tenant may hold: at most 31 times as much as
// is free. One tenant alone gets 31 of 32 slots and two get 31 of 63 each. A third tenant therefore
// finds a free slot, even beside tenants with targets that hang. The same rule bounds the requests
// in flight to one host.
const shareFactor = 31

// maxUnused is the number of tenants or hosts from which on unused ones are dropped. Until then
// they are kept, because allocating them again costs more than their memory.
const maxUnused = 256

// Hosts bounds the requests in flight to each host and port. All requests of a process share one,
// whether a Queue starts them or they are sent beside it. It is safe for concurrent use.
type Hosts struct {
	limit int // zero: no bound

	// mu also guards every Queue over these hosts, because a host slot that comes free must go to
	// the next waiter in one step, be it an item of a queue or a caller.
	mu     sync.Mutex
	byName map[string]*host
}

// host is the state of one host and port.
type host struct {
	inFlight int
	byTenant map[[16]byte]int
	// moved is when a request last began or ended.
	moved   time.Time
	waiting waiters
	// bounds are the limits of tenants. That of the zero tenant holds for all together.
	bounds map[[16]byte]*bound
	// wake is when the waiters are looked at again; zero: no timer runs.
	wake time.Time
}

// NewHosts returns a limiter of limit requests in flight to each host; zero is no bound.
func NewHosts(limit int) *Hosts { return &Hosts{limit: limit, byName: map[string]*host{}} }

// Slot returns a host slot of a tenant that is held nowhere yet. Release it at the end.
func (h *Hosts) Slot(tenant [16]byte) *HostSlot { return &HostSlot{hosts: h, tenant: tenant} }

// HostSlot is the right to have one request in flight to one host. It belongs to one goroutine.
type HostSlot struct {
	hosts  *Hosts
	tenant [16]byte
	host   string // where it is held; empty: nowhere
}

// Move takes a host slot, and waits for it until ctx ends. The name must not be empty. Move first
// gives back the host slot that is held at another host, because holding one host slot while
// waiting for another could deadlock. If it is held at this host already, Move does nothing.
func (p *HostSlot) Move(ctx context.Context, name string) error {
	if p.hosts.limit <= 0 || name == p.host {
		return nil
	}
	c := p.ask(name)
	select {
	case <-c.admitted: // Also if ctx has ended: the request then reports its end itself.
		return nil
	default:
	}
	select {
	case <-c.admitted:
		return nil
	case <-ctx.Done():
		p.giveUp(name, c)
		return ctx.Err()
	}
}

// ask gives back the host slot that is held, and queues a caller for one at another host.
func (p *HostSlot) ask(name string) *caller {
	p.hosts.mu.Lock()
	defer p.hosts.mu.Unlock()
	p.release()
	at := p.hosts.host(name)
	c := &caller{hostSlot: p, admitted: make(chan struct{})}
	at.waiting.pushCaller(c)
	p.hosts.admit(name, at, time.Now())
	return c
}

// giveUp ends the wait of a caller. If it was admitted meanwhile, the host slot goes to the next
// waiter.
func (p *HostSlot) giveUp(name string, c *caller) {
	p.hosts.mu.Lock()
	defer p.hosts.mu.Unlock()
	if !p.hosts.byName[name].waiting.remove(c) {
		p.release()
	}
}

// Host returns the host at which the host slot is held, or an empty string. A nil host slot is held
// nowhere.
func (p *HostSlot) Host() string {
	if p == nil {
		return ""
	}
	return p.host
}

// Release gives the host slot back. It may be called again.
func (p *HostSlot) Release() {
	if p.hosts.limit <= 0 || p.host == "" {
		return
	}
	p.hosts.mu.Lock()
	defer p.hosts.mu.Unlock()
	p.release()
}

// release is Release for a caller that holds mu.
func (p *HostSlot) release() {
	if p.host == "" {
		return
	}
	name, now := p.host, time.Now()
	p.host = ""
	at := p.hosts.byName[name]
	at.inFlight--
	if at.byTenant[p.tenant]--; at.byTenant[p.tenant] == 0 {
		delete(at.byTenant, p.tenant) // Tenants come and go.
	}
	at.moved = now
	p.hosts.admit(name, at, now)
}

// take holds the host slot. The caller holds mu and has asked mayCall.
func (p *HostSlot) take(name string, at *host, now time.Time) {
	p.host = name
	at.inFlight++
	at.byTenant[p.tenant]++
	at.moved = now
	if len(at.bounds) > 0 { // One that was raised may have room for more than one.
		at.spend(p.tenant, now)
		p.hosts.admit(name, at, now)
	}
}

// mayCall reports whether a tenant may have one more request in flight to a host. The caller holds
// mu.
func (h *Hosts) mayCall(at *host, tenant [16]byte, now time.Time) bool {
	return at.byTenant[tenant] < shareFactor*(h.limit-at.inFlight) && at.permits(tenant, now)
}

// admit gives free host slots to waiting callers, round-robin across tenants. If it is the turn of
// an item, the item returns to its queue, and takes the host slot when it gets a slot. The caller
// holds mu.
func (h *Hosts) admit(name string, at *host, now time.Time) {
	for {
		c, i := at.waiting.pop(func(tenant [16]byte, _ bool) bool { return h.mayCall(at, tenant, now) })
		switch {
		case c != nil:
			c.grant(name, at, now)
		case i != nil:
			i.queue.resume(i)
			return
		default:
			h.wakeLater(name, at, now)
			return
		}
	}
}

// grant gives a caller its host slot. The caller of grant holds mu.
func (c *caller) grant(name string, at *host, now time.Time) {
	c.hostSlot.take(name, at, now)
	close(c.admitted)
}

// host returns the state of a host, or nil if it has no bound. The caller holds mu.
func (h *Hosts) host(name string) *host {
	if h.limit <= 0 || name == "" {
		return nil
	}
	at := h.byName[name]
	if at == nil {
		h.dropUnused()
		at = &host{byTenant: map[[16]byte]int{}, bounds: map[[16]byte]*bound{}}
		h.byName[name] = at
	}
	return at
}

// dropUnused drops hosts without a request, a waiter and a bound if there are many.
func (h *Hosts) dropUnused() {
	if len(h.byName) < maxUnused {
		return
	}
	for name, at := range h.byName {
		if at.inFlight == 0 && len(at.waiting.turns) == 0 && len(at.bounds) == 0 {
			delete(h.byName, name)
		}
	}
}
