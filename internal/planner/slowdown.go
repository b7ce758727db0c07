package planner

import (
	"slices"
	"time"

	"rubato/internal/runs"
)

// Thresholds.
const (
	slowdownNewest   = 5                      // newest responses in the compared median
	slowdownBaseline = 10                     // earlier responses that a comparison needs
	slowdownFactor   = 2.0                    // this factor is a slowdown
	slowdownAdded    = 100 * time.Millisecond // and also at least this much, because 1 ms against 3 ms is noise

	fleetSlowdownHosts = 3   // hosts with a slow endpoint at which the scheduler is suspected
	fleetSlowdownShare = 0.3 // share of slow endpoints at which the scheduler is suspected
)

// Slowdown compares the median latency of an endpoint's newest responses with that of the earlier
// ones. The zero value means that there is too little data.
type Slowdown struct {
	// Factor is the new median divided by the usual one.
	Factor float64
	// Added is the new median less the usual one.
	Added time.Duration
}

// Present reports whether the target is slow.
func (s Slowdown) Present() bool { return s.Factor >= slowdownFactor && s.Added >= slowdownAdded }

// SlowdownSample is the number of newest runs that are compared. It is the same for every endpoint,
// so that their usual latencies are comparable.
const SlowdownSample = 100

// SlowdownOf returns the slowdown of an endpoint by its runs, newest first.
func SlowdownOf(list []runs.Run) Slowdown {
	var latencies []time.Duration
	for _, run := range list[:min(len(list), SlowdownSample)] {
		if run.Outcome.StatusCode > 0 {
			latencies = append(latencies, latencyOf(run))
		}
	}
	return slowdownOf(latencies)
}

func slowdownOf(latencies []time.Duration) Slowdown {
	if len(latencies) < slowdownNewest+slowdownBaseline {
		return Slowdown{}
	}
	fresh, before := latencies[:slowdownNewest], latencies[slowdownNewest:]
	slices.Sort(fresh)
	slices.Sort(before)
	now, usual := percentile(fresh, 50), percentile(before, 50)
	return Slowdown{Factor: float64(now) / float64(max(usual, time.Millisecond)), Added: now - usual}
}

// Peer is an endpoint in the sample for the fleet's slowdown.
type Peer struct {
	Host      string
	Latencies []time.Duration // of its newest responses, newest first
}

// FleetSlowdown counts the endpoints of a sample that are slow at the same time.
type FleetSlowdown struct {
	Endpoints int // with enough data
	Slow      int
	Hosts     int // hosts of the slow ones
	// Recent reports that the scheduler was loaded within the last hour.
	Recent bool
}

// FleetSlowdownMemory remembers when the scheduler was last loaded. As slow responses become the
// usual ones, endpoints recover one by one. Without the memory, the last of them would look slow on
// their own. The zero value is ready. It is not safe for concurrent use.
type FleetSlowdownMemory struct{ last time.Time }

// fleetSlowdownMemoryFor is how long the scheduler counts as loaded after the last detection.
const fleetSlowdownMemoryFor = time.Hour

// Observe records a sample of an instant, and returns it with Recent set.
func (m *FleetSlowdownMemory) Observe(now time.Time, c FleetSlowdown) FleetSlowdown {
	if c.SchedulerLoaded() {
		m.last = now
	}
	c.Recent = !m.last.IsZero() && now.Sub(m.last) < fleetSlowdownMemoryFor
	return c
}

// FleetSlowdownOf counts the slow endpoints of a sample.
func FleetSlowdownOf(sample []Peer) (c FleetSlowdown) {
	hosts := map[string]bool{}
	for _, p := range sample {
		s := slowdownOf(slices.Clone(p.Latencies))
		if s == (Slowdown{}) {
			continue
		}
		c.Endpoints++
		if s.Present() {
			c.Slow++
			hosts[p.Host] = true
		}
	}
	c.Hosts = len(hosts)
	return c
}

// SchedulerLoaded reports whether so many endpoints are or recently were slow at the same time that
// the load is on the scheduler and not on their targets.
func (c FleetSlowdown) SchedulerLoaded() bool {
	return c.Recent || c.Hosts >= fleetSlowdownHosts && float64(c.Slow) > fleetSlowdownShare*float64(c.Endpoints)
}
