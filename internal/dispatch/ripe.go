package dispatch

import "time"

// shareFactor says how many slots a tenant may hold: up to so many times those that are free. One tenant alone gets 31 of 32 slots, two
// get 31 of 63 each; so whoever has none finds one beside a tenant whose targets hang, for however long. The same goes for the requests
// under way to one host.
const shareFactor = 31

// keptLines is how many tenants and hosts are remembered that hold nothing and wait for nothing, to spare the memory manager.
const keptLines = 256

// ripe holds the claims whose time has come, by tenant, and knows who holds the slots. Tenants take turns. A claim whose host has as many
// requests under way as it may is parked until one of them is answered, so that it holds no slot while it waits. It is not safe for
// concurrent use.
type ripe struct {
	perHost int // requests under way to one host; zero: no bound
	size    int // claims here, parked ones included
	parked  int
	free    int // slots that nobody holds
	lines   map[[16]byte]*line
	turns   []*line // those with claims, the next one first
	hosts   map[string]*host
}

// line is a tenant: the claims of it that wait, and the slots that it holds.
type line struct {
	tenant [16]byte
	first  fifo // parked ones whose host has room again
	rest   fifo
	busy   int
	turn   bool      // it is among the turns
	denied time.Time // since when it has wanted a slot, got none and given none back; zero: it is not kept from slots
}

// host is a server: its requests under way, whose they are, and the claims that wait for one of them to end.
type host struct {
	busy   int
	by     map[[16]byte]int
	moved  time.Time // when the last one began or ended
	parked parking
}

func newRipe(perHost int) ripe {
	return ripe{perHost: perHost, lines: map[[16]byte]*line{}, hosts: map[string]*host{}}
}

// add puts a claim at the end of its tenant's line.
func (r *ripe) add(w *waiting) {
	r.size++
	l := r.line(w.target.TenantID)
	l.rest.push(w)
	r.enter(l)
}

func (r *ripe) line(tenant [16]byte) *line {
	l := r.lines[tenant]
	if l == nil {
		r.forget()
		l = &line{tenant: tenant}
		r.lines[tenant] = l
	}
	return l
}

// enter gives a line its turn, behind the others.
func (r *ripe) enter(l *line) {
	if !l.turn {
		l.turn = true
		r.turns = append(r.turns, l)
	}
}

// take takes up to most claims out, one of each tenant in turn, and their slots; free slots there are in all. now is of the process's clock.
func (r *ripe) take(most, free int, now time.Time) []*waiting {
	batch := make([]*waiting, 0, max(0, min(most, r.size)))
	r.free = free
	for passed := 0; len(batch) < most && passed < len(r.turns); {
		l := r.turns[0]
		r.turns = r.turns[1:]
		if !l.mayTake(r.free) {
			l.deny(now)
			r.turns = append(r.turns, l)
			if passed++; r.cede(l) {
				passed = 0
			}
			continue
		}
		if w := r.pop(l, now); w != nil {
			batch = append(batch, w)
			passed = 0
		}
		if l.turn = l.size() > 0; l.turn {
			r.turns = append(r.turns, l)
		}
	}
	if r.free <= 0 {
		for _, l := range r.turns {
			l.deny(now)
		}
	}
	return batch
}

// cede lets others go ahead at hosts where a tenant that gets no slot is next, and reports whether there were any: they would wait there for a
// request that nobody sends.
func (r *ripe) cede(l *line) (ceded bool) {
	for range l.first.size() {
		w := l.first.pop()
		h := r.host(w.target.Host)
		next := h.parked.pop(func(t [16]byte) bool { return r.mayCall(h, t) && r.line(t).mayTake(r.free) })
		if next == nil {
			l.first.push(w)
			continue
		}
		h.parked.push(w)
		ahead := r.line(next.target.TenantID)
		ahead.first.push(next)
		r.enter(ahead)
		ceded = true
	}
	return ceded
}

// mayTake reports whether a tenant may have one more of the slots that are free.
func (l *line) mayTake(free int) bool { return l.busy < shareFactor*free }

func (l *line) deny(now time.Time) {
	if l.denied.IsZero() {
		l.denied = now
	}
}

// pop takes out the first claim of a line whose host has room, nil where there is none, and parks those before it.
func (r *ripe) pop(l *line, now time.Time) *waiting {
	for {
		w := l.first.pop()
		if w == nil {
			w = l.rest.pop()
		}
		if w == nil {
			return nil
		}
		h := r.host(w.target.Host)
		if h != nil && !r.mayCall(h, l.tenant) {
			r.parked++
			h.parked.push(w)
			continue
		}
		if h != nil {
			h.busy++
			h.by[l.tenant]++
			h.moved = now
		}
		r.size--
		r.free--
		l.busy++
		l.denied = time.Time{}
		return w
	}
}

// mayCall reports whether a tenant may have one more request under way to a host.
func (r *ripe) mayCall(h *host, tenant [16]byte) bool {
	return h.by[tenant] < shareFactor*(r.perHost-h.busy)
}

