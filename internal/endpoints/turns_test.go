package endpoints

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestItemsDueTogetherAreOrderedByPriorityAndAge compares items with next attempts at the same
// instant, such as the end of a Retry-After.
func TestItemsDueTogetherAreOrderedByPriorityAndAge(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 3, 3, 12, 0, 0, 0, time.UTC)
	item := func(age, wait time.Duration, p Priority) *OneOff {
		return &OneOff{Slot: now.Add(-age), At: now.Add(wait), Attempt: 2, Priority: p}
	}
	for name, tc := range map[string]struct{ first, second *OneOff }{
		"older":                  {item(2*time.Minute, time.Minute, Normal), item(time.Minute, time.Minute, Normal)},
		"higher priority":        {item(time.Minute, time.Minute, High), item(2*time.Minute, time.Minute, Normal)},
		"shorter wait":           {item(time.Minute, time.Second, Low), item(2*time.Minute, time.Minute, Critical)},
		"both may start, older":  {item(2*time.Minute, -time.Second, Normal), item(time.Minute, -time.Minute, Normal)},
		"the only one that may":  {item(time.Minute, -time.Second, Low), item(2*time.Minute, time.Second, Critical)},
		"beside none, the other": {item(time.Minute, 0, Low), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Same(t, tc.first, firstOf(tc.first, tc.second, now))
			require.Same(t, tc.first, firstOf(tc.second, tc.first, now))
		})
	}
}
