package items_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/store/storetest"
	"rubato/internal/zombie"
)

// mark moves the mark of the ends of locks.
func (b *bundle) mark(t *testing.T) {
	t.Helper()
	require.NoError(t, b.Sweeps.MarkLocks(t.Context()))
}

// lostUnder starts a run of a worker that is not known, at an instant, and returns a time at which
// its lock is over.
func (b *bundle) lostUnder(t *testing.T, at time.Time) time.Time {
	t.Helper()
	b.At(at)
	b.Register(t, nil)
	b.StartOne(t, storetest.Worker{1})
	return at.Add(2 * time.Minute)
}

// TestALostRunStaysAboveTheLockMark requires that sweeps find a lost run however long nothing
// settles it, although they scan from the mark, and that runs and stuck claims count from it.
func TestALostRunStaysAboveTheLockMark(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Beat(t, storetest.Worker{2}, "active", storetest.Noon())
	b.At(storetest.Noon().Add(-time.Minute))
	b.mark(t)
	over := b.lostUnder(t, storetest.Noon())
	for _, after := range []time.Duration{0, 11 * time.Second, time.Hour} {
		b.At(over.Add(after))
		b.mark(t)
		require.Len(t, b.ListLost(t, storetest.SilenceDistrusted), 1, "after %s", after)
		live, err := b.Sweeps.CountLive(t.Context(), 90*time.Second)
		require.NoError(t, err)
		require.Equal(t, zombie.LiveCounts{Live: 1}, live)
	}
	b.SettleLost(t, 1)
	b.mark(t)
	require.Empty(t, b.ListLost(t, storetest.SilenceDistrusted))
}

// TestAStuckClaimStaysAboveTheLockMark does the same for a claim that nothing started.
func TestAStuckClaimStaysAboveTheLockMark(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	now := b.At(storetest.Noon())
	b.mark(t)
	b.ClaimOne(t, storetest.Worker{1})
	for range 10 {
		now = b.At(now.Add(time.Minute))
		b.mark(t)
	}
	freed, err := b.Sweeps.FreeStuck(t.Context(), 3*time.Minute, 10)
	require.NoError(t, err)
	require.Equal(t, 1, freed)
}

// TestTheLockMarkFollowsAClockThatIsSetBack has a run whose lock is over before the instant at
// which the clock was set back.
func TestTheLockMarkFollowsAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon().Add(time.Hour))
	b.mark(t)
	over := b.lostUnder(t, storetest.Noon())
	b.At(over)
	b.mark(t)
	require.Len(t, b.ListLost(t, storetest.SilenceDistrusted), 1)
}
