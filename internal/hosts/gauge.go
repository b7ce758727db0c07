package hosts

import (
	"slices"
	"time"
)

const (
	// slowFactor and slowExcess say how far a latency is above the usual one at an overload. Both must
	// hold: a fast target may well take twice as long for once.
	slowFactor = 2
	slowExcess = 100 * time.Millisecond
	// slowPeriods is the number of periods in a row that make the first overload of a host, because a
	// pause of a target or of the network for a second is none.
	slowPeriods = 2
	// gaugeFew is the least number of answers that show how slow a host without a limit is, and
	// knownFew the least number of those whose usual latency is known.
	gaugeFew = 10
	knownFew = 4
	// gaugeMost bounds the answers of a period that are kept.
	gaugeMost = 256
	// fewHosts is the least number of hosts whose answers show a delay of the worker's own.
	fewHosts = 4
	// The usual slowness follows the measured one in these parts: quickly down, slowly up, and not up
	// at an overload.
	slownessDown = 4
	slownessUp   = 64
	// refusalMemory is the time within which two endpoints must be refused.
	refusalMemory = 10 * time.Second
)

// Answer is the answer to one request.
type Answer struct {
	Endpoint [16]byte
	// Resource identifies requests that take about as long as each other.
	Resource uint64
	// Latency is the time from a ready connection to the first byte of the answer; zero: there was
	// no answer.
	Latency time.Duration
	// Refused is set if the target answered 429 or 503.
	Refused bool
	// InFlight is the number of requests in flight, this one included.
	InFlight int
}

// Gauge measures the answers of one host to one worker by periods. It compares each latency with
// the usual one of its resource, because a host may have resources that take long beside ones that
// do not. It is not safe for concurrent use.
//
// One endpoint that fails or is slow is no overload of the host. Therefore refusals count once two
// endpoints have been refused, and slow answers must be most of those whose usual latency is known,
// of two resources if there are two.
type Gauge struct {
	usual usuals
	// slowness is the usual median of the latencies, each divided by that of its resource, and at
	// least 1. It is more after the host as a whole got slower. Zero stands for 1.
	slowness float64

	period   int32 // its number
	answers  []timing
	requests int
	refused  bool
	peak     int
	began    time.Time
	// slow is the number of slow periods in a row.
	slow int
	// turnedAway are the endpoints that were last refused.
	turnedAway witnesses
}

// timing is the latency of one answer.
type timing struct {
	resource uint64
	latency  time.Duration
}

// Add counts an answer.
func (g *Gauge) Add(now time.Time, a Answer) {
	if g.requests == 0 && g.began.IsZero() {
		g.began = now
	}
	g.requests++
	g.peak = max(g.peak, a.InFlight)
	one := timing{
		resource: a.Resource,
		latency:  a.Latency,
	}
	switch {
	case a.Refused:
		g.refused = g.turnedAway.add(now, a.Endpoint, now.Add(refusalMemory)) || g.refused
	case a.Latency > 0 && len(g.answers) < gaugeMost:
		g.answers = append(g.answers, one)
	case a.Latency > 0:
		g.answers[g.requests%gaugeMost] = one
	}
}

// Idle reports whether no answer was counted in the period.
func (g *Gauge) Idle() bool { return g.requests == 0 }

// Excess returns by how much the answers of the period took longer than usual: the lower median. It
// returns false if there are too few answers whose usual latency is known.
func (g *Gauge) Excess() (time.Duration, bool) {
	var list []time.Duration
	for _, a := range g.answers {
		if mean := g.usual.of(a.resource); mean > 0 {
			list = append(list, a.latency-g.expected(mean))
		}
	}
	if len(list) < knownFew {
		return 0, false
	}
	return lowerMedian(list), true
}

// expected returns the usual latency of a resource with a mean at the usual slowness of its host.
func (g *Gauge) expected(mean time.Duration) time.Duration {
	return time.Duration(float64(mean) * max(1, g.slowness))
}

// lowerMedian sorts a list, which must not be empty.
func lowerMedian(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[(len(list)-1)/2]
}

