package ready

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// counts returns the number of entries by tenant.
func counts(list []*entry) map[byte]int {
	by := map[byte]int{}
	for _, e := range list {
		by[e.Tenant[0]]++
	}
	return by
}

func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	q := setup(0)
	q.Add(due(1, "", make([]int, 100)...))
	q.Add(due(2, "", 0))
	q.Add(due(3, "", make([]int, 5)...))
	require.Equal(t, map[byte]int{1: 2, 2: 1, 3: 2}, counts(q.take(start, 5, 1000)))
	require.Equal(t, map[byte]int{1: 7, 3: 3}, counts(q.take(start, 10, 1000)), "a tenant with more items gets what others leave")
}

func TestTenantHoldsNoMoreThanItsShareOfTheSlots(t *testing.T) {
	t.Parallel()
	q := setup(0)
	const slots = 320
	q.Add(due(1, "", make([]int, 1000)...))
	first := q.take(start, slots, slots)
	require.Len(t, first, slots*31/32, "one tenant alone")
	require.True(t, q.Starved())
	require.True(t, q.Overloaded(start, -1))

	q.Add(due(2, "", make([]int, 1000)...))
	require.Len(t, q.take(start, slots, slots/32), slots/32, "another tenant finds free slots")
	q.end(first[:100]...)
	next := counts(q.take(start, 100, 100))
	require.Greater(t, next[2], next[1], "the tenant with fewer slots gets more of the free ones")
	require.Less(t, next[1]+next[2], 100, "and some are left for a third")
}

func TestFewSlotsAreAllTaken(t *testing.T) {
	t.Parallel()
	q := setup(0)
	q.Add(due(1, "", make([]int, 50)...))
	require.Len(t, q.take(start, 31, 31), 31)
}

func TestItemsOfAFullHostWaitThereAndResumeFirst(t *testing.T) {
	t.Parallel()
	q := setup(2)
	q.Add(due(1, "full", 0, 1, 2, 3))
	q.Add(due(1, "idle", 4, 5, 6))
	later := start.Add(time.Minute)

	batch := q.take(later, 3, 100)
	require.Len(t, batch, 3)
	require.Equal(t, 2, q.WaitingForHost())
	require.Equal(t, 4, q.Len(), "items that wait for a host count")
	batch[0].Release()
	next := q.take(later, 1, 100)
	require.Equal(t, "full", next[0].Host)
	require.Equal(t, start.Add(2*time.Second), next[0].PlannedAt)
	q.Return(next)
	require.Zero(t, q.WaitingForHost(), "an item that is not sent leaves its hostSlot to the next")
	require.Len(t, q.take(later, 10, 100), 2)
}

func TestItemsThatWaitForAHostWaitForNoSlot(t *testing.T) {
	t.Parallel()
	q := setup(4)
	q.Add(due(0, "full", -2, -2, -2, -2, -1, -1, -1))
	q.Add(due(0, "", -1, 1))
	require.Equal(t, 8, q.WaitingForSlot(start))
	require.Len(t, q.take(start, 8, 100), 5)
	require.Equal(t, 3, q.WaitingForHost())
	require.Zero(t, q.WaitingForSlot(start))
	require.Equal(t, 1, q.WaitingForSlot(start.Add(time.Minute)))
}

func TestTenantsTakeTurnsAtAFullHost(t *testing.T) {
	t.Parallel()
	q := setup(2)
	q.Add(due(1, "full", make([]int, 100)...))
	inFlight := q.take(start, 10, 1000)
	require.Len(t, inFlight, 2)
	q.Add(due(2, "full", 0, 0, 0))
	require.Empty(t, q.take(start, 10, 1000))
	require.Equal(t, 101, q.WaitingForHost())
	served := map[byte]int{}
	for range 6 {
		inFlight[0].Release()
		next := q.take(start, 10, 1000)
		require.Len(t, next, 1)
		served[next[0].Tenant[0]]++
		inFlight = append(inFlight[1:], next...)
	}
	require.Equal(t, map[byte]int{1: 3, 2: 3}, served, "three items do not wait behind a hundred of another tenant")
	require.Equal(t, 95, q.WaitingForHost())
}

