// Package ready is the fair queue of a worker, and the one place where concurrency is limited.
//
// A [Queue] holds items until their due time, and then until a slot of the process and a host slot
// at their host are free. It is round-robin across tenants. [Hosts] bounds the requests in flight
// to each host, be they of items or of calls beside the queue. One tenant may hold at most 31 times
// as many slots, and host slots at a host, as are free, so that a tenant with targets that hang
// leaves some to the others.
package ready

import (
	"container/heap"
	"slices"
	"time"
)

// Item is what waits in a [Queue]. A caller's type embeds it. Its exported fields must not change
// while the item is queued.
type Item struct {
	Tenant [16]byte
	// Host names a host and port. If it is empty, no host slot is taken before the start.
	Host string
	// PlannedAt is the due time, on the database's clock.
	PlannedAt time.Time
	// HeadStart is by how much the item goes before others of its tenant that came due earlier. It
	// may be negative.
	HeadStart time.Duration
	// Since is when the item was queued, or its due time if that is later. On the process's clock.
	Since time.Time

	entry    Entry
	queue    *fairQueue
	hostSlot HostSlot
}

// Entry is a pointer to a type that embeds [Item].
type Entry interface{ item() *Item }

func (i *Item) item() *Item { return i }

// turn returns the instant by which due items of a tenant are ordered.
func (i *Item) turn() time.Time { return i.PlannedAt.Add(-i.HeadStart) }

// HostSlot returns the host slot of an item that was taken, or nil if its queue has no bound for
// hosts. The host slot belongs to the goroutine that took the item.
func (i *Item) HostSlot() *HostSlot {
	if i.queue == nil || i.queue.hosts.limit <= 0 {
		return nil
	}
	return &i.hostSlot
}

// Release gives the host slot of the item back. It may be called again.
func (i *Item) Release() {
	if p := i.HostSlot(); p != nil {
		p.Release()
	}
}

// Queue holds items until they may start. It is safe for concurrent use.
type Queue[E Entry] struct {
	later dueHeap // items that are not due yet
	fair  fairQueue
}

// NewQueue returns an empty queue without slots. Hosts bounds the requests to each host; nil is no
// bound.
func NewQueue[E Entry](hosts *Hosts) *Queue[E] {
	if hosts == nil {
		hosts = NewHosts(0)
	}
	return &Queue[E]{fair: fairQueue{
		hosts:   hosts,
		changed: make(chan struct{}, 1),
		tenants: map[[16]byte]*tenantQueue{},
	}}
}

func (q *Queue[E]) lock() (unlock func()) {
	q.fair.hosts.mu.Lock()
	return q.fair.hosts.mu.Unlock
}

// Changed signals that an item was added or may start.
func (q *Queue[E]) Changed() <-chan struct{} { return q.fair.changed }

// Poke signals Changed. It never blocks.
func (q *Queue[E]) Poke() { q.fair.poke() }

// Add queues items and signals Changed.
func (q *Queue[E]) Add(list []E) {
	q.Put(list)
	q.Poke()
}

// Put queues items without a signal.
func (q *Queue[E]) Put(list []E) {
	defer q.lock()()
	q.put(list)
}

func (q *Queue[E]) put(list []E) {
	for _, e := range list {
		i := e.item()
		i.entry, i.queue = e, &q.fair
		i.hostSlot.hosts, i.hostSlot.tenant = q.fair.hosts, i.Tenant
		heap.Push(&q.later, i)
	}
}

// Take removes and returns up to most items that are due by until. Each of them holds a slot, and a
// host slot at its host.
func (q *Queue[E]) Take(until time.Time, most int) []E {
	defer q.lock()()
	q.moveDue(until)
	return entries[E](q.fair.take(most, time.Now()))
}

// moveDue moves the items that are due by until to the fair queue.
func (q *Queue[E]) moveDue(until time.Time) {
	for len(q.later) > 0 && !q.later[0].PlannedAt.After(until) {
		q.fair.add(heap.Pop(&q.later).(*Item)) //nolint:forcetypeassert // The heap holds nothing else.
	}
}

// PutBack queues items again that were taken, and gives back their slots and host slots.
func (q *Queue[E]) PutBack(batch []E) {
	defer q.lock()()
	q.giveBack(batch) // First, because an item must not be queued while it holds a host slot.
	q.put(batch)
}

// Return gives back the slots and places of items that were taken and will not be sent.
func (q *Queue[E]) Return(batch []E) {
	defer q.lock()()
	q.giveBack(batch)
}

