package hosts_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/hosts"
)

// simulatedHost is a target of a simulation with workers that call it as often as the limits
// permit.
type simulatedHost struct {
	breaker hosts.Breaker
	now     time.Time
	workers int
	// demand is the number of requests per second that the workers would send without a limit.
	demand float64
	// capacity is the number of requests per second that the target answers; it refuses the others.
	capacity float64
}

func newPlant(workers int, demand, capacity float64) *simulatedHost {
	return &simulatedHost{
		breaker:  hosts.New(hosts.Key{Host: "a:443"}, noon),
		now:      noon,
		workers:  workers,
		demand:   demand,
		capacity: capacity,
	}
}

// second passes a second, and returns the number of requests that arrived.
func (p *simulatedHost) second() float64 {
	p.now = p.now.Add(time.Second)
	_, rate := p.breaker.InForce()
	sent := p.demand
	if rate > 0 {
		sent = min(sent, rate)
	}
	for range p.workers { // Each sees its part of the traffic.
		p.breaker.Apply(p.now, hosts.Report{Sample: &hosts.Sample{
			Refused:  sent > p.capacity,
			Rate:     sent,
			FullRate: sent < p.demand,
		}})
	}
	return sent
}

// TestTargetGetsAtMostATenthMoreThanItsCapacity has a target that refuses what it cannot carry.
func TestTargetGetsAtMostATenthMoreThanItsCapacity(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.Float64Range(10, 5000).Draw(t, "capacity")
		p := newPlant(rapid.IntRange(1, 5).Draw(t, "workers"), capacity*rapid.Float64Range(1.2, 20).Draw(t, "excess"), capacity)
		for range 120 {
			p.second()
		}
		sum := 0.0
		const seconds = 300
		for range seconds {
			sent := p.second()
			require.LessOrEqual(t, sent, 1.1*capacity)
			sum += sent
		}
		require.GreaterOrEqual(t, sum/seconds, 0.75*capacity, "most of the capacity is used")
	})
}

// TestFullRateIsBackWithinAMinute lets a target refuse everything for up to ten minutes.
func TestFullRateIsBackWithinAMinute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		demand := rapid.Float64Range(1, 5000).Draw(t, "demand")
		p := newPlant(rapid.IntRange(1, 5).Draw(t, "workers"), demand, 0)
		for range rapid.IntRange(1, 600).Draw(t, "outage") {
			p.second()
		}
		p.capacity = math.Inf(1)
		for range 60 {
			p.second()
		}
		require.Equal(t, demand, p.second())
		for range 61 {
			p.second()
		}
		require.False(t, p.breaker.Adapts(), "a limit that holds nothing back is forgotten")
	})
}

// TestSlowTargetGetsFewerRequestsInFlight models a target that answers a number of requests at a
// time and queues the others.
func TestSlowTargetGetsFewerRequestsInFlight(t *testing.T) {
	t.Parallel()
	const parallel, demand, service = 20, 400.0, 200 * time.Millisecond
	b := hosts.New(hosts.Key{Host: "a:443"}, noon)
	var g hosts.Gauge
	now := noon
	inFlight, calls := 4.0, 0.0
	for second := range 180 {
		if second > 10 {
			inFlight = demand
		}
		if limit, _ := b.InForce(); limit > 0 {
			inFlight = min(inFlight, math.Floor(limit))
		}
		latency := time.Duration(float64(service) * max(1, inFlight/parallel))
		for range 100 {
			g.Add(now, hosts.Answer{Latency: latency, InFlight: int(inFlight)})
		}
		now = now.Add(time.Second)
		s := g.End(now, calm, b.Adapts())
		s.FullInFlight = inFlight < demand
		b.Apply(now, hosts.Report{Sample: &s})
		if second > 60 {
			require.LessOrEqual(t, latency, 3*service)
			calls += min(inFlight, parallel) / service.Seconds()
		}
	}
	require.GreaterOrEqual(t, calls/119, 0.95*parallel/service.Seconds(), "the target stays busy")
}

