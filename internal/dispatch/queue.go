package dispatch

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"rubato/internal/claims"
	"rubato/internal/runs"
)

// waiting is a claim in the queue, with its target. It is large and moves often, so it is allocated once, and passed by pointer until its run
// ends. Only the goroutine that took it out of the queue may change it; its target is shared and never changes.
type waiting struct {
	claim    claims.Claim
	run      runs.ID // to which the claim leads
	target   *Target
	since    time.Time // when it came here, or its due time where that is later, on this process's clock
	doubtful bool      // a start of it was answered by nothing: the run may be live
	fault    error     // what its start panicked with; nil: it did not
}

// queue holds the claims that wait: for their due time, the next one first, and then for a slot, tenants in turn. It knows who holds the
// slots. It is safe for concurrent use.
type queue struct {
	changed chan struct{} // told when something was added

	mu    sync.Mutex
	later dueHeap
	ripe  ripe
}

// newQueue returns an empty queue. perHost bounds the requests under way to one host; zero is no bound.
func newQueue(perHost int) *queue {
	return &queue{changed: make(chan struct{}, 1), ripe: newRipe(perHost)}
}

// add puts claims into the queue and makes the starter look at them.
func (q *queue) add(list []*waiting) {
	q.put(list)
	q.poke()
}

// put puts claims into the queue for whenever the starter looks next.
func (q *queue) put(list []*waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range list {
		heap.Push(&q.later, w)
	}
}

// poke makes the starter look again.
func (q *queue) poke() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// take removes and returns up to most claims that are planned no later than until, tenants in turn, and takes a slot for each. free is how
// many slots nobody holds.
func (q *queue) take(until time.Time, most, free int) []*waiting {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ripen(until)
	return q.ripe.take(most, free, time.Now())
}

// ripen moves on what is planned no later than until.
func (q *queue) ripen(until time.Time) {
	for len(q.later) > 0 && !q.later[0].claim.PlannedAt.After(until) {
		q.ripe.add(heap.Pop(&q.later).(*waiting)) //nolint:forcetypeassert // The heap holds nothing else.
	}
}

// putBack returns claims that were taken, and their slots.
func (q *queue) putBack(batch []*waiting) {
	q.put(batch)
	q.returnSlots(batch)
}

// returnSlots gives back the slots of claims that were taken and are not going to be sent.
func (q *queue) returnSlots(batch []*waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for _, b := range batch {
		q.ripe.leave(b.target.TenantID, b.target.Host, now)
		q.ripe.end(b.target.TenantID)
	}
}

// answered tells that a request to a target is over. Its slot is still taken.
func (q *queue) answered(t *Target) {
	if t.Host == "" || q.ripe.perHost <= 0 {
		return
	}
	q.mu.Lock()
	q.ripe.leave(t.TenantID, t.Host, time.Now())
	freed := len(q.ripe.turns) > 0
	q.mu.Unlock()
	if freed {
		q.poke()
	}
}

// freeSlots gives a slot back for each of some tenants.
func (q *queue) freeSlots(tenants ...[16]byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, tenant := range tenants {
		q.ripe.end(tenant)
	}
}

// occupied takes a slot for a run of a tenant that did not wait for one.
func (q *queue) occupied(tenant [16]byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ripe.begin(tenant)
}

// next returns when the first claim is planned whose time has not come, and whether there is one; those that wait for a slot are not
// looked at before one comes free.
func (q *queue) next() (time.Time, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.later) == 0 {
		return time.Time{}, false
	}
	return q.later[0].claim.PlannedAt, true
}

// crowded reports whether overdue claims have waited here for longer than patience, or a tenant has for a slot.
func (q *queue) crowded(now time.Time, patience time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	clock := time.Now()
	if len(q.later) > 0 && !q.later[0].claim.PlannedAt.After(now) && clock.Sub(q.later[0].since) > patience {
		return true
	}
	return q.ripe.waited(clock) > patience || q.ripe.stalled(patience, clock)
}

// wanted returns those of the tenants whose further claims would start soon: at most half of room of theirs wait, the first of them not for long.
func (q *queue) wanted(tenants [][16]byte, room int) [][16]byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	return slices.DeleteFunc(slices.Clone(tenants), func(t [16]byte) bool { return !q.ripe.wants(t, room, now) })
}

// hopeless takes out what is not going to start soon: claims planned no later than now of tenants that have got no slot for longer than
// patience, and claims that are parked where nothing has moved for as long.
func (q *queue) hopeless(now time.Time, patience time.Duration) (late, parked []*waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ripen(now)
	return q.ripe.hopeless(patience, time.Now())
}

// ready returns how many claims wait for nothing but a slot: planned no later than now, and not parked.
func (q *queue) ready(now time.Time) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ripen(now)
	return q.ripe.size - q.ripe.parked
}

// denied reports whether a tenant wants a slot that it has not got.
func (q *queue) denied() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ripe.stalled(0, time.Now())
}

// size returns how many claims wait.
func (q *queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.later) + q.ripe.size
}

// parked returns how many claims wait for their host to answer.
func (q *queue) parked() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ripe.parked
}

// clear takes out everything.
func (q *queue) clear() []*waiting {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := append(q.ripe.clear(), q.later...)
	q.later = nil
	return list
}

func claimsOf(waits []*waiting) []claims.Claim {
	list := make([]claims.Claim, len(waits))
	for i, w := range waits {
		list[i] = w.claim
	}
	return list
}

// dueHeap orders claims by when they are planned. It implements heap.Interface.
type dueHeap []*waiting

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].claim.PlannedAt.Before(h[j].claim.PlannedAt) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(*waiting)) } //nolint:forcetypeassert // Likewise.

func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
