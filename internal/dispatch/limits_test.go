package dispatch_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch"
	"rubato/internal/dispatch/ready"
	"rubato/internal/hosts"
	"rubato/internal/waittest"
)

// meter is a target that counts its requests. Those that it cannot carry it refuses.
type meter struct {
	*httptest.Server

	mu       sync.Mutex
	arrivals []time.Time
	inFlight int
	peak     int
	// capacity is the number of requests that it answers in a second; zero: all.
	capacity int
	// header is added to its answers.
	header http.Header
	// takes is how long an answer takes.
	takes time.Duration
	// places is the number of requests that it serves at a time; the others queue. Nil: all.
	places chan struct{}
}

func startMeter(t *testing.T, set func(m *meter)) *meter {
	t.Helper()
	m := &meter{header: http.Header{}}
	set(m)
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refused := m.enter()
		defer m.leave()
		maps.Copy(w.Header(), m.header)
		if places := m.queue(); places != nil {
			places <- struct{}{}
			defer func() { <-places }()
		}
		select {
		case <-time.After(m.takes):
		case <-r.Context().Done():
		}
		if refused {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(m.Close)
	return m
}

// enter counts a request, and reports whether it is refused.
func (m *meter) enter() (refused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.arrivals = append(m.arrivals, time.Now())
	m.inFlight++
	m.peak = max(m.peak, m.inFlight)
	return m.capacity > 0 && m.after(time.Now().Add(-time.Second)) > m.capacity
}

// serve sets the number of requests that the target serves at a time.
func (m *meter) serve(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.places = make(chan struct{}, n)
}

func (m *meter) queue() chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.places
}

func (m *meter) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inFlight--
}

// after returns the number of requests since an instant. The caller holds mu.
func (m *meter) after(since time.Time) (n int) {
	for i := len(m.arrivals) - 1; i >= 0 && m.arrivals[i].After(since); i-- {
		n++
	}
	return n
}

// since returns the number of requests since an instant.
func (m *meter) since(at time.Time) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.after(at)
}

// host returns host and port of the target.
func (m *meter) host(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(m.URL)
	require.NoError(t, err)
	return u.Host
}

// limitedFleet runs workers that know each other and limit the requests to hosts.
func (b *bundle) limitedFleet(t *testing.T, n int) {
	t.Helper()
	guarded := b.guarded(t)
	for range n {
		p := b.work(t, func(cfg *dispatch.Config) {
			guarded(cfg)
			cfg.Hosts = ready.NewHosts(100)
		})
		b.listen(t, p)
	}
	b.await(t, n, "SELECT count(*) FROM workers WHERE state = 'active'")
}

// set changes the limits of a host.
func (b *bundle) set(t *testing.T, host string, p hosts.Patch) {
	t.Helper()
	_, err := hosts.NewService(b.hosts(t), false).Set(t.Context(), tenant, host, p)
	require.NoError(t, err)
}

// TestFleetKeepsTheRateOfAHost counts the requests of three workers at a target with a limit.
func TestFleetKeepsTheRateOfAHost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	m := startMeter(t, func(*meter) {})
	b.set(t, m.host(t), hosts.Patch{Rate: new(10.0)})
	b.limitedFleet(t, 3)
	b.call(t, tenant, m.URL, 60)
	waittest.Until(t, func() bool { return m.since(time.Time{}) >= 40 }, "the target is called")
	began := time.Now()
	waittest.Until(t, func() bool { return m.since(began) >= 40 }, "the target is called at its rate")
	seconds := time.Since(began).Seconds()
	require.LessOrEqual(t, float64(m.since(began)), 11*seconds+3, "within %.1f s", seconds)
}

// TestFleetKeepsTheConcurrencyOfAHost counts the requests in flight at a target with a limit.
func TestFleetKeepsTheConcurrencyOfAHost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	m := startMeter(t, func(m *meter) { m.takes = 50 * time.Millisecond })
	b.set(t, m.host(t), hosts.Patch{Concurrency: new(4)})
	b.limitedFleet(t, 3)
	// Each worker learns its share by its next heartbeat.
	b.await(t, 3, "SELECT count(*) FROM workers WHERE heartbeat_at > started_at + interval '2 s'")
	b.call(t, tenant, m.URL, 60)
	waittest.Until(t, func() bool { return m.since(time.Time{}) >= 150 }, "the target is called")
	require.LessOrEqual(t, m.peak, 4)
}

// TestRefusingHostGetsItsCapacity has a target that refuses three of four requests.
func TestRefusingHostGetsItsCapacity(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const capacity = 25
	m := startMeter(t, func(m *meter) { m.capacity = capacity })
	b.limitedFleet(t, 3)
	b.call(t, tenant, m.URL, 100)
	b.await(t, 1, "SELECT count(*) FROM hosts WHERE host = $1 AND (adaptive -> 'rate' ->> 'value')::float BETWEEN 1 AND $2", m.host(t), capacity)
	began := time.Now()
	waittest.Until(t, func() bool { return m.since(began) >= 4*capacity }, "the target is called")
	seconds := time.Since(began).Seconds()
	require.LessOrEqual(t, float64(m.since(began)), 1.1*capacity*seconds+capacity, "within %.1f s", seconds)
}

// TestHostThatLosesCapacityGetsFewerRequestsInFlight has a target that serves a fleet of a hundred
// requests per second well, and later only four at a time, which is 40 per second.
func TestHostThatLosesCapacityGetsFewerRequestsInFlight(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const endpoints = 100
	m := startMeter(t, func(m *meter) { m.takes = 100 * time.Millisecond })
	guarded := b.guarded(t)
	b.work(t, func(cfg *dispatch.Config) {
		guarded(cfg)
		cfg.Hosts, cfg.Slots, cfg.LatencyLimits = ready.NewHosts(endpoints), endpoints, true
		dispatch.AssumeCalm(cfg)
	})
	b.call(t, tenant, m.URL, endpoints)
	// Each endpoint needs three answers, and the period of the last one must have ended.
	waittest.Until(t, func() bool { return m.since(time.Time{}) >= 5*endpoints }, "the usual latencies are known")
	m.serve(4)
	b.await(t, 1, "SELECT count(*) FROM hosts WHERE host = $1 AND (adaptive -> 'concurrency' ->> 'value')::float BETWEEN 1 AND 60", m.host(t))
}

// TestHostIsHeldUntilItsQuotaResets has a target whose answers say that no request is left.
func TestHostIsHeldUntilItsQuotaResets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	m := startMeter(t, func(m *meter) { m.header = http.Header{"Ratelimit": {`"default";r=0;t=600`}} })
	b.limitedFleet(t, 2)
	list := b.call(t, tenant, m.URL, 20)
	b.await(t, 1, "SELECT count(*) FROM hosts WHERE host = $1 AND held_until > clock_timestamp() + interval '9 minutes'", m.host(t))
	waittest.Until(t, func() bool {
		return query[int](t, b, "SELECT count(*) FROM schedules WHERE due_at > clock_timestamp() + interval '9 minutes'") >= len(list)-2
	}, "claims at a held host are released until it may be called")
	require.LessOrEqual(t, m.since(time.Time{}), 2*len(list))
}
