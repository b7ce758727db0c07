package ready

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRateIsSpreadOverEachSecond has fifty items at a host that may be called twenty times a
// second.
func TestRateIsSpreadOverEachSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(100)
		b.fair.hosts.SetBound([16]byte{}, "h", Bound{Rate: 20})
		b.Add(due(1, "h", make([]int, 50)...))
		began := time.Now()
		perTenth := map[int]int{}
		for sent := 0; sent < 50; {
			<-b.Changed()
			for _, e := range b.take(start, 50, 50) {
				perTenth[int(time.Since(began)/(100*time.Millisecond))]++
				b.end(e)
				sent++
			}
		}
		require.WithinRange(t, time.Now(), began.Add(2300*time.Millisecond), began.Add(2500*time.Millisecond))
		for tenth, n := range perTenth {
			require.LessOrEqual(t, n, 4, "tenth %d", tenth)
		}
		require.Equal(t, Use{Rate: true}, b.fair.hosts.TakeUse([16]byte{}, "h"))
		require.Empty(t, b.Held())
	})
}

// TestRaisedLimitAdmitsAllThatFit raises the limit of requests in flight beneath waiting items and
// calls.
func TestRaisedLimitAdmitsAllThatFit(t *testing.T) {
	t.Parallel()
	b := setup(100)
	hosts := b.fair.hosts
	hosts.SetBound([16]byte{1}, "h", Bound{Concurrency: 2})
	b.Add(due(1, "h", 0, 0, 0, 0, 0, 0))
	require.Len(t, b.take(start, 10, 10), 2)
	b.Add(due(2, "h", 0))
	require.Len(t, b.take(start, 10, 10), 1, "the limit is of another tenant")
	require.Equal(t, Use{Concurrency: true}, hosts.TakeUse([16]byte{1}, "h"))
	hosts.SetBound([16]byte{1}, "h", Bound{Concurrency: 5})
	require.Len(t, b.take(start, 10, 10), 3)
	hosts.SetBound([16]byte{1}, "h", Bound{})
	require.Len(t, b.take(start, 10, 10), 1)
}

// TestHeldHostIsCalledAtItsTime waits for the instant that a target asked for.
func TestHeldHostIsCalledAtItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(100)
		until := time.Now().Add(time.Second)
		b.fair.hosts.SetBound([16]byte{}, "h", Bound{HeldUntil: until})
		hostSlot := b.fair.hosts.Slot([16]byte{1})
		opens, closed := b.fair.hosts.Opens([16]byte{1}, "h")
		require.Equal(t, until, opens)
		require.False(t, closed)
		b.Add(due(1, "h", 0))
		<-b.Changed()
		require.Empty(t, b.take(start, 1, 1))
		require.NoError(t, hostSlot.Move(t.Context(), "h"), "calls beside the queue wait, too")
		require.Equal(t, until, time.Now())
		require.Len(t, b.take(start, 1, 1), 1)
	})
}

// TestItemsThatAnotherWorkerMayStartLeaveAtOnce evicts items of a worker without a share.
func TestItemsThatAnotherWorkerMayStartLeaveAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(100)
	b.fair.hosts.SetBound([16]byte{1}, "h", Bound{Closed: true})
	b.Add(append(due(1, "h", 0, 0), due(2, "h", 0)...))
	require.Len(t, b.take(start, 10, 10), 1)
	starved, atHosts := b.Evict(start, time.Hour)
	require.Empty(t, starved)
	require.Len(t, atHosts, 2)
	require.Zero(t, b.Len())
}
