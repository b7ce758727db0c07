package dispatch

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// tenantOf returns the target of a tenant on a host.
func tenantOf(n byte, host string) *Target { return &Target{TenantID: [16]byte{n}, Host: host} }

func counts(list []*waiting) map[byte]int {
	by := map[byte]int{}
	for _, w := range list {
		by[w.target.TenantID[0]]++
	}
	return by
}

func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	q := newQueue(0)
	q.add(waitsOf(tenantOf(1, ""), make([]int, 100)...))
	q.add(waitsOf(tenantOf(2, ""), 0))
	q.add(waitsOf(tenantOf(3, ""), make([]int, 5)...))
	require.Equal(t, map[byte]int{1: 2, 2: 1, 3: 2}, counts(q.take(start, 5, 1000)))
	require.Equal(t, map[byte]int{1: 7, 3: 3}, counts(q.take(start, 10, 1000)), "who has more gets what others leave")
}

func TestATenantHoldsNoMoreThanItsPartOfTheSlots(t *testing.T) {
	t.Parallel()
	q := newQueue(0)
	const slots = 320
	q.add(waitsOf(tenantOf(1, ""), make([]int, 1000)...))
	require.Len(t, q.take(start, slots, slots), slots*31/32, "one alone")
	require.True(t, q.denied())
	require.True(t, q.crowded(start, -1))

	q.add(waitsOf(tenantOf(2, ""), make([]int, 1000)...))
	require.Len(t, q.take(start, slots, slots/32), slots/32, "another finds what is left")
	for range 100 {
		q.freeSlots([16]byte{1})
	}
	next := counts(q.take(start, 100, 100))
	require.Greater(t, next[2], next[1], "of what comes free, who has less gets more")
	require.Less(t, next[1]+next[2], 100, "and something is left for a third")
}

func TestFewSlotsAreAllTaken(t *testing.T) {
	t.Parallel()
	q := newQueue(0)
	q.add(waitsOf(tenantOf(1, ""), make([]int, 50)...))
	require.Len(t, q.take(start, 31, 31), 31)
}

func TestClaimsOfABusyHostAreParkedAndComeBackFirst(t *testing.T) {
	t.Parallel()
	q := newQueue(2)
	q.add(waitsOf(tenantOf(1, "busy"), 0, 1, 2, 3))
	q.add(waitsOf(tenantOf(1, "idle"), 4, 5, 6))
	later := start.Add(time.Minute)

	require.Len(t, q.take(later, 3, 100), 3)
	require.Equal(t, 2, q.parked())
	require.Equal(t, 4, q.size(), "parked ones wait too")
	q.answered(tenantOf(1, "busy"))
	next := q.take(later, 1, 100)
	require.Equal(t, "busy", next[0].target.Host)
	require.Equal(t, start.Add(2*time.Second), next[0].claim.PlannedAt)
	q.returnSlots(next)
	require.Zero(t, q.parked(), "what was not sent leaves its place to the next")
	require.Len(t, q.take(later, 10, 100), 2)
}

func TestTenantsTakeTurnsAtABusyHost(t *testing.T) {
	t.Parallel()
	q := newQueue(2)
	q.add(waitsOf(tenantOf(1, "busy"), make([]int, 100)...))
	require.Len(t, q.take(start, 10, 1000), 2)
	q.add(waitsOf(tenantOf(2, "busy"), 0, 0, 0))
	require.Empty(t, q.take(start, 10, 1000))
	require.Equal(t, 101, q.parked())
	served, under := map[byte]int{}, tenantOf(1, "busy")
	for range 6 {
		q.answered(under)
		next := q.take(start, 10, 1000)
		require.Len(t, next, 1)
		under = next[0].target
		served[under.TenantID[0]]++
	}
	require.Equal(t, map[byte]int{1: 3, 2: 3}, served, "who has few does not wait for all of who has many")
	require.Equal(t, 95, q.parked())
}

func TestATenantLeavesRequestsToAHostToOthers(t *testing.T) {
	t.Parallel()
	const perHost = 64
	q := newQueue(perHost)
	q.add(waitsOf(tenantOf(1, "hangs"), make([]int, 200)...))
	require.Len(t, q.take(start, 500, 1000), perHost*31/32)
	q.add(waitsOf(tenantOf(2, "hangs"), 0, 0))
	require.Equal(t, map[byte]int{2: 2}, counts(q.take(start, 500, 1000)), "while nothing of the first one ends")
	q.add(waitsOf(tenantOf(2, "hangs"), 0))
	require.Empty(t, q.take(start, 500, 1000), "the bound of the host holds")
	q.answered(tenantOf(1, "hangs"))
	require.Equal(t, map[byte]int{2: 1}, counts(q.take(start, 500, 1000)), "the first one, though parked before, has more than its share")
}

