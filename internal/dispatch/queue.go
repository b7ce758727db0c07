package dispatch

import (
	"container/heap"
	"sync"
	"time"

	"rubato/internal/claims"
)

// waiting is a claim in the queue, with what it is going to call.
type waiting struct {
	claim    claims.Claim
	target   *Target
	taken    time.Time // into the queue, on this process's clock
	doubtful bool      // a start of it was answered by nothing: the run may be live
}

// queue holds the claims that wait for their due time, the next one first. It is safe for concurrent use.
type queue struct {
	changed chan struct{} // told when something was added

	mu   sync.Mutex
	heap dueHeap
}

func newQueue() *queue { return &queue{changed: make(chan struct{}, 1)} }

// add puts claims into the queue and makes the starter look at them.
func (q *queue) add(list []waiting) {
	q.put(list)
	q.poke()
}

// put puts claims into the queue for whenever the starter looks next.
func (q *queue) put(list []waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range list {
		heap.Push(&q.heap, w)
	}
}

// poke makes the starter look again.
func (q *queue) poke() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// due takes out up to limit claims that are planned no later than now.
func (q *queue) due(now time.Time, limit int) []waiting {
	q.mu.Lock()
	defer q.mu.Unlock()
	var list []waiting
	for len(list) < limit && len(q.heap) > 0 && !q.heap[0].claim.PlannedAt.After(now) {
		list = append(list, heap.Pop(&q.heap).(waiting)) //nolint:forcetypeassert // The heap holds nothing else.
	}
	return list
}

// next returns when the first claim is planned, and whether there is one.
func (q *queue) next() (time.Time, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.heap) == 0 {
		return time.Time{}, false
	}
	return q.heap[0].claim.PlannedAt, true
}

// waited returns how long the first claim has been here, where it was planned no later than now.
func (q *queue) waited(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.heap) == 0 || q.heap[0].claim.PlannedAt.After(now) {
		return 0
	}
	return time.Since(q.heap[0].taken)
}

// size returns how many claims wait.
func (q *queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.heap)
}

// clear takes out everything.
func (q *queue) clear() []waiting {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.heap
	q.heap = nil
	return list
}

func claimsOf(waits []waiting) []claims.Claim {
	list := make([]claims.Claim, len(waits))
	for i, w := range waits {
		list[i] = w.claim
	}
	return list
}

// dueHeap orders claims by when they are planned. It implements heap.Interface.
type dueHeap []waiting

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].claim.PlannedAt.Before(h[j].claim.PlannedAt) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(waiting)) } //nolint:forcetypeassert // Likewise.

func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = waiting{}
	*h = old[:len(old)-1]
	return last
}
