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

// TestSlowTargetGetsFewerRequestsInFlight models a target that answers a number of requests at a
// time and queues the others.
func TestSlowTargetGetsFewerRequestsInFlight(t *testing.T) {
	t.Parallel()
	const parallel, demand, service = 20, 400.0, 200 * time.Millisecond
	b := hosts.New(hosts.Key{Host: "a:443"}, noon)
	var g hosts.Gauge
	now := noon
	inFlight, calls := 4.0, 0.0
	for second := range 1800 {
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
		s := g.End(now, calm, b.Concurrency.Value)
		s.FullInFlight = inFlight < demand
		b.Apply(now, hosts.Report{Sample: &s})
		if second > 60 {
			require.LessOrEqual(t, latency, 3*service, "second %d", second)
			calls += min(inFlight, parallel) / service.Seconds()
		}
	}
	require.GreaterOrEqual(t, calls/1739, 0.95*parallel/service.Seconds(), "the target stays busy")
}

// calm is the load of a worker that adds nothing to the latencies.
var calm = hosts.Load{Trusted: true, Workers: 1}

// periods ends a period of 50 answers for each latency, and returns the last sample.
func periods(g *hosts.Gauge, own hosts.Load, latencies ...time.Duration) (s hosts.Sample) {
	for i, latency := range latencies {
		for range 50 {
			g.Add(noon, hosts.Answer{Latency: latency, InFlight: 1})
		}
		s = g.End(noon.Add(time.Duration(i+1)*time.Second), own, 0)
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
					Resource: uint64(endpoint),
					Latency:  map[bool]time.Duration{true: slow, false: 10 * time.Millisecond}[endpoint == 9],
					Refused:  slices.Contains(refused, endpoint),
				})
			}
		}
		now = now.Add(time.Second)
		return g.End(now, calm, 0)
	}
	require.False(t, second(10*time.Millisecond).Slow)
	for range 20 {
		s := second(2*time.Second, 3)
		require.False(t, s.Slow)
		require.False(t, s.Refused)
	}
	require.True(t, second(10*time.Millisecond, 3, 4).Refused)
}

// server is a target in simulated time without a queue. Its resources take different times.
type server struct {
	breaker hosts.Breaker
	gauge   hosts.Gauge
	now     time.Time
	// takes returns how long a resource takes, and asked which resources are asked in this second.
	takes func(resource int) time.Duration
	asked func() []int
	// backlog holds the resources that wait because of the limit.
	backlog []int
	// sent is the number of requests of the last second.
	sent int
}

// second sends what the limit admits, and ends a period.
func (s *server) second() {
	s.backlog = append(s.backlog, s.asked()...)
	limit, _ := s.breaker.InForce()
	inFlight := 0.0
	s.sent = 0
	for _, r := range s.backlog {
		if limit > 0 && inFlight+s.takes(r).Seconds() > math.Floor(limit) && s.sent > 0 {
			break
		}
		inFlight += s.takes(r).Seconds()
		s.sent++
	}
	for _, r := range s.backlog[:s.sent] {
		s.gauge.Add(s.now, hosts.Answer{
			Resource: uint64(r),
			Latency:  s.takes(r),
			InFlight: int(math.Ceil(inFlight)),
		})
	}
	s.backlog = s.backlog[s.sent:]
	s.now = s.now.Add(time.Second)
	if s.gauge.Idle() {
		return
	}
	sample := s.gauge.End(s.now, calm, s.breaker.Concurrency.Value)
	sample.FullInFlight = len(s.backlog) > 0
	s.breaker.Apply(s.now, hosts.Report{Sample: &sample})
}

func startServer(takes func(int) time.Duration, asked func() []int) *server {
	return &server{
		breaker: hosts.New(hosts.Key{Host: "a:443"}, noon),
		now:     noon,
		takes:   takes,
		asked:   asked,
	}
}

// TestSlowResourcesBesideFastOnesAreNoOverload asks a host for fast resources, and at times for
// many slow ones, which take as long as ever.
func TestSlowResourcesBesideFastOnesAreNoOverload(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		slow := time.Duration(rapid.IntRange(200, 30_000).Draw(t, "slow")) * time.Millisecond
		second := 0
		lasts := rapid.IntRange(2, 20).Draw(t, "lasts")
		s := startServer(func(r int) time.Duration {
			if r < 20 {
				return 10 * time.Millisecond
			}
			return slow
		}, func() (list []int) {
			for r := range 20 {
				list = append(list, r)
			}
			for r := 20; second/lasts%2 == 1 && r < 220; r++ {
				list = append(list, r)
			}
			second++
			return list
		})
		for range 200 {
			s.second()
			require.False(t, s.breaker.Adapts(), "second %d", second)
		}
	})
}