// TestTheQueueForgetsNothingAndBreaksNoBound does anything in any order, and counts.
// TestATenantWithoutASlotKeepsNobodyFromAHost has a host come free for a tenant that gets no slot, while another waits there that would.
func TestATenantWithoutASlotKeepsNobodyFromAHost(t *testing.T) {
	t.Parallel()
	q := newQueue(1)
	holder := tenantOf(3, "h")
	q.add(waitsOf(holder, 0))
	require.Len(t, q.take(start, 100, 33), 1)
	for _, tenant := range []byte{1, 2} {
		q.add(waitsOf(tenantOf(tenant, "h"), 0))
		require.Empty(t, q.take(start, 100, 32))
	}
	q.add(waitsOf(tenantOf(1, ""), make([]int, 31)...))
	require.Len(t, q.take(start, 100, 32), 31)
	q.add(waitsOf(tenantOf(4, ""), 0))
	q.ready(start) // The claim has its turn before the host comes free.
	q.answered(holder)
	q.freeSlots(holder.TenantID)
	require.Equal(t, map[byte]int{4: 1, 2: 1}, counts(q.take(start, 100, 2)))
	require.Equal(t, 1, q.parked())

	q.answered(tenantOf(2, "h"))
	q.freeSlots([16]byte{2}, [16]byte{4})
	require.Equal(t, map[byte]int{1: 1}, counts(q.take(start, 100, 2)), "whose turn it was comes next")
}

func TestTheQueueForgetsNothingAndBreaksNoBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		const slots = 40
		q := newQueue(rapid.IntRange(0, 5).Draw(rt, "perHost"))
		var under []*waiting // way
		added := 0
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0:
				target := tenantOf(rapid.Byte().Draw(rt, "tenant"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "host"))
				n := rapid.IntRange(1, 30).Draw(rt, "number")
				q.add(waitsOf(target, make([]int, n)...))
				added += n
			case 1, 2:
				under = append(under, q.take(start, rapid.IntRange(0, 20).Draw(rt, "most"), slots-len(under))...)
			case 3:
				for range min(len(under), rapid.IntRange(0, 20).Draw(rt, "ended")) {
					q.answered(under[0].target)
					q.freeSlots(under[0].target.TenantID)
					under = under[1:]
					added--
				}
			case 4:
				late, parked := q.hopeless(start, -1)
				added -= len(late) + len(parked)
			case 5:
				n := min(len(under), rapid.IntRange(0, 20).Draw(rt, "back"))
				q.putBack(under[:n])
				under = under[n:]
			}
			if len(under) > slots {
				rt.Fatalf("%d slots are taken", len(under))
			}
			checkHolders(rt, q, under)
			if q.size() != added-len(under) {
				rt.Fatalf("%d wait, %d should", q.size(), added-len(under))
			}
		}
		if got := len(q.clear()); got != added-len(under) {
			rt.Fatalf("%d came out, %d should", got, added-len(under))
		}
	})
}

// checkHolders compares who holds slots and places at hosts, and what is parked, with what is under way.
func checkHolders(rt *rapid.T, q *queue, under []*waiting) {
	rt.Helper()
	slots, places := map[[16]byte]int{}, map[string]map[[16]byte]int{}
	for _, w := range under {
		slots[w.target.TenantID]++
		if w.target.Host != "" && q.ripe.perHost > 0 {
			if places[w.target.Host] == nil {
				places[w.target.Host] = map[[16]byte]int{}
			}
			places[w.target.Host][w.target.TenantID]++
		}
	}
	for id, l := range q.ripe.lines {
		require.Equal(rt, slots[id], l.busy, "slots of tenant %d", id[0])
		delete(slots, id)
	}
	require.Empty(rt, slots, "slots that nobody is known to hold")
	parked := 0
	for name, h := range q.ripe.hosts {
		busy := 0
		for _, n := range places[name] {
			busy += n
		}
		require.Equal(rt, busy, h.busy, "requests to %s", name)
		require.LessOrEqual(rt, busy, q.ripe.perHost, "requests to %s", name)
		require.True(rt, maps.Equal(places[name], h.by), "requests to %s are of %v, not of %v", name, places[name], h.by)
		parked += h.parked.size
		delete(places, name)
	}
	require.Empty(rt, places, "hosts that nobody knows of")
	require.Equal(rt, parked, q.parked(), "parked")
}

// TestWhoIsKeptFromSlotsIsHopelessAfterAWhile has a tenant whose slots hang.
func TestWhoIsKeptFromSlotsIsHopelessAfterAWhile(t *testing.T) {
	t.Parallel()
	q := newQueue(0)
	q.add(waitsOf(tenantOf(1, ""), make([]int, 40)...))
	require.Len(t, q.take(start, 32, 32), 31)
	late, _ := q.hopeless(start, time.Hour)
	require.Empty(t, late, "it has just begun")
	late, _ = q.hopeless(start, -1)
	require.Len(t, late, 9)
	require.True(t, q.denied(), "it still wants slots")
	q.freeSlots([16]byte{1})
	require.False(t, q.denied(), "one of its own came free")
}

func TestAListThatIsNeverEmptyDoesNotGrow(t *testing.T) {
	t.Parallel()
	var f fifo
	one := waits(0)[0]
	f.push(one)
	for range 100_000 {
		f.push(one)
		require.Same(t, one, f.pop())
	}
	require.Equal(t, 1, f.size())
	require.Less(t, cap(f.list), 64)
	require.Equal(t, 1, held(f.list), "what was taken out is let go of")
}

func TestTheHostOfATargetIsWhereItsURLLeads(t *testing.T) {
	t.Parallel()
	require.Equal(t, hostOf("http://Target.example/a?b"), hostOf("http://target.example/c"))
	require.Equal(t, hostOf("https://target.example/"), hostOf("https://Target.example.:443/"), "the queue counts as egress does")
	require.NotEqual(t, hostOf("http://target.example/"), hostOf("https://target.example/"))
	require.NotEqual(t, hostOf("http://target.example/"), hostOf("http://target.example:8080/"))
	require.Empty(t, hostOf("http://{{secret.host}}/"), "only a run knows")
}
