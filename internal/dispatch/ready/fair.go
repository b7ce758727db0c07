package ready

import (
	"sync/atomic"
	"time"
)

// fairQueue holds due items. It is round-robin across tenants, and bounds the slots of each tenant
// and the requests in flight to each host. If the host of an item is full, the item waits there, so
// that it holds no slot meanwhile. The lock of hosts guards it.
type fairQueue struct {
	hosts   *Hosts
	changed chan struct{} // signals that an item may start; see Queue.Changed
	size    int           // items, those that wait for a host included
	atHosts int           // items that wait for a host
	tenants map[[16]byte]*tenantQueue
	// turns is the round-robin order of the tenants with items that do not wait for a host.
	turns []*tenantQueue

	// slots and busy are written under the lock, and read without it.
	slots atomic.Int64
	busy  atomic.Int64
}

// free returns the number of free slots. It is negative after the number of slots has shrunk.
func (q *fairQueue) free() int { return int(q.slots.Load() - q.busy.Load()) }

// add puts an item into the queue of its tenant, in the order of turns.
func (q *fairQueue) add(i *Item) {
	q.size++
	t := q.tenantOf(i.Tenant)
	t.due.insert(i)
	q.enqueue(t)
}

// resume returns an item to its tenant from a host that has a free host slot.
func (q *fairQueue) resume(i *Item) {
	q.atHosts--
	t := q.tenantOf(i.Tenant)
	t.resumed.push(i)
	q.enqueue(t)
	q.poke()
}

// poke makes the consumer look again. It never blocks.
func (q *fairQueue) poke() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// take removes up to most items, one of each tenant by turn, and takes a slot and a host slot for
// each.
func (q *fairQueue) take(most int, now time.Time) []*Item {
	batch := make([]*Item, 0, max(0, min(most, q.size)))
	for passed := 0; len(batch) < most && q.free() > 0 && passed < len(q.turns); {
		t := q.turns[0]
		q.turns = q.turns[1:]
		if !t.mayStart(q.free()) {
			t.markStarved(now)
			q.turns = append(q.turns, t)
			if passed++; q.passBlocked(t, now) {
				passed = 0
			}
			continue
		}
		if i := q.pop(t, now); i != nil {
			batch = append(batch, i)
			passed = 0
		}
		if t.queued = t.size() > 0; t.queued {
			q.turns = append(q.turns, t)
		}
	}
	if q.free() <= 0 {
		for _, t := range q.turns {
			t.markStarved(now)
			q.passBlocked(t, now)
		}
	}
	return batch
}

// pop removes the first item of a tenant that finds a free host slot at its host, and takes a slot
// and the host slot for it. The items before it wait at their hosts from now on. It returns nil if
// there is none.
func (q *fairQueue) pop(t *tenantQueue, now time.Time) *Item {
	for {
		i := t.resumed.pop()
		if i == nil {
			i = t.due.pop()
		}
		if i == nil {
			return nil
		}
		at := q.hosts.host(i.Host)
		if at != nil && !q.hosts.mayCall(at, t.tenant, now) {
			q.atHosts++
			at.waiting.pushItem(i)
			q.hosts.wakeLater(i.Host, at, now)
			continue
		}
		if at != nil {
			i.hostSlot.take(i.Host, at, now)
		}
		q.size--
		q.start(t)
		t.starvedSince = time.Time{}
		return i
	}
}

// passBlocked avoids head-of-line blocking at hosts: the resumed items of a tenant that gets no
// slot would keep free host slots idle. Callers and items of other tenants that wait there go
// first. It reports whether an item of another tenant did.
func (q *fairQueue) passBlocked(t *tenantQueue, now time.Time) (passed bool) {
	for range t.resumed.size() {
		i := t.resumed.pop()
		at := q.hosts.host(i.Host)
		next := q.nextAt(i.Host, at, now)
		if next == nil {
			t.resumed.push(i)
			continue
		}
		at.waiting.pushItem(i)
		ahead := q.tenantOf(next.Tenant)
		ahead.resumed.push(next)
		q.enqueue(ahead)
		passed = true
	}
	return passed
}

// nextAt removes the next item at a host of a tenant that may take a slot, and returns nil if there
// is none. Callers before it are admitted.
func (q *fairQueue) nextAt(name string, at *host, now time.Time) *Item {
	for {
		c, i := at.waiting.pop(func(tenant [16]byte, isCaller bool) bool {
			return q.hosts.mayCall(at, tenant, now) && (isCaller || q.tenantOf(tenant).mayStart(q.free()))
		})
		if c == nil {
			return i
		}
		c.grant(name, at, now)
	}
}

// start takes a slot for a tenant.
func (q *fairQueue) start(t *tenantQueue) {
	q.busy.Add(1)
	t.busy++
}

// end gives a slot of a tenant back.
func (q *fairQueue) end(tenant [16]byte) {
	q.busy.Add(-1)
	t := q.tenantOf(tenant)
	t.busy--
	t.starvedSince = time.Time{}
}

// waited returns for how long the oldest item could have started if it had had a slot.
func (q *fairQueue) waited(now time.Time) (longest time.Duration) {
	for _, t := range q.turns {
		longest = max(longest, t.waited(now))
	}
	return longest
}

// starved reports whether a tenant has been starved for longer than patience.
func (q *fairQueue) starved(patience time.Duration, now time.Time) bool {
	for _, t := range q.tenants {
		if t.starvedFor(patience, now, q.free()) {
			return true
		}
	}
	return false
}

// wants reports whether more items of a tenant would start soon: at most half of room of its items
// wait, the first of them for no longer than patience.
func (q *fairQueue) wants(tenant [16]byte, room int, patience time.Duration, now time.Time) bool {
	t := q.tenants[tenant]
	return t == nil || t.size() <= room/2 && t.waited(now) <= patience && !t.starvedFor(patience, now, q.free())
}

// evict removes the items of tenants that have been starved for longer than patience, the items at
// hosts where no request has begun or ended for as long, and those that their bound never permits.
func (q *fairQueue) evict(patience time.Duration, now time.Time) (starved, atHosts []*Item) {
	turns := q.turns
	q.turns = nil
	for _, t := range turns {
		if t.starvedFor(patience, now, q.free()) {
			starved = append(starved, t.clear()...)
		} else {
			q.turns = append(q.turns, t)
		}
	}
	for _, at := range q.hosts.byName {
		if at.waiting.items == 0 {
			continue
		}
		stuck := now.Sub(at.moved) > patience
		atHosts = append(atHosts, at.waiting.clearItems(func(tenant [16]byte) bool { return stuck || at.closed(tenant) })...)
	}
	q.atHosts -= len(atHosts)
	q.size -= len(starved) + len(atHosts)
	q.admitBehind(starved, now)
	return starved, atHosts
}

// clear removes and returns all items.
func (q *fairQueue) clear(now time.Time) (list []*Item) {
	for _, t := range q.turns {
		list = append(list, t.clear()...)
	}
	resumed := list
	for _, at := range q.hosts.byName {
		list = append(list, at.waiting.clearItems(func([16]byte) bool { return true })...)
	}
	q.turns, q.size, q.atHosts = nil, 0, 0
	q.admitBehind(resumed, now)
	return list
}

// admitBehind admits the waiters behind items that were removed before they took a free host slot.
func (q *fairQueue) admitBehind(removed []*Item, now time.Time) {
	for _, i := range removed {
		if at := q.hosts.byName[i.Host]; at != nil {
			q.hosts.admit(i.Host, at, now)
		}
	}
}
