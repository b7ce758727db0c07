package dispatch

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
)

func TestAFullQueueClaimsDueRunsOnlyForFreeSlots(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                 string
		busy, overdue, later int
		room                 int
		horizon              time.Duration
	}{
		{"RoomInTheQueue", 10, 0, 39, 1, time.Second},
		{"FullOfWhatComesLater", 4, 0, 40, 6, 0},
		{"SomethingWaitsForSlotsAlready", 4, 5, 35, 1, 0},
		{"FullOfWhatIsDue", 4, 40, 0, 0, 0},
	} {
		w := lone(t, Config{Slots: 10, Rules: claims.Rules{Horizon: time.Second}})
		asked := time.Now()
		w.clock.sample(start, asked, asked)
		occupy(w, tc.busy)
		w.queue.Add(waits(slices.Repeat([]int{-1}, tc.overdue)...))
		w.queue.Add(waits(slices.Repeat([]int{3600}, tc.later)...))
		room, horizon := w.Room()
		require.Equal(t, tc.room, room, tc.name)
		require.Equal(t, tc.horizon, horizon, tc.name)
	}
}

func TestARefillWaitsUntilItIsWorthAClaim(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		slots, queued int
		worth         bool
	}{
		{"Empty", 10, 0, true},
		{"AQuarterIsFree", 10, 30, true},
		{"LessIsFree", 10, 31, false},
		// Free slots make room for due claims although the queue is full of later ones.
		{"Full", 1000, 4000, true},
		{"AClaimIsFree", 1000, 3500, true},
		{"LessThanAClaimIsFree", 1000, 3501, false},
		{"OneSlot", 1, 3, true},
	} {
		w := lone(t, Config{Slots: tc.slots})
		list := make([]*waiting, tc.queued)
		for i := range list {
			list[i] = waits(i + 1)[0]
		}
		w.queue.Add(list)
		_, worth := w.worthRefill()
		require.Equal(t, tc.worth, worth, tc.name)
	}
}
