package hosts_test

import (
	"math"
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
