package ready

import "slices"

// caller is a request that waits for a host slot outside of a queue: a hop of a redirect, a
// run with a template in its host, a request for an access token, a test or a notice.
type caller struct {
	hostSlot *HostSlot
	admitted chan struct{} // closed when the host slot is granted
}

// waiters are the callers and items that wait for a host slot at one host. They are round-robin
// across tenants, so that a tenant with hundreds of items cannot delay a tenant with one. Within a
// tenant, callers precede items, because their timeouts run and most of them hold a slot. Its zero
// value is empty.
type waiters struct {
	tenants map[[16]byte]*tenantWaiters
	// turns is the round-robin order of the tenants that have a waiter, the next one first.
	turns [][16]byte
	items int
}

// tenantWaiters are the waiters of one tenant at one host.
type tenantWaiters struct {
	callers []*caller
	items   fifo
}

func (t *tenantWaiters) empty() bool { return len(t.callers) == 0 && t.items.size() == 0 }

// of returns the waiters of a tenant, and gives the tenant a turn if it has none.
func (w *waiters) of(tenant [16]byte) *tenantWaiters {
	t := w.tenants[tenant]
	if t == nil {
		if w.tenants == nil {
			w.tenants = map[[16]byte]*tenantWaiters{}
		}
		t = new(tenantWaiters)
		w.tenants[tenant] = t
		w.turns = append(w.turns, tenant)
	}
	return t
}

func (w *waiters) pushItem(i *Item) {
	w.items++
	w.of(i.Tenant).items.push(i)
}

func (w *waiters) pushCaller(c *caller) {
	t := w.of(c.hostSlot.tenant)
	t.callers = append(t.callers, c)
}

// pop removes and returns the waiter of the next tenant for which may returns true: a caller or an
// item. Both are nil if there is none. may is asked whether the tenant's first waiter is a caller.
func (w *waiters) pop(may func(tenant [16]byte, isCaller bool) bool) (*caller, *Item) {
	next := slices.IndexFunc(w.turns, func(tenant [16]byte) bool { return may(tenant, len(w.tenants[tenant].callers) > 0) })
	if next < 0 {
		return nil, nil
	}
	tenant := w.turns[next]
	w.turns = slices.Delete(w.turns, next, next+1)
	t := w.tenants[tenant]
	var c *caller
	var i *Item
	if len(t.callers) > 0 {
		c = t.callers[0]
		t.callers = slices.Delete(t.callers, 0, 1)
	} else {
		i = t.items.pop()
		w.items--
	}
	if t.empty() {
		delete(w.tenants, tenant)
	} else {
		w.turns = append(w.turns, tenant)
	}
	return c, i
}

// remove removes a caller, and returns false if it does not wait any more.
func (w *waiters) remove(c *caller) bool {
	t := w.tenants[c.hostSlot.tenant]
	if t == nil {
		return false
	}
	at := slices.Index(t.callers, c)
	if at < 0 {
		return false
	}
	t.callers = slices.Delete(t.callers, at, at+1)
	w.dropEmpty()
	return true
}

// clearItems removes and returns the items of the tenants that drop names. Callers keep waiting.
func (w *waiters) clearItems(drop func(tenant [16]byte) bool) (list []*Item) {
	for _, tenant := range w.turns {
		if drop(tenant) {
			list = append(list, w.tenants[tenant].items.clear()...)
		}
	}
	w.items -= len(list)
	w.dropEmpty()
	return list
}

// dropEmpty removes the tenants that have no waiter left.
func (w *waiters) dropEmpty() {
	w.turns = slices.DeleteFunc(w.turns, func(tenant [16]byte) bool {
		if !w.tenants[tenant].empty() {
			return false
		}
		delete(w.tenants, tenant)
		return true
	})
}
