package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// ahead is how far the database's clock is ahead of the machine's in these tests.
const ahead = 3 * time.Hour

func TestTheClockIsUnknownUntilTheFirstSample(t *testing.T) {
	t.Parallel()
	c := newClock()
	_, known := c.now()
	require.False(t, known)
	require.Zero(t, c.skew())
}

// TestTheClockIsNeverEarly draws statements that read the database's clock at any point of their
// round trip.
func TestTheClockIsNeverEarly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(*testing.T) {
			c := newClock()
			best := time.Hour
			for range rapid.IntRange(1, 20).Draw(rt, "samples") {
				before := rapid.Int64Range(0, int64(time.Second)).Draw(rt, "before")
				after := rapid.Int64Range(0, int64(time.Second)).Draw(rt, "after")
				sent := time.Now()
				time.Sleep(time.Duration(before))
				read := time.Now().Add(ahead)
				time.Sleep(time.Duration(after))
				c.sample(read, sent, time.Now())
				best = min(best, time.Duration(before+after))

				told, known := c.now()
				wrong := time.Now().Add(ahead).Sub(told)
				if !known || wrong < 0 || wrong > best {
					rt.Fatalf("the clock is %v behind with a best round trip of %v", wrong, best)
				}
				time.Sleep(time.Second)
			}
		})
	})
}

func TestTheClockPrefersTheShortestRoundTripOfLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		sample := func(trip, behind time.Duration) time.Duration {
			sent := time.Now()
			time.Sleep(trip)
			c.sample(time.Now().Add(ahead-behind), sent, time.Now())
			told, _ := c.now()
			return time.Now().Add(ahead).Sub(told)
		}
		require.Equal(t, 10*time.Millisecond, sample(20*time.Millisecond, 10*time.Millisecond))
		require.Equal(t, 10*time.Millisecond, sample(100*time.Millisecond, 90*time.Millisecond), "a longer trip tells less")
		require.Equal(t, 2*time.Millisecond, sample(4*time.Millisecond, 2*time.Millisecond), "a shorter one more")
		time.Sleep(sampleLife + time.Second)
		require.Equal(t, 30*time.Millisecond, sample(50*time.Millisecond, 30*time.Millisecond), "an old sample is given up")
	})
}

func TestTheClockFollowsAClockStepOfTheDatabase(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]time.Duration{"Forward": time.Hour, "Back": -time.Hour, "ByASecond": time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newClock()
				sent := time.Now()
				time.Sleep(time.Millisecond)
				c.sample(time.Now().Add(ahead), sent, time.Now())
				sent = time.Now()
				time.Sleep(100 * time.Millisecond)
				set := time.Now().Add(ahead + step)
				c.sample(set, sent, time.Now())
				told, _ := c.now()
				require.Equal(t, set.UnixNano(), told.UnixNano())
				require.Equal(t, -(ahead + step), c.skew())
				require.Equal(t, time.Minute, c.until(set.Add(time.Minute)))
			})
		})
	}
}

func TestAMarkMeasuresMonotonicTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		mark := c.mark()
		time.Sleep(time.Minute)
		require.Equal(t, time.Minute, c.age(mark))
	})
}

// TestAStartedRunWaitsNoLongerThanItsLead sets the database's clock back by an hour after a start
// that was 10 ms ahead.
func TestAStartedRunWaitsNoLongerThanItsLead(t *testing.T) {
	t.Parallel()
	w := &Worker{clock: newClock()}
	at := time.Now()
	w.clock.sample(at, at, at)
	planned := at.Add(10 * time.Millisecond)
	require.LessOrEqual(t, w.ahead(planned), 10*time.Millisecond)
	w.clock.sample(at.Add(-time.Hour), at, at)
	require.Equal(t, startLead, w.ahead(planned))
}
