package dispatch

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/claims"
)

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func waits(offsets ...int) []*waiting { return waitsOf(&Target{}, offsets...) }

func waitsOf(target *Target, offsets ...int) []*waiting {
	list := make([]*waiting, len(offsets))
	for i, at := range offsets {
		list[i] = &waiting{claim: claims.Claim{PlannedAt: start.Add(time.Duration(at) * time.Second)}, target: target, since: time.Now()}
	}
	return list
}

func TestTheQueueGivesWhatIsDueInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		offsets := rapid.SliceOf(rapid.IntRange(-20, 20)).Draw(rt, "offsets")
		limit := rapid.IntRange(0, 10).Draw(rt, "limit")
		q := newQueue(0)
		q.add(waits(offsets...))

		slices.Sort(offsets)
		due := slices.IndexFunc(offsets, func(at int) bool { return at > 0 })
		if due < 0 {
			due = len(offsets)
		}
		want := offsets[:min(due, limit)]
		got := q.take(start, limit, 1000)
		if len(got) != len(want) || q.size() != len(offsets)-len(want) {
			rt.Fatalf("took %d of %v and left %d", len(got), offsets, q.size())
		}
		for i, w := range got {
			if w.claim.PlannedAt != start.Add(time.Duration(want[i])*time.Second) {
				rt.Fatalf("number %d is planned at %v", i, w.claim.PlannedAt)
			}
		}
		next, found := q.next()
		if found != (due < len(offsets)) || found && next != start.Add(time.Duration(offsets[due])*time.Second) {
			rt.Fatalf("next is %v, %v", next, found)
		}
	})
}

func TestTheQueueTellsOfWhatIsAddedOnce(t *testing.T) {
	t.Parallel()
	q := newQueue(0)
	q.add(waits(1))
	q.add(waits(2))
	q.poke()
	require.Len(t, q.changed, 1)
}

// TestTheQueueLetsGoOfWhatItGave looks where claims were: what is left there would live as long as the queue.
func TestTheQueueLetsGoOfWhatItGave(t *testing.T) {
	t.Parallel()
	q := newQueue(0)
	for range 20 {
		q.add(waits(0, 0, 0, 0, 60, 60)) // Two of those that are due stay behind.
		require.Len(t, q.take(start, 2, 1000), 2)
	}
	due := q.ripe.lines[[16]byte{}].rest
	require.Equal(t, 40, due.size())
	require.Equal(t, 40, held(due.list))
	require.Equal(t, 40, held(q.later))
	require.Len(t, q.take(start.Add(time.Hour), 60, 1000), 60)
	due = q.ripe.lines[[16]byte{}].rest
	require.Equal(t, 20, held(due.list))
	require.Zero(t, held(q.later))
}

// held returns how many claims a list holds, beyond its end too.
func held(list []*waiting) (n int) {
	for _, w := range list[:cap(list)] {
		if w != nil {
			n++
		}
	}
	return n
}

func TestClearTakesEverything(t *testing.T) {
	t.Parallel()
	q := newQueue(0)
	q.add(waits(3, 1, 2))
	require.Len(t, q.clear(), 3)
	require.Zero(t, q.size())
	require.Empty(t, q.take(start.Add(time.Hour), 10, 10))
}