func (q *Queue[E]) giveBack(batch []E) {
	for _, e := range batch {
		i := e.item()
		i.hostSlot.release()
		q.fair.end(i.Tenant)
	}
}

// FreeSlots gives back one slot for each of the tenants. It does not signal Changed.
func (q *Queue[E]) FreeSlots(tenants ...[16]byte) {
	defer q.lock()()
	for _, tenant := range tenants {
		q.fair.end(tenant)
	}
}

// Occupy takes a slot for a tenant beyond all bounds, for a run that holds one without an item.
func (q *Queue[E]) Occupy(tenant [16]byte) {
	defer q.lock()()
	q.fair.start(q.fair.tenantOf(tenant))
}

// SetSlots sets the number of slots. If more are taken, they come free by and by. It returns the
// number before.
func (q *Queue[E]) SetSlots(slots int) (before int) {
	defer q.lock()()
	return int(q.fair.slots.Swap(int64(slots)))
}

// Slots returns the number of slots.
func (q *Queue[E]) Slots() int { return int(q.fair.slots.Load()) }

// Busy returns the number of slots that are taken.
func (q *Queue[E]) Busy() int { return int(q.fair.busy.Load()) }

// Next returns the due time of the first item that is not due yet, and false if there is none.
// Items that wait for a slot or a host do not count: Changed signals when they may start.
func (q *Queue[E]) Next() (time.Time, bool) {
	defer q.lock()()
	if len(q.later) == 0 {
		return time.Time{}, false
	}
	return q.later[0].PlannedAt, true
}

// Overloaded reports whether a due item has waited for a slot for longer than patience. now is on
// the database's clock.
func (q *Queue[E]) Overloaded(now time.Time, patience time.Duration) bool {
	defer q.lock()()
	clock := time.Now()
	if len(q.later) > 0 && !q.later[0].PlannedAt.After(now) && clock.Sub(q.later[0].Since) > patience {
		return true
	}
	return q.fair.waited(clock) > patience || q.fair.starved(patience, clock)
}

// Wanted returns those of the tenants that lack items: further items would start soon, because at
// most half of room of their items wait, the first of them for no longer than patience.
func (q *Queue[E]) Wanted(tenants [][16]byte, room int, patience time.Duration) [][16]byte {
	defer q.lock()()
	now := time.Now()
	return slices.DeleteFunc(slices.Clone(tenants), func(t [16]byte) bool { return !q.fair.wants(t, room, patience, now) })
}

// Evict removes due items that will not start soon: starved are those of tenants that have got no
// slot for longer than patience, atHosts those at hosts where no request has begun or ended for as
// long, or where their bound permits none. now is on the database's clock.
func (q *Queue[E]) Evict(now time.Time, patience time.Duration) (starved, atHosts []E) {
	defer q.lock()()
	q.moveDue(now)
	a, b := q.fair.evict(patience, time.Now())
	return entries[E](a), entries[E](b)
}

// WaitingForSlot returns the number of due items that wait for nothing but a slot. now is on the
// database's clock.
func (q *Queue[E]) WaitingForSlot(now time.Time) int {
	defer q.lock()()
	q.moveDue(now)
	return q.fair.size - q.fair.atHosts
}

// WaitingForHost returns the number of due items that wait at a full host.
func (q *Queue[E]) WaitingForHost() int {
	defer q.lock()()
	return q.fair.atHosts
}

// Starved reports whether a tenant wants a slot and does not get one.
func (q *Queue[E]) Starved() bool {
	defer q.lock()()
	return q.fair.starved(0, time.Now())
}

// Len returns the number of items.
func (q *Queue[E]) Len() int {
	defer q.lock()()
	return len(q.later) + q.fair.size
}

// Clear removes and returns all items.
func (q *Queue[E]) Clear() []E {
	defer q.lock()()
	list := append(q.fair.clear(time.Now()), q.later...)
	q.later = nil
	return entries[E](list)
}

func entries[E Entry](list []*Item) []E {
	all := make([]E, len(list))
	for n, i := range list {
		all[n] = i.entry.(E) //nolint:forcetypeassert // Put takes nothing else.
	}
	return all
}

// dueHeap orders items by due time. It implements heap.Interface.
type dueHeap []*Item

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].PlannedAt.Before(h[j].PlannedAt) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(*Item)) } //nolint:forcetypeassert // Likewise.

func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
