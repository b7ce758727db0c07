package ready

import "time"

// tenantQueue is the due items of one tenant and the slots that it holds.
type tenantQueue struct {
	tenant [16]byte
	// resumed are items that waited for a host which has a free host slot now. They precede due.
	resumed fifo
	due     fifo
	busy    int  // slots held
	queued  bool // the tenant is in fairQueue.turns
	// starvedSince is since when the tenant has wanted a slot without getting one or giving one
	// back. It is zero if the tenant is not starved.
	starvedSince time.Time
}

func (t *tenantQueue) size() int { return t.resumed.size() + t.due.size() }

// mayStart reports whether the tenant may hold one more of the slots that are free.
func (t *tenantQueue) mayStart(free int) bool { return t.busy < shareFactor*free }

func (t *tenantQueue) markStarved(now time.Time) {
	if t.starvedSince.IsZero() {
		t.starvedSince = now
	}
}

// starvedFor reports whether the tenant has been starved for longer than patience, and still is.
func (t *tenantQueue) starvedFor(patience time.Duration, now time.Time, free int) bool {
	return !t.starvedSince.IsZero() && now.Sub(t.starvedSince) > patience && !t.mayStart(free)
}

// waited returns for how long the first item could have started if it had had a slot.
func (t *tenantQueue) waited(now time.Time) time.Duration {
	for _, f := range []*fifo{&t.resumed, &t.due} {
		if i := f.first(); i != nil {
			return now.Sub(i.Since)
		}
	}
	return 0
}

// clear removes and returns all items, and the tenant loses its turn.
func (t *tenantQueue) clear() []*Item {
	t.queued = false
	return append(t.resumed.clear(), t.due.clear()...)
}

// tenantOf returns the queue of a tenant.
func (q *fairQueue) tenantOf(tenant [16]byte) *tenantQueue {
	t := q.tenants[tenant]
	if t == nil {
		q.dropUnused()
		t = &tenantQueue{tenant: tenant}
		q.tenants[tenant] = t
	}
	return t
}

// enqueue gives a tenant a turn, behind the others.
func (q *fairQueue) enqueue(t *tenantQueue) {
	if !t.queued {
		t.queued = true
		q.turns = append(q.turns, t)
	}
}

// dropUnused drops tenants without a slot and without an item if there are many.
func (q *fairQueue) dropUnused() {
	if len(q.tenants) < maxUnused {
		return
	}
	for id, t := range q.tenants {
		if !t.queued && t.busy == 0 {
			delete(q.tenants, id)
		}
	}
}