// calm is the load of a worker that adds nothing to the latencies.
var calm = hosts.Load{Trusted: true}

// periods ends a period of 50 answers for each latency, and returns the last sample.
func periods(g *hosts.Gauge, own hosts.Load, latencies ...time.Duration) (s hosts.Sample) {
	for i, latency := range latencies {
		for range 50 {
			g.Add(noon, hosts.Answer{Latency: latency, InFlight: 1})
		}
		s = g.End(noon.Add(time.Duration(i+1)*time.Second), own, false)
	}
	return s
}

// TestOwnOverloadIsNoOverloadOfTheTarget adds latency that the worker itself caused.
func TestOwnOverloadIsNoOverloadOfTheTarget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		own  hosts.Load
		slow bool
	}{
		"calm":       {calm, true},
		"overloaded": {hosts.Load{}, false},
		"all hosts":  {hosts.Load{Trusted: true, Delay: 950 * time.Millisecond}, false},
		"hosts half": {hosts.Load{Trusted: true, Delay: 500 * time.Millisecond}, true},
	} {
		var g hosts.Gauge
		require.False(t, periods(&g, calm, 10*time.Millisecond).Slow, name)
		require.Equal(t, c.slow, periods(&g, c.own, time.Second, time.Second).Slow, name)
	}
}

// TestOverloadIsFarAboveTheBaselineAndLasts requires both the factor and the excess, for two
// seconds.
func TestOverloadIsFarAboveTheBaselineAndLasts(t *testing.T) {
	t.Parallel()
	const usual, slow = 80 * time.Millisecond, 500 * time.Millisecond
	for name, c := range map[string]struct {
		latencies []time.Duration
		slow      bool
	}{
		"factor without excess": {[]time.Duration{usual, 170 * time.Millisecond, 170 * time.Millisecond}, false},
		"excess without factor": {[]time.Duration{usual * 10, usual * 15, usual * 15}, false},
		"one second":            {[]time.Duration{usual, slow}, false},
		"two seconds apart":     {[]time.Duration{usual, slow, usual, slow}, false},
		"two seconds":           {[]time.Duration{usual, slow, slow}, true},
	} {
		var g hosts.Gauge
		require.Equal(t, c.slow, periods(&g, calm, c.latencies...).Slow, name)
	}
}

// TestDelayOfMostHostsIsTheWorkersOwn takes it from the hosts whose answers got slower.
func TestDelayOfMostHostsIsTheWorkersOwn(t *testing.T) {
	t.Parallel()
	var g hosts.Gauge
	_, known := g.Excess()
	require.False(t, known, "nothing was answered")
	periods(&g, calm, 10*time.Millisecond)
	for range 50 {
		g.Add(noon, hosts.Answer{Latency: time.Second, InFlight: 1})
	}
	excess, known := g.Excess()
	require.True(t, known)
	require.Equal(t, 990*time.Millisecond, excess)

	var spared hosts.Gauge
	periods(&spared, calm, 10*time.Millisecond)
	for range 20 {
		s := periods(&spared, hosts.Load{Trusted: true, Delay: time.Second}, 10*time.Millisecond)
		require.Equal(t, 10*time.Millisecond, s.Latency, "the delay spared this host")
	}
	require.True(t, periods(&spared, calm, time.Second, time.Second).Slow, "its baseline is as before")

	slow := 300 * time.Millisecond
	require.Zero(t, hosts.OwnDelay([]time.Duration{slow, slow, slow}), "three hosts may be slow by themselves")
	require.Zero(t, hosts.OwnDelay([]time.Duration{slow, 0, slow, 0}), "half of the hosts")
	require.Zero(t, hosts.OwnDelay([]time.Duration{-slow, -slow, -slow, 0}), "faster than usual")
	require.Equal(t, slow, hosts.OwnDelay([]time.Duration{slow, 0, 2 * slow, slow}))
}

