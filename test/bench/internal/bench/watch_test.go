package bench

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStalledCounterEndsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := idleDetector{from: time.Now().Add(time.Hour)}
		for range 60 {
			require.NoError(t, s.sees(7), "its time has not come")
			time.Sleep(time.Minute)
		}
		require.NoError(t, s.sees(8))
		time.Sleep(stillTime)
		require.NoError(t, s.sees(8))
		time.Sleep(time.Millisecond)
		require.ErrorIs(t, s.sees(8), errImpatient)
		require.NoError(t, s.sees(9), "it moves")
	})
}
