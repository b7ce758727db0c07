package dispatch

import (
	"hash/maphash"
	"net/http"
	"sync"
	"time"

	"rubato/internal/dispatch/ready"
	"rubato/internal/egress"
	"rubato/internal/hosts"
)

// gaugeIdle is the number of periods without a request after which a gauge is dropped, and with it
// the usual latency of its host.
const gaugeIdle = 600

// gauges measures the answers of hosts to this worker. Its zero value is ready. It is safe for
// concurrent use.
type gauges struct {
	mu    sync.Mutex
	byKey map[hosts.Key]*gauge
	// ended is when the last period ended.
	ended time.Time
}

// gauge is the gauge of one host, with its requests in flight.
type gauge struct {
	hosts.Gauge

	inFlight int
	idle     int // periods without a request
}

// begin counts a request that is sent.
func (g *gauges) begin(key hosts.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.byKey[key]
	if one == nil {
		if g.byKey == nil {
			g.byKey = map[hosts.Key]*gauge{}
		}
		one = new(gauge)
		g.byKey[key] = one
	}
	one.inFlight++
}

// end counts the answer to a request.
func (g *gauges) end(key hosts.Key, a hosts.Answer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.byKey[key]
	a.InFlight = one.inFlight
	one.inFlight--
	one.Add(time.Now(), a)
}

// periods ends the period of each host with requests. It returns nil if the last period ended less
// than a second ago. workers is the size of the fleet. trusted returns false if the worker itself
// was overloaded, and limit returns the adaptive limit of requests in flight to a host.
func (g *gauges) periods(workers int, trusted func() bool, limit func(hosts.Key) float64) map[hosts.Key]hosts.Sample {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if now.Sub(g.ended) < samplePeriod {
		return nil
	}
	g.ended = now
	own := hosts.Load{
		Trusted: trusted(),
		Delay:   g.ownDelay(),
		Workers: workers,
	}
	samples := map[hosts.Key]hosts.Sample{}
	for key, one := range g.byKey {
		if one.Idle() {
			if one.idle++; one.idle > gaugeIdle && one.inFlight == 0 {
				delete(g.byKey, key)
			}
			continue
		}
		one.idle = 0
		samples[key] = one.End(now, own, limit(key))
	}
	return samples
}

// ownDelay returns the delay of all hosts in the period. The caller holds mu.
func (g *gauges) ownDelay() time.Duration {
	excesses := make([]time.Duration, 0, len(g.byKey))
	for _, one := range g.byKey {
		if excess, known := one.Excess(); known {
			excesses = append(excesses, excess)
		}
	}
	return hosts.OwnDelay(excesses)
}

// samplePeriod is the time between two samples of a host.
const samplePeriod = time.Second

// send sends the request of a claim, and counts it and its answer for the limits of its host.
func (w *Worker) send(c *waiting, send func() (egress.Response, error)) (egress.Response, error) {
	b := w.breakers
	if _, guarded := b.of(c); !guarded {
		return send()
	}
	key := b.keyOf(c)
	b.gauges.begin(key)
	counted := hosts.Answer{
		Endpoint: c.claim.Endpoint(),
		Resource: resourceOf(c),
	}
	defer func() { b.gauges.end(key, counted) }() // Also after a panic.
	answer, err := send()
	if err != nil || answer.Redirects > 0 { // Nothing is known of the host's own latency.
		return answer, err
	}
	counted.Latency = answer.Phases.Wait
	counted.Refused = answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusServiceUnavailable
	if now, known := w.clock.now(); known {
		b.hold(c, answer, counted.Refused, now)
	}
	return answer, nil
}

// resourceSeed is that of the hashes of resources, which no other process sees.
var resourceSeed = maphash.MakeSeed()

// resourceOf returns the resource that an answer is compared with: the endpoint. The ID of a call
// is that of one request, so a call has its method and URL.
func resourceOf(c *waiting) uint64 {
	if spec := c.target.Spec; !spec.Scheduled() {
		return maphash.String(resourceSeed, spec.Method+" "+spec.URL)
	}
	id := c.claim.Endpoint()
	return maphash.Bytes(resourceSeed, id[:])
}

