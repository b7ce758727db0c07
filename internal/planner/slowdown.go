package planner

import (
	"slices"
	"time"

	"rubato/internal/runs"
)

// The numbers of strain.
const (
	slowdownNewest   = 5                      // newest answers whose median is compared
	slowdownBaseline = 10                     // answers before them that it takes to know what is usual
	slowdownFactor   = 2.0                    // so many times slower than usual is strain,
	slowdownAdded    = 100 * time.Millisecond // if it is also slower by so much: a millisecond that became three is noise

	fleetSlowdownHosts = 3   // hosts with a strained endpoint from which on the cause may be on our side
	fleetSlowdownShare = 0.3 // of the endpoints that are strained together, beyond which it is
)

// Strain compares the newest answers of an endpoint with those before them, by their medians. The zero value: too little is known.
type Slowdown struct {
	Factor float64       // how many times slower the newest are
	Added  time.Duration // by how much
}

// Present reports whether the target is under strain.
func (s Slowdown) Present() bool { return s.Factor >= slowdownFactor && s.Added >= slowdownAdded }

// StrainSample is how many of the newest runs strain is told by. It is the same for whoever is compared, so that what is usual is.
const SlowdownSample = 100

// StrainOf returns the strain of an endpoint by its runs, newest first.
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

// Peer is an endpoint of the installation in the sample that strain is compared with.
type Peer struct {
	Host      string
	Latencies []time.Duration // of its newest answers, newest first
}

// Crowd says how many endpoints of a sample are under strain at once.
type FleetSlowdown struct {
	Endpoints int // whose strain is known
	Slow      int
	Hosts     int  // that the strained ones call
	Recent    bool // it was so within the last hour
}

// CrowdMemory remembers when many endpoints were last strained together. As the slow answers become the usual ones, endpoints cease to
// be strained one by one: those that are last must not be taken for strained alone. The zero value is ready.
type FleetSlowdownMemory struct{ last time.Time }

// crowdLingers is how long the scheduler counts as loaded after that was last seen.
const fleetSlowdownMemoryFor = time.Hour

// See takes in what a sample said at an instant, and returns it with what is remembered.
func (m *FleetSlowdownMemory) Observe(now time.Time, c FleetSlowdown) FleetSlowdown {
	if c.SchedulerLoaded() {
		m.last = now
	}
	c.Recent = !m.last.IsZero() && now.Sub(m.last) < fleetSlowdownMemoryFor
	return c
}

// CrowdOf counts the strained endpoints of a sample.
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

// Ours reports whether so many endpoints are slow together, or were a while ago, that the scheduler is loaded, not their targets.
func (c FleetSlowdown) SchedulerLoaded() bool {
	return c.Recent || c.Hosts >= fleetSlowdownHosts && float64(c.Slow) > fleetSlowdownShare*float64(c.Endpoints)
}