// TestHostThatStaysSlowIsNotHeldForEver has a host whose resources all take longer from an instant
// on, although it has no queue.
func TestHostThatStaysSlowIsNotHeldForEver(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		factor := rapid.IntRange(3, 40).Draw(t, "factor")
		usual := time.Duration(rapid.IntRange(60, 500).Draw(t, "usual")) * time.Millisecond
		asked := rapid.IntRange(20, 200).Draw(t, "asked")
		takes := usual
		s := startServer(func(int) time.Duration { return takes }, func() (list []int) {
			for r := range asked {
				list = append(list, r)
			}
			return list
		})
		for range 60 {
			s.second()
		}
		takes = time.Duration(factor) * usual
		limited := false
		for range 240 {
			s.second()
			limited = limited || s.breaker.Adapts()
		}
		require.True(t, limited, "at first it looks like an overload")
		require.GreaterOrEqual(t, s.sent, asked, "four minutes later it gets all requests again")
	})
}

// TestSlowAnswersLetALimitGrow has a limit of one request in flight to a host that takes 20 s for
// an answer, which is usual.
func TestSlowAnswersLetALimitGrow(t *testing.T) {
	t.Parallel()
	b := hosts.New(hosts.Key{Host: "a:443"}, noon)
	b.Concurrency = hosts.Throttle{Value: 1, Changed: noon, Cut: noon}
	var g hosts.Gauge
	now := noon
	for range 4 {
		now = now.Add(20 * time.Second)
		for range int(b.Concurrency.Value) {
			g.Add(now, hosts.Answer{Resource: 1, Latency: 20 * time.Second, InFlight: 1})
		}
		s := g.End(now, calm, b.Concurrency.Value)
		s.FullInFlight = true
		b.Apply(now, hosts.Report{Sample: &s})
	}
	require.GreaterOrEqual(t, b.Concurrency.Value, 100.0, "within 80 s")
}

// TestOverloadOfOneRoundCutsALimitOnce has requests in flight that were sent before the limit was
// cut. Their slow answers say nothing of the limit.
func TestOverloadOfOneRoundCutsALimitOnce(t *testing.T) {
	t.Parallel()
	b := hosts.New(hosts.Key{Host: "a:443"}, noon)
	slow := func(second int, latency time.Duration) float64 {
		b.Apply(noon.Add(time.Duration(second)*time.Second), hosts.Report{Sample: &hosts.Sample{
			Slow:     true,
			InFlight: 100,
			Latency:  latency,
		}})
		return b.Concurrency.Value
	}
	require.InDelta(t, 70, slow(10, 3*time.Second), 1e-9)
	require.InDelta(t, 70, slow(11, 3*time.Second), 1e-9)
	require.InDelta(t, 70, slow(12, 3*time.Second), 1e-9)
	require.InDelta(t, 49, slow(13, 3*time.Second), 1e-9)
	require.InDelta(t, 34.3, slow(18, time.Minute), 1e-9, "after 5 s at the latest")
}

// TestTooFewAnswersChangeNoLimit ends periods with fewer answers than the limit has requests.
func TestTooFewAnswersChangeNoLimit(t *testing.T) {
	t.Parallel()
	var g hosts.Gauge
	periods(&g, calm, 10*time.Millisecond)
	few := func() hosts.Sample {
		g.Add(noon, hosts.Answer{Latency: time.Second, InFlight: 1})
		return g.End(noon, calm, 2)
	}
	require.True(t, few().Unknown)
	s := few()
	require.False(t, s.Unknown)
	require.True(t, s.Slow)
	b := hosts.New(hosts.Key{Host: "a:443"}, noon)
	b.Concurrency = hosts.Throttle{Value: 2, Changed: noon, Cut: noon}
	b.Apply(noon.Add(time.Minute), hosts.Report{Sample: &hosts.Sample{Unknown: true, FullInFlight: true}})
	require.InDelta(t, 2, b.Concurrency.Value, 0)
}

// TestNewResourcesAreNeitherSlowNorUsualAtAnOverload adds resources to a host while it is slow.
func TestNewResourcesAreNeitherSlowNorUsualAtAnOverload(t *testing.T) {
	t.Parallel()
	var g hosts.Gauge
	second := func(latency time.Duration, resources uint64, limit float64) hosts.Sample {
		for r := range resources {
			for range 4 {
				g.Add(noon, hosts.Answer{Resource: r, Latency: latency, InFlight: 1})
			}
		}
		return g.End(noon, calm, limit)
	}
	const usual, slow = 100 * time.Millisecond, time.Second
	require.False(t, second(slow, 50, 0).Slow, "nothing is usual yet")
	g = hosts.Gauge{}
	second(usual, 3, 0)
	second(slow, 50, 0)
	require.True(t, second(slow, 50, 0).Slow, "the known resources say so")
	for range 100 {
		second(2*usual, 50, 50)
	}
	require.True(t, second(slow, 50, 50).Slow, "a limit does not raise the usual latency")
	for range 100 {
		require.False(t, second(usual, 50, 0).Slow, "nor do new resources")
	}
}
