package dispatch

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// TestGaugesAreReadAtScrapeTime changes the worker between two scrapes, with no event in between.
func TestGaugesAreReadAtScrapeTime(t *testing.T) {
	t.Parallel()
	w := lone(t, Config{Slots: 10})
	registry, is := w.cfg.Registerer.(prometheus.Gatherer)
	require.True(t, is)
	reads := func(busy, free, limit, waiting string) {
		t.Helper()
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP rubato_dispatch_host_waiting Waiting claims at hosts that have reached their limit of requests in flight.
# TYPE rubato_dispatch_host_waiting gauge
rubato_dispatch_host_waiting 0
# HELP rubato_dispatch_slot_limit Current number of slots, between the configured minimum and maximum.
# TYPE rubato_dispatch_slot_limit gauge
rubato_dispatch_slot_limit `+limit+`
# HELP rubato_dispatch_slots Slots of the worker, by state.
# TYPE rubato_dispatch_slots gauge
rubato_dispatch_slots{state="busy"} `+busy+`
rubato_dispatch_slots{state="free"} `+free+`
# HELP rubato_dispatch_waiting Claims that wait for their due time or for a slot.
# TYPE rubato_dispatch_waiting gauge
rubato_dispatch_waiting `+waiting+`
`), "rubato_dispatch_host_waiting", "rubato_dispatch_slot_limit", "rubato_dispatch_slots", "rubato_dispatch_waiting"))
	}

	reads("0", "10", "10", "0")
	occupy(w, 4)
	w.queue.Add(waits(1, 2, 3))
	reads("4", "6", "10", "3")
	w.queue.SetSlots(3)
	reads("4", "0", "3", "3")
}
