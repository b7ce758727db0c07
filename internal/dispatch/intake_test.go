package dispatch

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"rubato/internal/egress"
)

func TestARefillWaitsUntilItIsWorthAClaim(t *testing.T) {
	t.Parallel()
	client := egress.New(egress.Config{})
	defer client.Close()
	for _, tc := range []struct {
		name          string
		slots, queued int
		worth         bool
	}{
		{"Empty", 10, 0, true},
		{"AQuarterIsFree", 10, 30, true},
		{"LessIsFree", 10, 31, false},
		{"Full", 1000, 4000, true}, // Slots are free: what is due already may come although the queue is full of what is not.
		{"AClaimIsFree", 1000, 3500, true},
		{"LessThanAClaimIsFree", 1000, 3501, false},
		{"OneSlot", 1, 3, true},
	} {
		w := New(Config{Slots: tc.slots, Egress: client, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
		list := make([]*waiting, tc.queued)
		for i := range list {
			list[i] = waits(i + 1)[0]
		}
		w.queue.add(list)
		_, worth := w.worthRefill()
		require.Equal(t, tc.worth, worth, tc.name)
	}
}
