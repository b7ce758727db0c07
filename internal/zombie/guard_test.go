package zombie_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/zombie"
)

// TestMassesThatNobodyWatchedHaveNotLasted has an outage while masses are held back: every worker may have fallen silent in it.
func TestMassesThatNobodyWatchedHaveNotLasted(t *testing.T) {
	t.Parallel()
	store := &fakeStore{survey: zombie.Survey{Live: 100, Silent: 60}}
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
