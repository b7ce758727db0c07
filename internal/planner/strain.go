package planner

import (
	"slices"
	"time"

	"rubato/internal/runs"
)

// The numbers of strain.
const (
	strainNewest = 5                      // newest answers whose median is compared
	strainUsual  = 10                     // answers before them that it takes to know what is usual
	strainTimes  = 2.0                    // so many times slower than usual is strain,
	strainExtra  = 100 * time.Millisecond // if it is also slower by so much: a millisecond that became three is noise

	crowdHosts = 3   // hosts with a strained endpoint from which on the cause may be on our side
	crowdShare = 0.3 // of the endpoints that are strained together, beyond which it is
)

// Strain compares the newest answers of an endpoint with those before them, by their medians. The zero value: too little is known.
type Strain struct {
	Times float64       // how many times slower the newest are
	Extra time.Duration // by how much
}

// Present reports whether the target is under strain.
func (s Strain) Present() bool { return s.Times >= strainTimes && s.Extra >= strainExtra }

// StrainSample is how many of the newest runs strain is told by. It is the same for whoever is compared, so that what is usual is.
const StrainSample = 100

// StrainOf returns the strain of an endpoint by its runs, newest first.
func StrainOf(list []runs.Run) Strain {
	var latencies []time.Duration
	for _, run := range list[:min(len(list), StrainSample)] {
		if run.Outcome.StatusCode > 0 {
			latencies = append(latencies, latencyOf(run))
		}
	}
	return strainOf(latencies)
}

func strainOf(latencies []time.Duration) Strain {
	if len(latencies) < strainNewest+strainUsual {
		return Strain{}
	}
	fresh, before := latencies[:strainNewest], latencies[strainNewest:]
	slices.Sort(fresh)
	slices.Sort(before)
	now, usual := percentile(fresh, 50), percentile(before, 50)
	return Strain{Times: float64(now) / float64(max(usual, time.Millisecond)), Extra: now - usual}
}

// Peer is an endpoint of the installation in the sample that strain is compared with.
type Peer struct {
	Host      string
	Latencies []time.Duration // of its newest answers, newest first
}

// Crowd says how many endpoints of a sample are under strain at once.
type Crowd struct {
	Endpoints int // whose strain is known
	Strained  int
	Hosts     int  // that the strained ones call
	Lately    bool // it was so within the last hour
}

// CrowdMemory remembers when many endpoints were last strained together. As the slow answers become the usual ones, endpoints cease to
// be strained one by one: those that are last must not be taken for strained alone. The zero value is ready.
type CrowdMemory struct{ last time.Time }

// crowdLingers is how long the scheduler counts as loaded after that was last seen.
const crowdLingers = time.Hour

// See takes in what a sample said at an instant, and returns it with what is remembered.
func (m *CrowdMemory) See(now time.Time, c Crowd) Crowd {
	if c.Ours() {
		m.last = now
	}
	c.Lately = !m.last.IsZero() && now.Sub(m.last) < crowdLingers
	return c
}

// CrowdOf counts the strained endpoints of a sample.
func CrowdOf(sample []Peer) (c Crowd) {
	hosts := map[string]bool{}
	for _, p := range sample {
		s := strainOf(slices.Clone(p.Latencies))
		if s == (Strain{}) {
			continue
		}
		c.Endpoints++
		if s.Present() {
			c.Strained++
			hosts[p.Host] = true
		}
	}
	c.Hosts = len(hosts)
	return c
}

// Ours reports whether so many endpoints are slow together, or were a while ago, that the scheduler is loaded, not their targets.
func (c Crowd) Ours() bool {
	return c.Lately || c.Hosts >= crowdHosts && float64(c.Strained) > crowdShare*float64(c.Endpoints)
}
