package ready

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// entry is the smallest type that a queue holds.
type entry struct{ Item }

// due returns entries of one tenant and host that are due so many seconds after start.
func due(tenant byte, host string, offsets ...int) []*entry {
	list := make([]*entry, len(offsets))
	for i, at := range offsets {
		list[i] = &entry{Item{
			Tenant: [16]byte{tenant}, Host: host, PlannedAt: start.Add(time.Duration(at) * time.Second), Since: time.Now(),
		}}
	}
	return list
}

// bundle is a queue with a bound per host.
type bundle struct{ *Queue[*entry] }

func setup(perHost int) bundle { return bundle{NewQueue[*entry](NewHosts(perHost))} }

// take takes entries while so many slots are free.
func (b bundle) take(until time.Time, most, free int) []*entry {
	b.SetSlots(b.Busy() + free)
	return b.Take(until, most)
}

// end ends the requests of entries and gives back their slots.
func (b bundle) end(list ...*entry) {
	for _, e := range list {
		e.Release()
		b.FreeSlots(e.Tenant)
	}
}

func TestQueueReturnsDueItemsInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		offsets := rapid.SliceOf(rapid.IntRange(-20, 20)).Draw(rt, "offsets")
		limit := rapid.IntRange(0, 10).Draw(rt, "limit")
		q := setup(0)
		q.Add(due(0, "", offsets...))

		slices.Sort(offsets)
		overdue := slices.IndexFunc(offsets, func(at int) bool { return at > 0 })
		if overdue < 0 {
			overdue = len(offsets)
		}
		want := offsets[:min(overdue, limit)]
		got := q.take(start, limit, 1000)
		if len(got) != len(want) || q.Len() != len(offsets)-len(want) {
			rt.Fatalf("took %d of %v and left %d", len(got), offsets, q.Len())
		}
		for i, w := range got {
			if w.PlannedAt != start.Add(time.Duration(want[i])*time.Second) {
				rt.Fatalf("number %d is planned at %v", i, w.PlannedAt)
			}
		}
		next, found := q.Next()
		if found != (overdue < len(offsets)) || found && next != start.Add(time.Duration(offsets[overdue])*time.Second) {
			rt.Fatalf("next is %v, %v", next, found)
		}
	})
}

func TestQueueSignalsAdditionsOnce(t *testing.T) {
	t.Parallel()
	q := setup(0)
	q.Add(due(0, "", 1))
	q.Add(due(0, "", 2))
	q.Poke()
	require.Len(t, q.Changed(), 1)
}

// TestQueueKeepsNoReferenceToTakenItems reads the memory behind the lists: a pointer left there
// would live as long as the queue.
func TestQueueKeepsNoReferenceToTakenItems(t *testing.T) {
	t.Parallel()
	q := setup(0)
	for range 20 {
		q.Add(due(0, "", 0, 0, 0, 0, 60, 60)) // Two of the due ones stay.
		require.Len(t, q.take(start, 2, 1000), 2)
	}
	waiting := q.fair.tenants[[16]byte{}].due
	require.Equal(t, 40, waiting.size())
	require.Equal(t, 40, held(waiting.list))
	require.Equal(t, 40, held(q.later))
	require.Len(t, q.take(start.Add(time.Hour), 60, 1000), 60)
	waiting = q.fair.tenants[[16]byte{}].due
	require.Equal(t, 20, held(waiting.list))
	require.Zero(t, held(q.later))
}

// held returns the number of items that a list refers to, beyond its end too.
func held(list []*Item) (n int) {
	for _, w := range list[:cap(list)] {
		if w != nil {
			n++
		}
	}
	return n
}

func TestClearRemovesAllItems(t *testing.T) {
	t.Parallel()
	q := setup(0)
	q.Add(due(0, "", 3, 1, 2))
	require.Len(t, q.Clear(), 3)
	require.Zero(t, q.Len())
	require.Empty(t, q.take(start.Add(time.Hour), 10, 10))
}

func TestItemsOfATenantTakeTurnsByDueTimeAndHeadStart(t *testing.T) {
	t.Parallel()
	b := setup(0)
	b.SetSlots(10)
	now := time.Now()
	for _, i := range []struct{ late, head time.Duration }{
		{115 * time.Second, 0}, {50 * time.Second, time.Minute}, {0, 2 * time.Minute}, {165 * time.Second, -time.Minute},
	} {
		b.Add([]*entry{{Item{
			Tenant:    [16]byte{1},
			PlannedAt: now.Add(-i.late),
			HeadStart: i.head,
			Since:     now,
		}}})
	}

	var turns []time.Duration
	for _, e := range b.Take(now, 10) {
		turns = append(turns, now.Sub(e.PlannedAt)+e.HeadStart)
	}

	require.Equal(t, []time.Duration{120 * time.Second, 115 * time.Second, 110 * time.Second, 105 * time.Second}, turns)
}
