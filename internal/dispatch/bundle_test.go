package dispatch_test

import (
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rubato/internal/claims"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/dispatch"
	"rubato/internal/dispatch/ready"
	"rubato/internal/egress"
	"rubato/internal/egress/egresstest"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/history"
	"rubato/internal/store/items"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
	"rubato/internal/waittest"
)

func TestMain(m *testing.M) {
	waittest.Together(4) // They wait nine tenths of their time.
	goleak.VerifyTestMain(m)
}

// patience is the grace of a worker that has to stop.
const patience = time.Minute

var tenant = endpoints.Actor{TenantID: keystore.DefaultTenant, Name: "tester"}

// bundle is a migrated database of its own, with the stores that a worker needs.
type bundle struct {
	url        string
	pool       *pgxpool.Pool
	service    *endpoints.Service
	claims     *items.Claims
	executions *items.Executions
	runs       *history.Runs
}

func setup(t *testing.T) *bundle {
	t.Helper()
	url := devpgtest.NewDatabase(t, devpgtest.Template{Key: pg.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := pg.MigrateUp(ctx, url)
		return err
	}})
	db, err := pg.Open(t.Context(), pg.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return &bundle{
		url: url, pool: pool, service: endpoints.NewService(endpointstore.NewStore(endpointstore.NewStates(db, 0)), anyTarget{}),
		claims: items.NewClaims(db), executions: items.NewExecutions(endpointstore.NewStates(db, 0)), runs: history.NewRuns(db),
	}
}

// anyTarget allows every URL and header.
type anyTarget struct{}

func (anyTarget) CheckURL(string) *errs.Field            { return nil }
func (anyTarget) CheckHeader(string, string) *errs.Field { return nil }

// register stores an endpoint that runs once, at once, changed by edit.
func (b *bundle) register(t *testing.T, target interface{ URL() string }, edit func(*endpoints.Spec)) *endpoints.Endpoint {
	t.Helper()
	spec := endpoints.Defaults()
	spec.Name, spec.URL, spec.BaselineInterval = "probe", target.URL(), time.Hour
	if edit != nil {
		edit(&spec)
	}
	e, _, err := b.service.Register(t.Context(), tenant, spec)
	require.NoError(t, err)
	return e
}

func (b *bundle) state(t *testing.T, e *endpoints.Endpoint) endpoints.State {
	t.Helper()
	got, _, err := b.service.Get(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	return got.State
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// query returns the one value that a query past the stores finds.
func query[T any](t *testing.T, b *bundle, sql string, args ...any) T {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(t, err)
	return value
}

// await waits until a count in the database is as wanted.
func (b *bundle) await(t *testing.T, want int, sql string, args ...any) {
	t.Helper()
	got := -1
	waittest.Until(t, func() bool {
		got = query[int](t, b, sql, args...)
		return got == want
	}, "%s: want %d", sql, want)
}

// timelyRuns counts the runs that are over, without starts that a busy machine carried out too
// late: those are recorded as start_expired and tried again.
const timelyRuns = "SELECT count(*) FROM runs WHERE reason_code <> 'start_expired'"

// awaitTimely waits until as many runs are over, without starts that came too late.
func (b *bundle) awaitTimely(t *testing.T, want int) {
	t.Helper()
	b.await(t, want, timelyRuns)
}

// alone returns a client that calls each host with one request at a time.
func alone(t *testing.T) *egress.Client {
	t.Helper()
	client := egress.New(egress.Config{
		Rules:     egress.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		HostSlots: hostSlotsOf(ready.NewHosts(1)),
	})
	t.Cleanup(client.Close)
	return client
}

// placesOf returns how a client counts its requests at hosts.
func hostSlotsOf(hosts *ready.Hosts) func([16]byte) egress.HostSlot {
	return func(tenant [16]byte) egress.HostSlot { return hosts.Slot(tenant) }
}

// process is a worker at work.
type process struct {
	*dispatch.Worker
	registry *prometheus.Registry
	cancel   context.CancelFunc
	ended    chan error
}

// work runs a worker until the test ends or stop is called.
func (b *bundle) work(t *testing.T, edit func(*dispatch.Config)) *process {
	t.Helper()
	client := egress.New(egress.Config{Rules: egress.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	registry := prometheus.NewRegistry()
	cfg := dispatch.Config{
		Name: "host", Version: "v1", Slots: 8, Rules: claims.Rules{Horizon: 10 * time.Second, LockTTL: time.Minute},
		PollInterval: 50 * time.Millisecond, Grace: patience, Claims: b.claims, Executions: b.executions, Egress: client,
		Logger: slog.New(slog.DiscardHandler), Registerer: registry,
	}
	if edit != nil {
		edit(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{Worker: dispatch.New(cfg), registry: registry, cancel: cancel, ended: make(chan error, 1)}
	go func() { p.ended <- p.Run(ctx); close(p.ended) }()
	t.Cleanup(func() {
		cancel()
		<-p.ended
		client.Close()
		require.Empty(t, p.Held(), "whatever became of its runs, a worker that has ended holds nothing for them")
	})
	return p
}

// stop stops the worker and waits for its end.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.cancel()
	p.wait(t)
}

// wait waits for a worker to end after its context has ended.
func (p *process) wait(t *testing.T) {
	t.Helper()
	require.NoError(t, waittest.Receive(t, p.ended, "the worker does not stop"))
}

// listen makes a worker hear messages until the test ends. It returns when it does.
func (b *bundle) listen(t *testing.T, p *process) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended, listening := make(chan struct{}), make(chan struct{}, 1)
	go func() {
		defer close(ended)
		pg.NewListener(b.url, slog.New(slog.DiscardHandler)).Run(ctx, listened{p, listening})
	}()
	t.Cleanup(func() { stop(); <-ended })
	waittest.Receive(t, listening)
}

// listened passes notifications to a worker and signals each on a channel.
type listened struct {
	*process
	told chan struct{}
}

// ChainsWoken is ignored, because these workers advance no chains.
func (listened) ChainsWoken() {}

func (l listened) CancelRequested(worker [16]byte) {
	l.process.CancelRequested(worker)
	select {
	case l.told <- struct{}{}:
	default:
	}
}

// counter returns the value of a counter, or how much a histogram has counted, summed over its
// labels.
func (p *process) counter(t *testing.T, name string) float64 {
	t.Helper()
	families, err := p.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			sum := 0.0
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
			return sum
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// gatedTarget is a target that answers a request only when the test lets it go, and signals each
// arrival.
type gatedTarget struct {
	*egresstest.Target
	arrived chan egresstest.Request
	letGo   chan struct{}
	now     atomic.Int32
	most    atomic.Int32
}

func startGated(t *testing.T) *gatedTarget {
	t.Helper()
	g := &gatedTarget{arrived: make(chan egresstest.Request, 1000), letGo: make(chan struct{}, 1000)}
	over := make(chan struct{})
	g.Target = egresstest.Start(t, func(c *egresstest.Conn) {
		for {
			r, ok := c.Next()
			if !ok {
				return
			}
			most := g.now.Add(1)
			for seen := g.most.Load(); most > seen && !g.most.CompareAndSwap(seen, most); seen = g.most.Load() {
			}
			g.arrived <- r
			select {
			case <-g.letGo:
			case <-over:
				return
			}
			g.now.Add(-1)
			if !c.Write(egresstest.OK("ok")) {
				return
			}
		}
	})
	t.Cleanup(func() { close(over) })
	return g
}