// host returns what is known of a server, nil where it has no bound.
func (r *ripe) host(name string) *host {
	if r.perHost <= 0 || name == "" {
		return nil
	}
	h := r.hosts[name]
	if h == nil {
		r.forget()
		h = &host{by: map[[16]byte]int{}}
		r.hosts[name] = h
	}
	return h
}

// leave tells that a request of a tenant to a host is over, or was never sent. Of who is parked there the next one that may go ahead does,
// before the rest of its tenant's line.
func (r *ripe) leave(tenant [16]byte, name string, now time.Time) {
	h := r.host(name)
	if h == nil {
		return
	}
	h.busy--
	if h.by[tenant]--; h.by[tenant] == 0 {
		delete(h.by, tenant) // Tenants come and go.
	}
	h.moved = now
	if w := h.parked.pop(func(t [16]byte) bool { return r.mayCall(h, t) }); w != nil {
		r.parked--
		l := r.line(w.target.TenantID)
		l.first.push(w)
		r.enter(l)
	}
}

// begin takes a slot for a run of a tenant that has waited for none.
func (r *ripe) begin(tenant [16]byte) {
	r.free--
	r.line(tenant).busy++
}

// end gives a slot of a tenant back.
func (r *ripe) end(tenant [16]byte) {
	r.free++
	l := r.line(tenant)
	l.busy--
	l.denied = time.Time{}
}

// waited returns how long the claim that has waited longest for a slot could have had one.
func (r *ripe) waited(now time.Time) (longest time.Duration) {
	for _, l := range r.turns {
		longest = max(longest, l.waited(now))
	}
	return longest
}

// stalled reports whether a tenant has wanted a slot for longer than patience, and neither got one nor given one back.
func (r *ripe) stalled(patience time.Duration, now time.Time) bool {
	for _, l := range r.lines {
		if r.isStalled(l, patience, now) {
			return true
		}
	}
	return false
}

func (r *ripe) isStalled(l *line, patience time.Duration, now time.Time) bool {
	return !l.denied.IsZero() && now.Sub(l.denied) > patience && !l.mayTake(r.free)
}

// hopeless takes out the claims of tenants that are stalled for longer than patience, and those that are parked at hosts where nothing has
// moved for as long.
func (r *ripe) hopeless(patience time.Duration, now time.Time) (late, parked []*waiting) {
	turns := r.turns
	r.turns = nil
	for _, l := range turns {
		if r.isStalled(l, patience, now) {
			late = append(append(late, l.first.clear()...), l.rest.clear()...)
			l.turn = false
		} else {
			r.turns = append(r.turns, l)
		}
	}
	for _, h := range r.hosts {
		if h.parked.size > 0 && now.Sub(h.moved) > patience {
			parked = append(parked, h.parked.clear()...)
		}
	}
	r.parked -= len(parked)
	r.size -= len(late) + len(parked)
	return late, parked
}

// wants reports whether more claims of a tenant would start soon: at most half of room of its claims wait, the first of them not for long.
func (r *ripe) wants(tenant [16]byte, room int, now time.Time) bool {
	l := r.lines[tenant]
	return l == nil || l.size() <= room/2 && l.waited(now) <= overdueLimit && !r.isStalled(l, overdueLimit, now)
}

// clear takes out every claim.
func (r *ripe) clear() (list []*waiting) {
	for _, l := range r.turns {
		list = append(append(list, l.first.clear()...), l.rest.clear()...)
		l.turn = false
	}
	for _, h := range r.hosts {
		list = append(list, h.parked.clear()...)
	}
	r.turns, r.size, r.parked = nil, 0, 0
	return list
}

// forget drops tenants and hosts that hold nothing and wait for nothing, once there are many.
func (r *ripe) forget() {
	if len(r.lines) >= keptLines {
		for id, l := range r.lines {
			if !l.turn && l.busy == 0 {
				delete(r.lines, id)
			}
		}
	}
	if len(r.hosts) >= keptLines {
		for name, h := range r.hosts {
			if h.busy == 0 && h.parked.size == 0 {
				delete(r.hosts, name)
			}
		}
	}
}

func (l *line) size() int { return l.first.size() + l.rest.size() }

func (l *line) waited(now time.Time) time.Duration {
	for _, f := range []*fifo{&l.first, &l.rest} {
		if f.size() > 0 {
			return now.Sub(f.list[f.head].since)
		}
	}
	return 0
}

// fifo is a list whose first is taken first.
type fifo struct {
	list []*waiting
	head int
}

func (f *fifo) push(w *waiting) {
	if len(f.list) == cap(f.list) && f.head > len(f.list)/2 { // A list that is never empty must not grow for ever.
		n := copy(f.list, f.list[f.head:])
		clear(f.list[n:])
		f.list, f.head = f.list[:n], 0
	}
	f.list = append(f.list, w)
}

// pop takes out the first one, nil where there is none.
func (f *fifo) pop() *waiting {
	if f.size() == 0 {
		return nil
	}
	w := f.list[f.head]
	f.list[f.head] = nil
	if f.head++; f.head == len(f.list) {
		f.list, f.head = f.list[:0], 0
	}
	return w
}

func (f *fifo) size() int { return len(f.list) - f.head }

func (f *fifo) clear() []*waiting {
	list := f.list[f.head:]
	f.list, f.head = nil, 0
	return list
}
