package dispatch

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLongFailuresFailTheHealthCheck lets attempts fail, and then makes none. After the database
// answers, missing attempts clear the failures. During an outage they do not.
func TestLongFailuresFailTheHealthCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const every = 2 * time.Second
		s := failureTracker{every: every}
		fail := func() { s.record(errors.New("away")) }
		require.NoError(t, s.long("nothing"))
		for range 3 {
			fail()
			require.NoError(t, s.long("nothing"))
			time.Sleep(time.Second)
			s.expire()
		}
		require.EqualError(t, s.long("nothing works"), "nothing works for more than 3s")
		time.Sleep(time.Minute)
		require.Error(t, s.long("nothing"), "nothing is tried, and nothing answers")
		fail()
		require.Error(t, s.long("nothing"), "it goes on")
		time.Sleep(every)
		s.expire()
		require.Error(t, s.long("nothing"), "the next try may be under way")
		time.Sleep(time.Millisecond)
		s.expire()
		require.NoError(t, s.long("nothing"), "there is nothing to try")
		fail()
		require.NoError(t, s.long("nothing"), "it begins anew")
		time.Sleep(failingAfter)
		require.Error(t, s.long("nothing"))
		s.record(nil)
		require.NoError(t, s.long("nothing"))
	})
}

// TestConsecutiveFailuresAreLoggedAtALimitedRate fails five times per second for half a minute.
func TestConsecutiveFailuresAreLoggedAtALimitedRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := failureTracker{every: time.Second}, time.Now()
		var told []time.Duration
		for range 150 {
			if s.record(errors.New("away")) {
				told = append(told, time.Since(began))
			}
			time.Sleep(200 * time.Millisecond)
		}
		require.Equal(t, []time.Duration{0, logInterval, 2 * logInterval}, told)
		require.False(t, s.record(nil))
		require.True(t, s.record(errors.New("away again")), "it begins anew")
	})
}