// TestOneEndpointIsNoOverloadOfItsHost has one of ten endpoints refused, or slow.
func TestOneEndpointIsNoOverloadOfItsHost(t *testing.T) {
	t.Parallel()
	var g hosts.Gauge
	now := noon
	second := func(slow time.Duration, refused ...byte) hosts.Sample {
		for endpoint := range byte(10) {
			for range 2 {
				g.Add(now, hosts.Answer{
					Endpoint: [16]byte{endpoint},
					Latency:  map[bool]time.Duration{true: slow, false: 10 * time.Millisecond}[endpoint == 9],
					Refused:  slices.Contains(refused, endpoint),
				})
			}
		}
		now = now.Add(time.Second)
		return g.End(now, calm, false)
	}
	require.False(t, second(10*time.Millisecond).Slow)
	for range 20 {
		s := second(2*time.Second, 3)
		require.False(t, s.Slow)
		require.False(t, s.Refused)
	}
	require.True(t, second(10*time.Millisecond, 3, 4).Refused)
}

// TestSharesOfWorkersAddUp splits limits among the workers of a fleet.
func TestSharesOfWorkersAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		workers, limit := rapid.IntRange(1, 40).Draw(t, "workers"), rapid.IntRange(1, 500).Draw(t, "limit")
		host := rapid.StringMatching("[a-z]{1,9}:80").Draw(t, "host")
		sum, rates := 0, 0.0
		for i := range workers {
			m := hosts.Member{Index: i, Workers: workers}
			sum += m.Share(host, float64(limit))
			rates += m.ShareRate(float64(limit))
		}
		require.Equal(t, limit, sum)
		require.InDelta(t, limit, rates, 1e-6)
	})
}

// TestHostIsHeldOnceItAskedTwoEndpointsToWait, because the limit of one resource must not hold up
// the other endpoints of its host.
func TestHostIsHeldOnceItAskedTwoEndpointsToWait(t *testing.T) {
	t.Parallel()
	var tally hosts.Tally
	host, search, items := hosts.Key{Host: "a:443"}, [16]byte{1}, [16]byte{2}
	until := noon.Add(time.Minute)
	require.False(t, tally.AskedToWait(host, search, until, noon))
	require.False(t, tally.AskedToWait(host, search, until.Add(time.Second), noon), "the same endpoint again")
	require.False(t, tally.AskedToWait(hosts.Key{Host: "b:443"}, items, until, noon), "another host")
	require.Empty(t, tally.Take())
	require.True(t, tally.AskedToWait(host, items, until, noon))
	list := tally.Take()
	require.Len(t, list, 1)
	require.Equal(t, until, list[0].HoldUntil)
	require.True(t, tally.AskedToWait(host, items, until.Add(time.Second), noon), "another endpoint still waits")

	later := noon.Add(time.Hour)
	require.False(t, tally.AskedToWait(host, search, later.Add(time.Minute), later), "the waits before are over")
}

// TestWaitThatATargetAsksForIsBounded holds a host for the latest instant of its answers.
func TestWaitThatATargetAsksForIsBounded(t *testing.T) {
	t.Parallel()
	b := hosts.New(hosts.Key{Host: "a:443"}, noon)
	b.Apply(noon, hosts.Report{HoldUntil: noon.Add(30 * time.Second)})
	b.Apply(noon, hosts.Report{HoldUntil: noon.Add(10 * time.Second)})
	require.Equal(t, noon.Add(30*time.Second), b.HeldUntil)
	b.Apply(noon, hosts.Report{HoldUntil: noon.Add(24 * time.Hour)})
	require.Equal(t, noon.Add(15*time.Minute), b.HeldUntil)
	require.Equal(t, hosts.Closed, b.State, "a wait is no failure")
	b.Forget()
	require.Zero(t, b.HeldUntil)
}
