package hosts

import "time"

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
	// longestRound bounds the time after a cut in which answers may still be those to requests that
	// were sent before it.
	longestRound = 5 * time.Second
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

// cut lowers the limit after an overload at a use of all workers together. It ignores an overload
// of requests that were sent before the last cut, by the time that answers take.
func (t *Throttle) cut(now time.Time, used float64, latency time.Duration) {
	if now.Sub(t.Cut) < min(max(throttlePeriod, latency), longestRound) {
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

// calm raises a limit that held requests back, and forgets one that has held back none for long. It
// raises by one step for each second that an answer takes, because slow answers come seldom.
func (t *Throttle) calm(now time.Time, binding bool, latency time.Duration) {
	since := now.Sub(t.Changed)
	switch {
	case t.Value == 0 || since < throttlePeriod:
	case binding:
		for range max(1, min(since, latency)/throttlePeriod) {
			t.Value *= t.growth()
			t.Grown++
		}
		t.Changed = now
	case since >= forgetThrottle:
		*t = Throttle{}
	}
}

// growth returns the factor of the next increase.
func (t *Throttle) growth() float64 {
	if t.Grown >= fastAfter {
		return fastFactor
	}
	return growFactor
}

// Sample is the traffic of one worker to a host over a period.
type Sample struct {
	// Slow is set if most answers took far longer than usual, and Unknown if there were too few to
	// say.
	Slow, Unknown bool
	// Refused is set if the target answered 429 or 503.
	Refused bool
	// InFlight is the peak of the requests in flight, and Rate the requests per second, of all
	// workers together as the worker estimates them.
	InFlight float64
	Rate     float64
	// FullInFlight and FullRate are set if the limit held requests back.
	FullInFlight bool
	FullRate     bool
	// Latency is the 95th percentile of the answers; zero: there were too few.
	Latency time.Duration
}

// adapt changes the adaptive limits after a sample. A slow target gets fewer requests in flight,
// and one that refuses gets fewer requests per second.
func (b *Breaker) adapt(now time.Time, s Sample) {
	concurrency, rate := b.Concurrency, b.Rate
	switch {
	case s.Slow:
		b.Concurrency.cut(now, s.InFlight, s.Latency)
	case !s.Unknown:
		b.Concurrency.calm(now, s.FullInFlight && !s.Refused, s.Latency)
	}
	if s.Refused {
		b.Rate.cut(now, s.Rate, 0)
	} else {
		b.Rate.calm(now, s.FullRate && !s.Slow, 0)
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