func TestTenantLeavesPlacesAtAHostToOthers(t *testing.T) {
	t.Parallel()
	const perHost = 64
	q := setup(perHost)
	q.Add(due(1, "hangs", make([]int, 200)...))
	first := q.take(start, 500, 1000)
	require.Len(t, first, perHost*31/32)
	q.Add(due(2, "hangs", 0, 0))
	require.Equal(t, map[byte]int{2: 2}, counts(q.take(start, 500, 1000)), "while no request of the first ends")
	q.Add(due(2, "hangs", 0))
	require.Empty(t, q.take(start, 500, 1000), "the bound of the host holds")
	first[0].Release()
	require.Equal(t, map[byte]int{2: 1}, counts(q.take(start, 500, 1000)), "the first waited before, and has more than its share")
}

// TestStarvedTenantDoesNotBlockAHost lets a host slot come free for a tenant that gets no slot,
// while an item of another tenant waits there that would get one.
func TestStarvedTenantDoesNotBlockAHost(t *testing.T) {
	t.Parallel()
	q := setup(1)
	q.Add(due(3, "h", 0))
	holder := q.take(start, 100, 33)
	require.Len(t, holder, 1)
	for _, tenant := range []byte{1, 2} {
		q.Add(due(tenant, "h", 0))
		require.Empty(t, q.take(start, 100, 32))
	}
	q.Add(due(1, "", make([]int, 31)...))
	require.Len(t, q.take(start, 100, 32), 31)
	q.Add(due(4, "", 0))
	q.WaitingForSlot(start) // The item is due before the host comes free.
	q.end(holder...)
	next := q.take(start, 100, 2)
	require.Equal(t, map[byte]int{4: 1, 2: 1}, counts(next))
	require.Equal(t, 1, q.WaitingForHost())

	q.end(next...)
	require.Equal(t, map[byte]int{1: 1}, counts(q.take(start, 100, 2)), "the tenant that was passed comes next")
}

// TestQueueLosesNoItemAndBreaksNoBound does random steps and counts. Callers beside the queue hold
// host slots, too.
func TestQueueLosesNoItemAndBreaksNoBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		const slots = 40
		q := setup(rapid.IntRange(0, 5).Draw(rt, "perHost"))
		q.SetSlots(slots)
		var inFlight []*entry
		var callers []*caller
		hostOf := rapid.SampledFrom([]string{"", "a", "b"})
		added := 0
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 7).Draw(rt, "step") {
			case 0:
				n := rapid.IntRange(1, 30).Draw(rt, "number")
				q.Add(due(rapid.Byte().Draw(rt, "tenant"), hostOf.Draw(rt, "host"), make([]int, n)...))
				added += n
			case 1, 2:
				inFlight = append(inFlight, q.Take(start, rapid.IntRange(0, 20).Draw(rt, "most"))...)
			case 3:
				n := min(len(inFlight), rapid.IntRange(0, 20).Draw(rt, "ended"))
				q.end(inFlight[:n]...)
				inFlight = inFlight[n:]
				added -= n
			case 4:
				starved, atHosts := q.Evict(start, -1)
				added -= len(starved) + len(atHosts)
			case 5:
				n := min(len(inFlight), rapid.IntRange(0, 20).Draw(rt, "back"))
				q.PutBack(inFlight[:n])
				inFlight = inFlight[n:]
			case 6:
				if q.fair.hosts.limit > 0 {
					p := q.fair.hosts.Slot([16]byte{rapid.Byte().Draw(rt, "caller")})
					callers = append(callers, p.ask("a"))
				}
			case 7:
				if len(callers) > 0 {
					callers[0].hostSlot.giveUp("a", callers[0])
					callers = callers[1:]
				}
			}
			if len(inFlight) > slots {
				rt.Fatalf("%d slots are taken", len(inFlight))
			}
			checkHolders(rt, q, inFlight, callers)
			if q.Len() != added-len(inFlight) {
				rt.Fatalf("%d wait, %d should", q.Len(), added-len(inFlight))
			}
		}
		if got := len(q.Clear()); got != added-len(inFlight) {
			rt.Fatalf("%d came out, %d should", got, added-len(inFlight))
		}
		q.end(inFlight...)
		for _, c := range callers {
			c.hostSlot.giveUp("a", c)
		}
		checkHolders(rt, q, nil, nil)
	})
}

