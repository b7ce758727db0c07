package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTheSecondWindowKeepsTheGridOfDueTimes: each due time of the second measurement is a due time
// of an endpoint, and the snapshot has its age by then.
func TestTheSecondWindowKeepsTheGridOfDueTimes(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := Snapshot{Steady: Steady{Every: 12 * time.Second}, Age: 30 * time.Minute}
	for _, passed := range []time.Duration{0, 10 * time.Second, 11*time.Second + 999*time.Millisecond, 12 * time.Second, 61 * time.Second} {
		taken := first.Add(passed)
		due := s.again(first, taken)
		require.Zero(t, due.Sub(first)%s.Every, "%s", passed)
		require.GreaterOrEqual(t, due.Sub(taken), s.Age+time.Second, "%s", passed)
		require.Less(t, due.Sub(taken), s.Age+s.Every+2*time.Second, "%s", passed)
	}
}

func TestACounterIsReadFromMetrics(t *testing.T) {
	t.Parallel()
	text := []byte("# TYPE rubato_x_total counter\nrubato_x_total_created 1\nrubato_x_total 1.2e+01\n")
	n, err := counterIn(text, "rubato_x_total")
	require.NoError(t, err)
	require.Equal(t, 12, n)
	_, err = counterIn(text, "rubato_y_total")
	require.ErrorContains(t, err, "rubato_y_total is missing")
}