// OwnDelay returns the delay that a worker, its machine or its network adds to the answers of all
// hosts, from their excesses over a period: the lower median, so that it is zero while at most half
// of the hosts are slow. Fewer than four hosts show none.
func OwnDelay(excesses []time.Duration) time.Duration {
	if len(excesses) < fewHosts {
		return 0
	}
	return max(0, lowerMedian(excesses))
}

// Load is what a worker knows of its own load in a period.
type Load struct {
	// Trusted is false if the worker was overloaded: then latencies say nothing about a target.
	Trusted bool
	// Delay is part of every latency, by [OwnDelay].
	Delay time.Duration
	// Workers is the number of workers of the fleet.
	Workers int
}

// End ends a period and returns its sample. limit is the adaptive limit of the requests in flight
// of all workers; zero: none. The sample is of this worker alone, and says not whether a limit held
// requests back.
func (g *Gauge) End(now time.Time, own Load, limit float64) Sample {
	s := Sample{
		Refused:  g.refused,
		InFlight: float64(g.peak),
		Rate:     float64(g.requests) / max(now.Sub(g.began), throttlePeriod).Seconds(),
	}
	s.Unknown = own.Trusted && len(g.answers) < roundOf(limit, own.Workers)
	if own.Trusted && !s.Unknown {
		s.Latency = high(g.answers)
		g.judge(&s, own.Delay, limit)
	}
	if !s.Unknown { // Otherwise the next periods add to them.
		g.answers = g.answers[:0]
	}
	g.requests, g.refused, g.peak, g.began = 0, false, 0, now
	return s
}

// roundOf returns the number of answers that show how slow a host is. With a limit these are as
// many as the worker has in flight, because slow answers come seldom.
func roundOf(limit float64, workers int) int {
	if limit == 0 {
		return gaugeFew
	}
	return int(min(max(1, limit/float64(max(1, workers))), gaugeFew))
}

// high returns the 95th percentile of the latencies.
func high(answers []timing) time.Duration {
	list := make([]time.Duration, len(answers))
	for i, a := range answers {
		list[i] = a.latency
	}
	slices.Sort(list)
	return list[len(list)*95/100]
}

// judge decides whether the answers of a period are slow, and learns from them.
func (g *Gauge) judge(s *Sample, delay time.Duration, limit float64) {
	var ratios []float64
	var late, known spread
	for i := range g.answers {
		a := &g.answers[i]
		mean := g.usual.of(a.resource)
		if mean == 0 {
			continue
		}
		usual := g.expected(mean)
		known.add(a.resource)
		// An answer that the delay spared is no faster than usual.
		a.latency -= min(delay, max(0, a.latency-usual))
		ratios = append(ratios, float64(a.latency)/float64(mean))
		if a.latency > slowFactor*usual && a.latency > usual+slowExcess {
			late.add(a.resource)
		}
	}
	slow := 2*late.answers > known.answers && (late.several || !known.several) && (known.answers >= knownFew || limit > 0)
	if g.slow++; !slow {
		g.slow = 0
	}
	s.Slow = g.slow >= slowPeriods || slow && limit > 0
	held := slow || limit > 0
	g.learn(held)
	if len(ratios) > 0 {
		slices.Sort(ratios)
		g.follow(ratios[len(ratios)/2], held, limit)
	}
}

// learn takes the latencies of the period into the usual ones.
func (g *Gauge) learn(held bool) {
	if g.usual == nil {
		g.usual = usuals{}
	}
	for _, a := range g.answers {
		g.usual.learn(a.resource, a.latency, g.period, held)
	}
	g.period++
}

// follow moves the usual slowness towards a measured one. A host that stays slow with one request
// in flight is not slow because of them, so this is quickly its usual slowness.
func (g *Gauge) follow(measured float64, held bool, limit float64) {
	g.slowness = max(1, g.slowness)
	switch {
	case measured < g.slowness, limit > 0 && limit <= leastThrottle:
		g.slowness = max(1, g.slowness+(measured-g.slowness)/slownessDown)
	case !held:
		g.slowness += (measured - g.slowness) / slownessUp
	}
}

// spread counts answers, and notes whether they are of several resources.
type spread struct {
	answers int
	first   uint64
	several bool
}

func (s *spread) add(resource uint64) {
	if s.answers++; s.answers == 1 {
		s.first = resource
	}
	s.several = s.several || resource != s.first
}