// checkHolders compares the counts of slots, host slots and waiting items with the requests in
// flight.
func checkHolders(rt *rapid.T, q bundle, inFlight []*entry, callers []*caller) {
	rt.Helper()
	slots, hostSlots := map[[16]byte]int{}, map[string]map[[16]byte]int{}
	hold := func(name string, tenant [16]byte) {
		if hostSlots[name] == nil {
			hostSlots[name] = map[[16]byte]int{}
		}
		hostSlots[name][tenant]++
	}
	hosts := q.fair.hosts
	for _, e := range inFlight {
		slots[e.Tenant]++
		if e.Host != "" && hosts.limit > 0 {
			hold(e.Host, e.Tenant)
		}
	}
	for _, c := range callers {
		if c.hostSlot.host != "" {
			hold(c.hostSlot.host, c.hostSlot.tenant)
		}
	}
	for id, t := range q.fair.tenants {
		require.Equal(rt, slots[id], t.busy, "slots of tenant %d", id[0])
		delete(slots, id)
	}
	require.Empty(rt, slots, "slots of tenants that were forgotten")
	require.Equal(rt, len(inFlight), q.Busy())
	waiting := 0
	for name, at := range hosts.byName {
		busy := 0
		for _, n := range hostSlots[name] {
			busy += n
		}
		require.Equal(rt, busy, at.inFlight, "requests to %s", name)
		require.LessOrEqual(rt, busy, hosts.limit, "requests to %s", name)
		require.True(rt, maps.Equal(hostSlots[name], at.byTenant), "requests to %s are of %v, not of %v", name, hostSlots[name], at.byTenant)
		waiting += at.waiting.items
		delete(hostSlots, name)
	}
	require.Empty(rt, hostSlots, "hosts that were forgotten")
	require.Equal(rt, waiting, q.WaitingForHost())
}

func TestStarvedTenantIsEvictedAfterAWhile(t *testing.T) {
	t.Parallel()
	q := setup(0)
	q.Add(due(1, "", make([]int, 40)...))
	batch := q.take(start, 32, 32)
	require.Len(t, batch, 31)
	starved, _ := q.Evict(start, time.Hour)
	require.Empty(t, starved, "it has just begun to starve")
	starved, _ = q.Evict(start, -1)
	require.Len(t, starved, 9)
	require.True(t, q.Starved(), "it still wants slots")
	q.end(batch[0])
	require.False(t, q.Starved(), "one of its slots came free")
}

func TestFifoThatIsNeverEmptyDoesNotGrow(t *testing.T) {
	t.Parallel()
	var f fifo
	one := &due(0, "", 0)[0].Item
	f.push(one)
	for range 100_000 {
		f.push(one)
		require.Same(t, one, f.pop())
	}
	require.Equal(t, 1, f.size())
	require.Less(t, cap(f.list), 64)
	require.Equal(t, 1, held(f.list), "no reference to a popped item is left")
}

// moves moves a host slot in the background and returns its error when it is there.
func moves(ctx context.Context, p *HostSlot, name string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- p.Move(ctx, name) }()
	return done
}

func TestCallersWaitInOrderUntilTheirContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := NewHosts(1)
		first, second, third := h.Slot([16]byte{}), h.Slot([16]byte{}), h.Slot([16]byte{})
		require.NoError(t, first.Move(t.Context(), "a"))
		require.NoError(t, first.Move(t.Context(), "a"), "it is held there already")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, second.Move(ended, "a"), context.Canceled)
		require.NoError(t, second.Move(ended, "b"), "a free hostSlot needs no wait")
		second.Release()

		then := moves(t.Context(), second, "a")
		synctest.Wait()
		last := moves(t.Context(), third, "a")
		synctest.Wait()
		first.Release()
		first.Release() // Without effect.
		require.NoError(t, <-then)
		synctest.Wait()
		require.Empty(t, last)
		second.Release()
		require.NoError(t, <-last)
		third.Release()
		require.Zero(t, h.byName["a"].inFlight)
	})
}

