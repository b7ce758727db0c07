package zombie_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/zombie"
)

// TestUnobservedMassSilenceDoesNotCount has an outage while masses are held back: every worker
// may have fallen silent in it.
func TestUnobservedMassSilenceDoesNotCount(t *testing.T) {
	t.Parallel()
	store := &fakeStore{survey: zombie.LiveCounts{Live: 100, Silent: 60}}
	store.away = func() bool {
		since := time.Since(store.began)
		return since > 199*time.Second && since < 205*time.Second
	}
	bubble(t, store, 600*time.Second, func(t *testing.T, _ *sweeping) {
		for i, at := range store.lists {
			require.Equal(t, at >= 206*time.Second+2*settle, store.signals[i].TrustSilence, "after %s", at)
		}
	})
}

// TestMassSilenceRestartsAfterAChangeOfLeadership takes the lead away during a mass silence.
// Another leader may have seen its end, so a later one is new.
func TestMassSilenceRestartsAfterAChangeOfLeadership(t *testing.T) {
	t.Parallel()
	store := &fakeStore{survey: zombie.LiveCounts{Live: 100, Silent: 60}}
	store.other = func() bool {
		since := time.Since(store.began)
		return since > 205*time.Second && since < 495*time.Second
	}
	bubble(t, store, 800*time.Second, func(t *testing.T, _ *sweeping) {
		require.NotContains(t, store.lists, 300*time.Second)
		for i, at := range store.lists {
			require.Equal(t, at >= 500*time.Second+settle, store.signals[i].TrustSilence, "after %s", at)
		}
	})
}

// TestATurnThatIsLostNowAndThenForgetsNothing has two sweepers meet: masses that are there in
// between were there all the time.
func TestATurnThatIsLostNowAndThenForgetsNothing(t *testing.T) {
	t.Parallel()
	store := &fakeStore{survey: zombie.LiveCounts{Live: 100, Silent: 60}}
	store.other = func() bool { return int(time.Since(store.began)/(10*time.Second))%4 == 3 }
	bubble(t, store, 500*time.Second, func(t *testing.T, _ *sweeping) {
		for i, at := range store.lists {
			require.Equal(t, at >= 2*settle, store.signals[i].TrustSilence, "after %s", at)
		}
	})
}

// TestSweeperWithoutLeadReportsNoHeldBackRuns takes the lead away. The gauge is zero, because the
// new leader reports the runs.
func TestSweeperWithoutLeadReportsNoHeldBackRuns(t *testing.T) {
	t.Parallel()
	store := &fakeStore{survey: zombie.LiveCounts{Live: 100, Silent: 60}}
	store.other = func() bool { return time.Since(store.began) > 205*time.Second }
	bubble(t, store, 300*time.Second, func(t *testing.T, s *sweeping) {
		require.Zero(t, s.value(t, "rubato_zombie_held_back_runs", ""))
	})
}
