package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSignsOfLifeKeepNoStepWithIntervals: none comes so late that others take the worker for gone,
// and they do not come at one beat.
func TestSignsOfLifeKeepNoStepWithIntervals(t *testing.T) {
	t.Parallel()
	seen := map[time.Duration]bool{}
	for range 1000 {
		wait := untilPresence()
		require.GreaterOrEqual(t, wait, presencePeriod*9/10)
		require.LessOrEqual(t, wait, presencePeriod*11/10)
		seen[wait] = true
	}
	require.Greater(t, len(seen), 100)
}