// TestCrossingRedirectsDoNotDeadlock moves two host slots to each other's full host.
func TestCrossingRedirectsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	h := NewHosts(1)
	one, other := h.Slot([16]byte{1}), h.Slot([16]byte{2})
	require.NoError(t, one.Move(t.Context(), "a"))
	require.NoError(t, other.Move(t.Context(), "b"))
	there := moves(t.Context(), one, "b")
	require.NoError(t, other.Move(t.Context(), "a"))
	require.NoError(t, <-there)
	one.Release()
	other.Release()
	require.Zero(t, h.byName["a"].inFlight+h.byName["b"].inFlight)
}

// TestQueueAndCallersShareTheBoundOfAHost lets a caller hold the only host slot of a host, and an
// item and another caller of its tenant wait for it. The caller goes first, because its timeout
// runs.
func TestQueueAndCallersShareTheBoundOfAHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := NewHosts(1)
		q := bundle{NewQueue[*entry](h)}
		holder, next := h.Slot([16]byte{1}), h.Slot([16]byte{1})
		require.NoError(t, holder.Move(t.Context(), "h"))
		q.Add(due(1, "h", 0))
		require.Empty(t, q.take(start, 10, 10))
		require.Equal(t, 1, q.WaitingForHost())
		<-q.Changed()

		then := moves(t.Context(), next, "h")
		synctest.Wait()
		holder.Release()
		require.NoError(t, <-then)
		require.Empty(t, q.take(start, 10, 10))
		require.Empty(t, q.Changed())
		next.Release()
		<-q.Changed()
		require.Len(t, q.take(start, 10, 10), 1)
	})
}

// TestTenantsTakeTurnsBetweenCallersAndItems has callers of one tenant and items of another at a
// host with one host slot.
func TestTenantsTakeTurnsBetweenCallersAndItems(t *testing.T) {
	t.Parallel()
	h := NewHosts(1)
	q := bundle{NewQueue[*entry](h)}
	holder := h.Slot([16]byte{9})
	require.NoError(t, holder.Move(t.Context(), "h"))
	var callers []*caller
	for range 6 {
		callers = append(callers, h.Slot([16]byte{1}).ask("h"))
	}
	q.Add(due(2, "h", 0, 0, 0))
	require.Empty(t, q.take(start, 10, 10))
	holder.Release()
	for n, c := range callers[:3] {
		require.Equal(t, "h", c.hostSlot.host, n)
		c.hostSlot.Release()
		batch := q.take(start, 10, 10)
		require.Len(t, batch, 1, n)
		q.end(batch...)
	}
	require.Equal(t, "h", callers[3].hostSlot.host)
}

// TestCallersGoAheadOfItemsWithoutASlot frees the host slot of a host for an item while no slot is
// free. A caller that waits behind the item needs none.
func TestCallersGoAheadOfItemsWithoutASlot(t *testing.T) {
	t.Parallel()
	h := NewHosts(1)
	q := bundle{NewQueue[*entry](h)}
	holder := h.Slot([16]byte{9})
	require.NoError(t, holder.Move(t.Context(), "h"))
	q.Add(due(1, "h", 0))
	require.Empty(t, q.take(start, 10, 10))
	behind := h.Slot([16]byte{2}).ask("h")
	holder.Release()
	require.Empty(t, behind.hostSlot.host, "it is the turn of the item")
	require.Empty(t, q.take(start, 10, 0))
	require.Equal(t, "h", behind.hostSlot.host)
	behind.hostSlot.Release()
	require.Len(t, q.take(start, 10, 10), 1)
}

// TestEvictedItemsLeaveTheirPlaceToCallers evicts the item for which a host slot came free.
func TestEvictedItemsLeaveTheirPlaceToCallers(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(bundle) int{
		"Evict": func(q bundle) int { starved, _ := q.Evict(start, -1); return len(starved) },
		"Clear": func(q bundle) int { return len(q.Clear()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := NewHosts(1)
			q := bundle{NewQueue[*entry](h)}
			holder := h.Slot([16]byte{9})
			require.NoError(t, holder.Move(t.Context(), "h"))
			q.Add(due(1, "h", 0))
			require.Empty(t, q.take(start, 10, 1))
			q.Add(due(1, "", 0))
			require.Empty(t, q.take(start, 10, 0), "its tenant begins to starve")
			behind := h.Slot([16]byte{2}).ask("h")
			holder.Release()
			require.Equal(t, 2, remove(q))
			require.Equal(t, "h", behind.hostSlot.host)
		})
	}
}
