package chaos

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"rubato/client"
	"rubato/internal/audit"
	"rubato/internal/devpg"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/store/pg"
)

// horizon is how far ahead workers claim.
const horizon = 3 * time.Second

// lockTTL is the shortest lock that the settings allow, so that a fault outlasts it soon.
const lockTTL = 6 * time.Second

// settings are the settings of every program unless a scenario overrides them: short durations that
// fit each other.
func settings() map[string]string {
	return map[string]string{
		"RUBATO_HORIZON": horizon.String(), "RUBATO_POLL_INTERVAL": "500ms", "RUBATO_LOCK_TTL": lockTTL.String(), "RUBATO_STALE_AFTER": "8s",
		"RUBATO_SETTLE": "10s", "RUBATO_SWEEP_INTERVAL": "1s", "RUBATO_SHUTDOWN_GRACE": "5s", "RUBATO_SLOTS": "256",
		"RUBATO_EGRESS_ALLOW": "127.0.0.0/8", "RUBATO_EGRESS_MAX_PER_HOST": "256", "RUBATO_ADMIN_LISTEN": "127.0.0.1:0", "RUBATO_LOG_FORMAT": "text",
	}
}

const adminKey = "an-admin-key-of-the-chaos"

// stack is a whole installation: Postgres, an API server, workers, and a target.
type stack struct {
	t        *testing.T
	env      map[string]string
	programs string // the directory of the worker's program
	cluster  *devpg.Cluster
	pool     *pgxpool.Pool // the test's own connections
	machine  *bystander
	api      *client.Client
	target   *target
	server   *process // the API server
	workers  []*worker
	ids      []string      // of the endpoints
	longest  time.Duration // limit of an execution
	freezes  []audit.Freeze
}

// worker is a scheduler-worker with the ID under which the database knows it.
type worker struct {
	*process
	id     [16]byte
	report string // file into which its failpoints report
	admin  string // base URL of its admin listener
}

// newStack starts everything but the workers. Settings override those of every program.
func newStack(t *testing.T, override map[string]string) *stack {
	t.Helper()
	return newStackOn(t, newCluster(t), override)
}

// newCluster starts a Postgres of the scenario's own that has the schema already.
func newCluster(t *testing.T) *devpg.Cluster {
	t.Helper()
	return devpgtest.ClusterOf(t, devpgtest.Template{Key: pg.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := pg.MigrateUp(ctx, url)
		return err
	}})
}

// newStackOn starts everything but the workers on a Postgres of the scenario's own.
func newStackOn(t *testing.T, cluster *devpg.Cluster, override map[string]string) *stack {
	t.Helper()
	s := &stack{t: t, env: settings(), programs: binaries, cluster: cluster, target: newTarget(t)}
	maps.Copy(s.env, override)
	_, err := pg.MigrateUp(t.Context(), s.cluster.URL()) // No-op on most of them.
	require.NoError(t, err)
	s.pool, err = pgxpool.New(t.Context(), s.cluster.URL())
	require.NoError(t, err)
	t.Cleanup(s.pool.Close)
	s.machine = watch(t, s.cluster.URL())
	s.env["DATABASE_URL"] = cmp.Or(s.env["DATABASE_URL"], s.cluster.URL())
	server := start(t, filepath.Join(binaries, "api"), s.environ(map[string]string{"RUBATO_LISTEN": "127.0.0.1:0", "RUBATO_BOOTSTRAP_API_KEY": adminKey}))
	s.server = server
	line := server.logged(t, "API server started")
	_, at, found := strings.Cut(line, "url=")
	require.True(t, found, line)
	at, _, _ = strings.Cut(at, " ")
	s.api, err = client.NewClient(at, client.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+adminKey)
		return nil
	}))
	require.NoError(t, err)
	return s
}