// hold counts an answer that asks for no request before an instant. The quota of a RateLimit header
// is that of the host. A Retry-After may be that of one resource.
func (b *breakers) hold(c *waiting, answer egress.Response, refused bool, now time.Time) {
	key := b.keyOf(c)
	reset := now.Add(hosts.ResetAfter(answer.Header, now))
	held := reset.After(now) && b.tally.Hold(key, reset)
	if refused {
		if until, asked := egress.RetryAfter(answer.Header, now); asked && until.After(now) {
			held = b.tally.AskedToWait(key, c.claim.Endpoint(), until, now) || held
		}
	}
	if held {
		b.wake()
	}
}

// sample returns the reports with the samples of hosts that are overloaded or have an adaptive
// limit. All other hosts cause none.
func (b *breakers) sample(reports []hosts.Report, trusted func() bool) []hosts.Report {
	adapts := func(key hosts.Key) bool { known := b.book.Get(key); return known.Adapts() }
	limit := func(key hosts.Key) float64 { return b.book.Get(key).Concurrency.Value }
	workers := max(1, b.member().Workers)
	for key, s := range b.gauges.periods(workers, trusted, limit) {
		if !s.Slow && !s.Refused && !adapts(key) {
			continue
		}
		// The claims of a host are spread over all workers.
		s.InFlight, s.Rate = s.InFlight*float64(workers), s.Rate*float64(workers)
		if b.hosts != nil {
			use := b.hosts.TakeUse(key.Scope, key.Host)
			s.FullInFlight, s.FullRate = use.Concurrency, use.Rate
		}
		reports = withSample(reports, key, s)
	}
	return reports
}

// withSample adds a sample to the report of its host.
func withSample(reports []hosts.Report, key hosts.Key, s hosts.Sample) []hosts.Report {
	for i := range reports {
		if reports[i].Key == key {
			reports[i].Sample = &s
			return reports
		}
	}
	return append(reports, hosts.Report{Key: key, Sample: &s})
}

// member returns the worker's index in the fleet.
func (b *breakers) member() hosts.Member {
	if m := b.index.Load(); m != nil {
		return *m
	}
	return hosts.Member{Workers: 1}
}

// join sets the worker's index in the fleet. If it has changed, so has the worker's share of each
// limit.
func (b *breakers) join(m hosts.Member) {
	if before := b.index.Swap(&m); before != nil && *before == m {
		return
	}
	b.rebind()
}

// rebind sets the worker's share of each limit in force again.
func (b *breakers) rebind() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.bounded {
		b.bind(b.book.Get(key))
	}
}

// put updates the copy of the breakers, and the worker's share of their limits.
func (b *breakers) put(list []hosts.Breaker) {
	b.book.Put(list)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range list {
		b.bind(one)
	}
}

// keep forgets all breakers that are not in a complete list, and their limits.
func (b *breakers) keep(list []hosts.Breaker) {
	b.book.Keep(list)
	b.rebind()
}

// bind sets the worker's share of the limits of a host. The caller holds mu.
func (b *breakers) bind(one hosts.Breaker) {
	bound := b.boundOf(one)
	limited := bound != (ready.Bound{})
	if b.hosts == nil || !limited && !b.bounded[one.Key] {
		return
	}
	b.hosts.SetBound(one.Scope, one.Host, bound)
	if limited {
		b.bounded[one.Key] = true
	} else {
		delete(b.bounded, one.Key)
	}
}

// boundOf returns the worker's share of the limits of a host.
func (b *breakers) boundOf(one hosts.Breaker) (bound ready.Bound) {
	concurrency, rate := one.InForce()
	if concurrency > 0 {
		bound.Concurrency = b.member().Share(one.Host, concurrency)
		bound.Closed = bound.Concurrency == 0
	}
	if rate > 0 {
		bound.Rate = b.member().ShareRate(rate)
	}
	if now, known := b.clock.now(); known && one.HeldUntil.After(now) {
		bound.HeldUntil = time.Now().Add(one.HeldUntil.Sub(now))
	}
	return bound
}

const (
	// hostRest is how long no worker can claim endpoints that were released because their host is
	// busy, for any horizon.
	hostRest = 5 * time.Second
	// closedRest is the same for endpoints that another worker may start at once, because it has
	// the share of the host's limit.
	closedRest = 500 * time.Millisecond
)

// restOf returns for how long a claim that was evicted at its host rests. If the host may be called
// again at a known instant, it rests until then.
func (w *Worker) restOf(c *waiting) time.Duration {
	if w.cfg.Hosts == nil {
		return hostRest
	}
	opens, closed := w.cfg.Hosts.Opens(c.Tenant, c.Host)
	if closed {
		return closedRest
	}
	return max(hostRest, time.Until(opens))
}
