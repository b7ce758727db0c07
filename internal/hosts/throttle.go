package hosts

import (
	"slices"
	"time"
)

// Limits are the user's upper bounds of the requests to a host, of all workers together. A zero is
// no bound.
type Limits struct {
	// Concurrency is the most requests in flight.
	Concurrency int
	// Rate is the most requests per second.
	Rate float64
}

// The adaptive limits are additive-increase, multiplicative-decrease (AIMD) in proportion: an
// overload cuts a limit by 30 %, and each second without one raises a limit that holds requests
// back by 5 %.
const (
	cutFactor  = 0.7
	growFactor = 1.05
	// fastFactor is the growth after fastAfter increases in a row, which double a limit. A target
	// that was down for long has its full rate back within a minute.
	fastFactor = 1.25
	fastAfter  = 14
	// throttlePeriod is the shortest time between two cuts, and between two increases.
	throttlePeriod = time.Second
	// forgetThrottle is the time after which a limit that holds nothing back is forgotten.
	forgetThrottle = time.Minute
	// leastThrottle is the lowest limit: one request in flight, or one a second. A lower one would
	// take too long to notice that the target has recovered.
	leastThrottle = 1
)

// Throttle is an adaptive limit of all workers together, in requests in flight or in requests per
// second. Its zero value is no limit.
type Throttle struct {
	// Value is the limit; zero: none.
	Value float64 `json:"value"`
	// Grown is the number of increases since the last cut.
	Grown int `json:"grown,omitempty"`
	// Changed is when the limit last changed, Cut when it was last cut.
	Changed time.Time `json:"changed"`
	Cut     time.Time `json:"cut"`
}

// cut lowers the limit after an overload at a use of all workers together.
func (t *Throttle) cut(now time.Time, used float64) {
	if now.Sub(t.Cut) < throttlePeriod {
		return
	}
	from := used
	if t.Value > 0 {
		from = min(used, t.Value)
	}
	*t = Throttle{
		Value:   max(leastThrottle, from*cutFactor),
		Changed: now,
		Cut:     now,
	}
}

// calm raises a limit that held requests back, and forgets one that has held back none for long.
func (t *Throttle) calm(now time.Time, binding bool) {
	since := now.Sub(t.Changed)
	switch {
	case t.Value == 0 || since < throttlePeriod:
	case binding:
		factor := growFactor
		if t.Grown >= fastAfter {
			factor = fastFactor
		}
		t.Value, t.Grown, t.Changed = t.Value*factor, t.Grown+1, now
	case since >= forgetThrottle:
		*t = Throttle{}
	}
}

// Sample is the traffic of one worker to a host over a period.
type Sample struct {
	// Slow is set if the latency is far above its baseline.
	Slow bool
	// Refused is set if the target answered 429 or 503.
	Refused bool
	// InFlight is the peak of the requests in flight, and Rate the requests per second, of all
	// workers together as the worker estimates them.
	InFlight float64
	Rate     float64
	// FullInFlight and FullRate are set if the limit held requests back.
	FullInFlight bool
	FullRate     bool
	// Latency is the 95th percentile; zero: there were too few requests.
	Latency time.Duration
}

// adapt changes the adaptive limits after a sample. A slow target gets fewer requests in flight,
// and one that refuses gets fewer requests per second.
func (b *Breaker) adapt(now time.Time, s Sample) {
	concurrency, rate := b.Concurrency, b.Rate
	if s.Slow {
		b.Concurrency.cut(now, s.InFlight)
	} else {
		b.Concurrency.calm(now, s.FullInFlight && !s.Refused)
	}
	if s.Refused {
		b.Rate.cut(now, s.Rate)
	} else {
		b.Rate.calm(now, s.FullRate && !s.Slow)
	}
	if changed := b.Concurrency != concurrency || b.Rate != rate; changed && s.Latency > 0 {
		b.Latency = s.Latency.Round(time.Millisecond)
	}
}

// Forget removes the adaptive limits and the wait that the target asked for.
func (b *Breaker) Forget() {
	b.HeldUntil, b.Concurrency, b.Rate, b.Latency = time.Time{}, Throttle{}, Throttle{}, 0
}

// Adapts reports whether the host has an adaptive limit.
func (b *Breaker) Adapts() bool { return b.Concurrency.Value > 0 || b.Rate.Value > 0 }

// InForce returns the limits in force: the user's, or the adaptive ones where they are lower.
func (b *Breaker) InForce() (concurrency, rate float64) {
	return lower(float64(b.Limits.Concurrency), b.Concurrency.Value), lower(b.Limits.Rate, b.Rate.Value)
}

// lower returns the lower of two limits, of which zero is none.
func lower(a, b float64) float64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// Member is the place of a worker among the live workers of the fleet.
type Member struct {
	// Index counts from zero, below Workers.
	Index   int
	Workers int
}

// Share returns the worker's part of a limit of requests in flight, at least one in total. The
// parts of all workers add up to the limit. A worker without a part calls the host not at all. The
// remainder goes to other workers for each host.
func (m Member) Share(host string, limit float64) int {
	whole := max(1, int(limit))
	if m.Workers <= 1 {
		return whole
	}
	part := whole / m.Workers
	turn := share(time.Duration(m.Workers-1)*time.Millisecond, []byte(host)) / time.Millisecond
	if (m.Index+int(turn))%m.Workers < whole%m.Workers {
		part++
	}
	return part
}

// ShareRate returns the worker's part of a rate.
func (m Member) ShareRate(rate float64) float64 { return rate / float64(max(1, m.Workers)) }