func (s *stack) environ(more map[string]string) []string {
	env := maps.Clone(s.env)
	maps.Copy(env, more)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// startWorker starts a worker and waits until its row is in the database. Workers start one at a
// time, so the new row is its own. A fault may kill the worker before, because the loop of chains
// does not wait for the registration.
func (s *stack) startWorker(more map[string]string) *worker {
	s.t.Helper()
	before := s.workerIDs()
	w := &worker{report: filepath.Join(s.t.TempDir(), "failpoints")}
	env := map[string]string{"FAILPOINTS_REPORT": w.report, "RUBATO_ADMIN_LISTEN": freeAddress(s.t)}
	maps.Copy(env, more)
	w.process = start(s.t, filepath.Join(s.programs, "scheduler-worker"), s.environ(env))
	w.admin = "http://" + env["RUBATO_ADMIN_LISTEN"]
	eventually(s.t, "a worker to register, or to end", func() bool {
		for _, id := range s.workerIDs() {
			if !slices.Contains(before, id) {
				w.id = id
				return true
			}
		}
		return w.over()
	})
	require.True(s.t, w.id != [16]byte{} || more["FAILPOINTS"] != "", "the worker ended before it was registered")
	s.workers = append(s.workers, w)
	return w
}

func (s *stack) startWorkers(n int) {
	s.t.Helper()
	for range n {
		s.startWorker(nil)
	}
}

func (s *stack) workerIDs() [][16]byte {
	s.t.Helper()
	rows, err := s.pool.Query(s.t.Context(), "SELECT id FROM workers")
	require.NoError(s.t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	require.NoError(s.t, err)
	return ids
}

// through returns the URL of the database behind a link.
func (s *stack) through(l *link) string { return through(s.t, s.cluster, l) }

func through(t *testing.T, cluster *devpg.Cluster, l *link) string {
	t.Helper()
	u, err := url.Parse(cluster.URL())
	require.NoError(t, err)
	u.Host, u.RawQuery = l.address(), "sslmode=disable"
	return u.String()
}

// socketOf returns the Unix socket of a Postgres.
func socketOf(t *testing.T, cluster *devpg.Cluster) string {
	t.Helper()
	u, err := url.Parse(cluster.URL())
	require.NoError(t, err)
	return filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432")
}

// load describes the endpoints to register.
type load struct {
	n        int
	path     string        // behaviour of the target: milliseconds, or hang
	base     string        // of the target; empty: the stack's
	every    time.Duration // of the first endpoint; the others follow in steps up to five times as long
	limit    time.Duration // of an execution
	timeout  time.Duration // of a request; zero: the limit
	method   client.Method // empty: GET
	noSpread bool          // all have the same interval
	body     string        // of a request
	overlaps bool          // runs start beside earlier ones
}

// register registers endpoints and remembers them.
func (s *stack) register(l load) {
	s.t.Helper()
	if l.base == "" {
		l.base = s.target.URL
	}
	if l.timeout == 0 {
		l.timeout = l.limit
	}
	if l.method == "" {
		l.method = client.MethodGET
	}
	s.longest = max(s.longest, l.limit)
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(s.t.Context())
	group.SetLimit(8)
	for n := range l.n {
		group.Go(func() error {
			every := l.every
			if !l.noSpread {
				every += 4 * l.every * time.Duration(n) / time.Duration(l.n)
			}
			spec := client.EndpointSpec{
				Name: fmt.Sprintf("%s %d", l.path, n), URL: fmt.Sprintf("%s/%s/%s", l.base, l.path, uuid.NewString()), Method: &l.method,
				BaselineIntervalMs: new(every.Milliseconds()), MinIntervalMs: new(l.every.Milliseconds()),
				TimeoutMs: new(l.timeout.Milliseconds()), MaxExecutionTimeMs: new(l.limit.Milliseconds()), Body: &l.body,
			}
			if l.overlaps {
				spec.Overlap, spec.Headers = new(client.OverlapAllow), &map[string]string{"Overlaps": "yes"}
			}
			e, err := answer[client.Endpoint](s.api.CreateEndpoint(ctx, spec))
			mu.Lock()
			defer mu.Unlock()
			s.ids = append(s.ids, e.ID)
			return err
		})
	}
	require.NoError(s.t, group.Wait())
}

// answer decodes a success.
func answer[T any](res *http.Response, err error) (v T, _ error) {
	if err != nil {
		return v, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return v, err
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		return v, fmt.Errorf("status %d: %s", res.StatusCode, bytes.TrimSpace(text))
	}
	return v, json.Unmarshal(text, &v)
}

// count returns the number that a query returns.
func (s *stack) count(sql string, args ...any) int {
	s.t.Helper()
	var n int
	require.NoError(s.t, s.pool.QueryRow(s.t.Context(), sql, args...).Scan(&n))
	return n
}

// busiest waits until a worker has the wanted number of live runs, and returns the one with the
// most.
func (s *stack) busiest(wanted int) *worker {
	s.t.Helper()
	var best *worker
	eventually(s.t, "a worker with live runs", func() bool {
		most := wanted - 1
		for _, w := range s.workers {
			if n := s.count("SELECT count(*) FROM live_runs WHERE worker_id = $1", w.id); n > most {
				best, most = w, n
			}
		}
		return best != nil
	})
	return best
}

// freeze stops a worker for a time and records it for the auditor.
func (s *stack) freeze(w *worker, d time.Duration, act func()) {
	s.t.Helper()
	from := time.Now()
	w.signal(s.t, stopSignal)
	eventually(s.t, "the worker to stand still", func() bool { return w.stopped(s.t) })
	pass(d)
	require.True(s.t, w.stopped(s.t), "the worker did not stand still all the time")
	act()
	w.signal(s.t, contSignal)
	eventually(s.t, "the worker to go on", func() bool { return !w.stopped(s.t) })
	s.freezes = append(s.freezes, audit.Freeze{WorkerID: w.id, From: from, To: time.Now().Add(time.Second)})
}

// failpointFired reports whether a failpoint of a worker acted.
func (w *worker) failpointFired() bool {
	text, _ := os.ReadFile(w.report)
	return strings.Contains(string(text), "acted")
}
