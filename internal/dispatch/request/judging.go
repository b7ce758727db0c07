package request

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"rubato/internal/budget"
)

const (
	// maxQueuedBytes bounds the bytes of queued answers, at 64 of the largest.
	maxQueuedBytes = 64 << 20
	// maxTenantBytes bounds the queued bytes of one tenant.
	maxTenantBytes = maxQueuedBytes / 2
)

// errCrowded is the reason why an answer is neither judged nor redacted: the queue is full.
var errCrowded = fmt.Errorf("the worker holds more than %d MiB of answers of this tenant that wait to be judged", maxTenantBytes>>20)

// judging is a fair semaphore for judging and redacting answers, because one answer keeps a
// processor busy and takes up to about twenty megabytes. It is round-robin across tenants, and one
// tenant holds at most half of the seats. It is safe for concurrent use. Use newJudging.
type judging struct {
	seats, perTenant int

	// mu guards the fields below and every tenantJudging.
	mu      sync.Mutex
	busy    int
	queued  int // bytes of queued answers
	tenants map[[16]byte]*tenantJudging
	// turns is the round-robin order of the tenants with queued answers, the next one first.
	turns [][16]byte
}

// tenantJudging holds the seats and the queue of one tenant. The mutex of judging guards it.
type tenantJudging struct {
	busy, queued int
	waiting      []*queuedAnswer // oldest first
}

// queuedAnswer waits for a seat.
type queuedAnswer struct {
	bytes int
	seat  chan struct{} // closed when the seat is granted
}

// newJudging returns a semaphore with a seat for half of the processors, at least two, so that the
// rest of the worker keeps the other half.
func newJudging() *judging {
	seats := max(2, runtime.GOMAXPROCS(0)/2)
	return &judging{
		seats:     seats,
		perTenant: seats / 2,
		tenants:   map[[16]byte]*tenantJudging{},
	}
}

// acquire waits for a seat for an answer of a tenant; bytes is its size. The caller must call
// release once. The error is errCrowded, or [budget.ErrEnded] if ctx ends first.
func (j *judging) acquire(ctx context.Context, tenant [16]byte, bytes int) (release func(), err error) {
	w, err := j.enqueue(tenant, bytes)
	if err != nil {
		return nil, err
	}
	if w != nil {
		select {
		case <-w.seat:
		case <-ctx.Done():
			if j.withdraw(tenant, w) {
				return nil, budget.ErrEnded
			}
		}
	}
	return func() { j.release(tenant) }, nil
}

// enqueue takes a seat and returns nil, or returns a place in the queue.
func (j *judging) enqueue(tenant [16]byte, bytes int) (*queuedAnswer, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.tenants[tenant]
	if t == nil {
		t = &tenantJudging{}
		j.tenants[tenant] = t
	}
	if j.busy < j.seats && t.busy < j.perTenant {
		j.busy++
		t.busy++
		return nil, nil //nolint:nilnil // No place in the queue is a seat.
	}
	if t.queued+bytes > maxTenantBytes || j.queued+bytes > maxQueuedBytes {
		j.forget(tenant)
		return nil, errCrowded
	}
	w := &queuedAnswer{bytes: bytes, seat: make(chan struct{})}
	if len(t.waiting) == 0 {
		j.turns = append(j.turns, tenant)
	}
	t.waiting = append(t.waiting, w)
	t.queued += bytes
	j.queued += bytes
	return w, nil
}

// withdraw removes an answer from the queue. It returns false if the answer has a seat.
func (j *judging) withdraw(tenant [16]byte, w *queuedAnswer) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.tenants[tenant]
	if t == nil {
		return false
	}
	at := slices.Index(t.waiting, w)
	if at < 0 {
		return false
	}
	j.remove(tenant, t, at)
	j.forget(tenant)
	return true
}

// remove removes an answer of a tenant from the queue. The caller holds mu.
func (j *judging) remove(tenant [16]byte, t *tenantJudging, at int) {
	bytes := t.waiting[at].bytes
	t.waiting = slices.Delete(t.waiting, at, at+1)
	t.queued -= bytes
	j.queued -= bytes
	if len(t.waiting) == 0 {
		j.turns = slices.DeleteFunc(j.turns, func(other [16]byte) bool { return other == tenant })
	}
}

// release returns a seat and grants it to the next eligible tenant by round-robin.
func (j *judging) release(tenant [16]byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.busy--
	j.tenants[tenant].busy--
	if at := slices.Index(j.turns, tenant); at >= 0 {
		// The tenant has had its turn, therefore it moves behind the others in the queue.
		j.turns = append(slices.Delete(j.turns, at, at+1), tenant)
	}
	for i, next := range j.turns {
		t := j.tenants[next]
		if t.busy == j.perTenant {
			continue
		}
		// Its next answer waits behind those of the other tenants.
		j.turns = append(slices.Delete(j.turns, i, i+1), next)
		w := t.waiting[0]
		j.remove(next, t, 0)
		j.busy++
		t.busy++
		close(w.seat)
		break
	}
	j.forget(tenant)
}

// forget deletes a tenant without seats and queued answers. The caller holds mu.
func (j *judging) forget(tenant [16]byte) {
	if t := j.tenants[tenant]; t.busy == 0 && len(t.waiting) == 0 {
		delete(j.tenants, tenant)
	}
}
