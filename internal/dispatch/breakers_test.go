package dispatch_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/hosts"
	hoststore "rubato/internal/store/hosts"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
	"rubato/internal/waittest"
)

// flaky is a target that fails until it is healed. It counts its requests.
type flaky struct {
	*httptest.Server
	healthy  atomic.Bool
	requests atomic.Int64
	mu       sync.Mutex
	arrivals []time.Time
}

func startFlaky(t *testing.T) *flaky {
	t.Helper()
	f := &flaky{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		f.arrivals = append(f.arrivals, time.Now())
		f.mu.Unlock()
		f.requests.Add(1)
		if !f.healthy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

// host returns host and port of the target.
func (f *flaky) host(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(f.URL)
	require.NoError(t, err)
	return u.Host
}

// guarded makes a worker guard hosts by the breakers in the database.
func (b *bundle) guarded(t *testing.T) func(cfg *dispatch.Config) {
	t.Helper()
	store := b.hosts(t)
	return func(cfg *dispatch.Config) { cfg.Breakers = store }
}

// hosts returns the store of breakers.
func (b *bundle) hosts(t *testing.T) *hoststore.Store {
	t.Helper()
	db, err := pg.Open(t.Context(), pg.Config{URL: b.url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return hoststore.New(db)
}

// fleet runs workers that hear messages.
func (b *bundle) fleet(t *testing.T, n int) []*process {
	t.Helper()
	list := make([]*process, n)
	guarded := b.guarded(t)
	for i := range list {
		list[i] = b.work(t, guarded)
		b.listen(t, list[i])
	}
	return list
}

// call registers endpoints of a tenant that call a target every second.
func (b *bundle) call(t *testing.T, by endpoints.Actor, target string, n int) []*endpoints.Endpoint {
	t.Helper()
	list := make([]*endpoints.Endpoint, n)
	for i := range list {
		spec := endpoints.Defaults()
		spec.Name, spec.URL, spec.BaselineInterval, spec.MaxInterval = "poll", target, time.Second, time.Second
		e, _, err := b.service.Register(t.Context(), by, spec)
		require.NoError(t, err)
		list[i] = e
	}
	return list
}

// endWindow moves the end of a host's window to now. The endpoints that wait for it come due when
// every worker must know.
func (b *bundle) endWindow(t *testing.T, host string) {
	t.Helper()
	b.exec(t, "UPDATE hosts SET open_until = clock_timestamp(), updated_at = clock_timestamp() WHERE host = $1 AND state = 'open'", host)
	b.exec(t, `UPDATE schedules SET due_at = due.at, planned_at = due.at, slot = due.at, claim_token = claim_token + 1, claimed_by = NULL, claimed_at = NULL
		FROM (SELECT date_trunc('milliseconds', clock_timestamp()) + interval '1500 ms' AS at) due
		WHERE run_id IS NULL AND source = 'circuit-open'`)
	b.exec(t, "SELECT pg_notify('rubato_hosts', ''), pg_notify('rubato_due', '0')")
}

const (
	hostState   = "SELECT count(*) FROM hosts WHERE host = $1 AND state = $2"
	circuitOpen = "SELECT count(*) FROM runs WHERE reason_code = 'circuit_open'"
)

// TestFailingHostIsLeftAloneByTheWholeFleet trips the breaker of a host with three workers, follows
// a failed and a successful window, and counts the requests at the target.
func TestFailingHostIsLeftAloneByTheWholeFleet(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := startFlaky(t)
	b.fleet(t, 3)
	const n = 20
	b.call(t, tenant, target.URL, n)
	b.await(t, 1, hostState, target.host(t), hosts.Open)
	b.await(t, n, "SELECT count(DISTINCT endpoint_id) FROM schedules WHERE source = 'circuit-open'")
	tripped := target.requests.Load()
	require.LessOrEqual(t, tripped, int64(2*n), "each endpoint was sent once or twice before the breaker was known")
	require.Equal(t, n, query[int](t, b, circuitOpen), "one record for each endpoint")
	require.Zero(t, query[int](t, b, circuitOpen+" AND (status <> 'skipped' OR wait_us > 0)"))

	b.endWindow(t, target.host(t))
	b.await(t, 1, "SELECT count(*) FROM hosts WHERE openings = 2 AND state = 'open'")
	b.await(t, n, "SELECT count(DISTINCT endpoint_id) FROM schedules WHERE source = 'circuit-open'")
	probes := target.requests.Load() - tripped
	require.Positive(t, probes)
	require.LessOrEqual(t, probes, int64(hosts.MaxProbes))

	target.healthy.Store(true)
	waittest.Until(t, func() bool {
		// A probe that was sent before the target healed begins another window.
		if query[int](t, b, "SELECT count(*) FROM hosts WHERE state = 'open' AND open_until > clock_timestamp() + interval '3 s'") > 0 {
			b.endWindow(t, target.host(t))
		}
		return query[int](t, b, hostState, target.host(t), hosts.Closed) == 1
	}, "the breaker closes")
	b.await(t, n, "SELECT count(DISTINCT endpoint_id) FROM runs WHERE status = 'succeeded'")
}

// TestForcedRunIsSentThroughAnOpenBreaker asks for a run of an endpoint whose host is open.
func TestForcedRunIsSentThroughAnOpenBreaker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := startFlaky(t)
	b.fleet(t, 2)
	const n = hosts.DefaultFailures
	list := b.call(t, tenant, target.URL, n)
	b.await(t, n, "SELECT count(DISTINCT endpoint_id) FROM schedules WHERE source = 'circuit-open'")
	before := target.requests.Load()
	_, err := b.service.RunNow(t.Context(), tenant, list[0].ID, endpoints.OneOffRequest{})
	require.NoError(t, err)
	_, err = b.service.RunNow(t.Context(), tenant, list[1].ID, endpoints.OneOffRequest{Force: true})
	require.NoError(t, err)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE source = 'manual' AND status = 'failed' AND endpoint_id = $1", list[1].ID)
	require.Equal(t, before+1, target.requests.Load(), "a run without force waits")
	require.Equal(t, 1, query[int](t, b, hostState+" AND openings = 1", target.host(t), hosts.Open), "a failed forced run begins no window")

	target.healthy.Store(true)
	_, err = b.service.RunNow(t.Context(), tenant, list[1].ID, endpoints.OneOffRequest{Force: true})
	require.NoError(t, err)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE source = 'manual' AND status = 'succeeded' AND endpoint_id = $1", list[1].ID)
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM hosts WHERE host = $1 AND state <> 'open'", target.host(t)), "a success lets probes through")
}

// TestDeadProbersDoNotBlockAHost has every seat of a half-open host taken by probes whose claims
// are gone, as after the death of their worker.
func TestDeadProbersDoNotBlockAHost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := startFlaky(t)
	target.healthy.Store(true)
	b.exec(t, `INSERT INTO hosts (scope, host, state, failures, openings, successes, since, seat_endpoints, seat_tokens, updated_at)
		VALUES ($1, $2, 'closed', 0, 0, 0, clock_timestamp(), '{}', '{}', clock_timestamp())`, keystore.DefaultTenant, target.host(t))
	b.exec(t, "UPDATE hosts SET state = 'open', openings = 1, open_until = clock_timestamp()")
	b.exec(t, "UPDATE hosts SET state = 'half_open', seat_endpoints = ARRAY[gen_random_uuid(), gen_random_uuid(), gen_random_uuid()], seat_tokens = '{1,1,1}'")
	b.fleet(t, 1)
	b.call(t, tenant, target.URL, 2)
	b.await(t, 1, hostState, target.host(t), hosts.Closed)
}

// TestBreakersOfTenantsAreApart lets the host of one tenant fail while another tenant calls it with
// success.
func TestBreakersOfTenantsAreApart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(failing.Close)
	b.fleet(t, 1)
	other := endpoints.Actor{TenantID: [16]byte{15: 9}, Name: "stranger"}
	b.exec(t, "INSERT INTO tenants (id, name) VALUES ($1, 'another')", other.TenantID)
	b.call(t, tenant, failing.URL+"/bad", 5)
	b.await(t, 1, "SELECT count(*) FROM hosts WHERE state = 'open' AND scope = $1", keystore.DefaultTenant)
	list := b.call(t, other, failing.URL+"/good", 1)
	b.await(t, 2, "SELECT least(count(*), 2) FROM runs WHERE status = 'succeeded' AND endpoint_id = $1", list[0].ID)
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM hosts WHERE scope = $1", other.TenantID), "a healthy host has no row")
}