const (
	// slowFactor and slowExcess say how far the latency is above its baseline at an overload. Both
	// must hold: a fast target may well take twice as long for once.
	slowFactor = 2
	slowExcess = 100 * time.Millisecond
	// slowPeriods is the number of periods in a row that make the first overload of a host, because a
	// pause of a target or of the network for a second is none.
	slowPeriods = 2
	// gaugeFew is the least number of requests that give a percentile.
	gaugeFew = 10
	// fewHosts is the least number of hosts whose answers show a delay of the worker's own.
	fewHosts = 4
	// gaugeMost bounds the latencies of a period that are kept.
	gaugeMost = 256
	// The baseline follows the latency in these parts: quickly down, slowly up, and hardly at an
	// overload, so that a target that became slow for good is not throttled for ever.
	baselineDown = 4
	baselineUp   = 64
	baselineSlow = 512
	// refusalMemory is the time within which two endpoints must be refused.
	refusalMemory = 10 * time.Second
)

// Answer is the answer to one request.
type Answer struct {
	Endpoint [16]byte
	// Latency is the time from a ready connection to the first byte of the answer; zero: there was
	// no answer.
	Latency time.Duration
	// Refused is set if the target answered 429 or 503.
	Refused bool
	// InFlight is the number of requests in flight, this one included.
	InFlight int
}

// Gauge measures the answers of one host to one worker by periods, and learns the baseline of their
// latency. It is not safe for concurrent use.
//
// One endpoint that fails or is slow is no overload of the host. Therefore refusals count once two
// endpoints have been refused, and the median must rise as the 95th percentile does.
type Gauge struct {
	baseline, median time.Duration // zero: not known yet

	latencies []time.Duration
	requests  int
	refused   bool
	peak      int
	began     time.Time
	// slow is the number of slow periods in a row.
	slow int
	// turnedAway are the endpoints that were last refused.
	turnedAway witnesses
}

// Add counts an answer.
func (g *Gauge) Add(now time.Time, a Answer) {
	if g.requests == 0 && g.began.IsZero() {
		g.began = now
	}
	g.requests++
	g.peak = max(g.peak, a.InFlight)
	switch {
	case a.Refused:
		g.refused = g.turnedAway.add(now, a.Endpoint, now.Add(refusalMemory)) || g.refused
	case a.Latency > 0 && len(g.latencies) < gaugeMost:
		g.latencies = append(g.latencies, a.Latency)
	case a.Latency > 0:
		g.latencies[g.requests%gaugeMost] = a.Latency
	}
}

// Idle reports whether no answer was counted in the period.
func (g *Gauge) Idle() bool { return g.requests == 0 }

// Excess returns how far the 95th percentile of the period is above its baseline. It returns false
// if there are too few answers, or no baseline is known.
func (g *Gauge) Excess() (time.Duration, bool) {
	if len(g.latencies) < gaugeFew || g.baseline == 0 {
		return 0, false
	}
	slices.Sort(g.latencies)
	return g.high() - g.baseline, true
}

// high returns the 95th percentile of the sorted latencies.
func (g *Gauge) high() time.Duration { return g.latencies[len(g.latencies)*95/100] }

// OwnDelay returns the delay that a worker, its machine or its network adds to the answers of all
// hosts, from their excesses over a period: the lower median, so that it is zero while at most half
// of the hosts are slow. Fewer than four hosts show none.
func OwnDelay(excesses []time.Duration) time.Duration {
	if len(excesses) < fewHosts {
		return 0
	}
	slices.Sort(excesses)
	return max(0, excesses[(len(excesses)-1)/2])
}

// Load is what a worker knows of its own load in a period.
type Load struct {
	// Trusted is false if the worker was overloaded: then latencies say nothing about a target.
	Trusted bool
	// Delay is part of every latency, by [OwnDelay].
	Delay time.Duration
}

// End ends a period and returns its sample. limited is true if the host has an adaptive limit: then
// a rise of the latency does not become its usual one. The sample is of this worker alone, and says
// not whether a limit held requests back.
func (g *Gauge) End(now time.Time, own Load, limited bool) Sample {
	s := Sample{
		Refused:  g.refused,
		InFlight: float64(g.peak),
		Rate:     float64(g.requests) / max(now.Sub(g.began), throttlePeriod).Seconds(),
	}
	if len(g.latencies) >= gaugeFew && own.Trusted {
		slices.Sort(g.latencies)
		median := without(own.Delay, g.latencies[len(g.latencies)/2], g.median)
		s.Latency = without(own.Delay, g.high(), g.baseline)
		slow := g.baseline > 0 && s.Latency > slowFactor*g.baseline && s.Latency > g.baseline+slowExcess && median > slowFactor*g.median
		if g.slow++; !slow {
			g.slow = 0
		}
		s.Slow = g.slow >= slowPeriods || slow && limited
		held := slow || limited
		g.baseline, g.median = follow(g.baseline, s.Latency, held), follow(g.median, median, held)
	}
	if len(g.latencies) >= gaugeFew || !own.Trusted { // Otherwise the next periods add to them.
		g.latencies = g.latencies[:0]
	}
	g.requests, g.refused, g.peak, g.began = 0, false, 0, now
	return s
}

// without returns a latency without the delay of the worker. It is not below the baseline for that,
// because a host that the delay spared is no faster than usual.
func without(delay, latency, baseline time.Duration) time.Duration {
	if baseline == 0 {
		return latency
	}
	return latency - min(delay, max(0, latency-baseline))
}

// follow moves a baseline towards a latency. held is set if a rise says little about the usual
// latency, because the host is or was overloaded.
func follow(baseline, latency time.Duration, held bool) time.Duration {
	parts := time.Duration(baselineUp)
	switch {
	case baseline == 0:
		parts = 1
	case latency < baseline:
		parts = baselineDown
	case held:
		parts = baselineSlow
	}
	return baseline + (latency-baseline)/parts
}
