package zombie_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClockStepIsNoSilence sets the database's clock in the middle: for a settle period
// neither silence nor a deadline counts, and locks that lie ahead are looked for.
func TestClockStepIsNoSilence(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"Ahead": time.Hour, "Back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &fakeStore{}
			store.step = func() time.Duration {
				if time.Since(store.began) >= 301*time.Second {
					return by
				}
				return 0
			}
			bubble(t, store, 600*time.Second, func(t *testing.T, _ *sweeping) {
				for i, at := range store.lists {
					after := at > 302*time.Second && at < 302*time.Second+settle
					require.Equal(t, after, store.signals[i].ClockStepped, "after %s", at)
					require.Equal(t, at >= settle && !after, store.signals[i].TrustSilence, "after %s", at)
				}
				require.Equal(t, []time.Duration{10 * time.Second, 310 * time.Second}, store.clamps, "once at the start, once after the step")
			})
		})
	}
}

func TestClockDriftIsNoStep(t *testing.T) {
	t.Parallel()
	store := &fakeStore{}
	store.step = func() time.Duration { return time.Since(store.began) / 1000 }
	bubble(t, store, time.Hour, func(t *testing.T, _ *sweeping) {
		require.True(t, store.signals[len(store.signals)-1].TrustSilence)
		require.Len(t, store.clamps, 1)
	})
}
