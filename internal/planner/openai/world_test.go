package openai_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/planner"
	"rubato/internal/planner/openai"
	"rubato/internal/planner/openai/openaitest"
	"rubato/internal/runs"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/items"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
	plannerstore "rubato/internal/store/planner"
	"rubato/internal/waittest"
)

// neighbour is a text of the second tenant, which no session of the first tenant may see.
const neighbour = "neighbour-canary"

// world is a real database with endpoints of two tenants, and planners with a scripted model
// service.
type world struct {
	db      *pg.DB
	pool    *pgxpool.Pool
	service *endpoints.Service
	model   *openaitest.Server
	rails   planner.Guardrails
	limits  plannerstore.Limits
	stop    []func()
}

var (
	first  = endpoints.Actor{TenantID: keystore.DefaultTenant, Name: "tester"}
	second = endpoints.Actor{TenantID: [16]byte{2}, Name: "tester next door"}
)

type anyTarget struct{}

func (anyTarget) CheckURL(string) *errs.Field            { return nil }
func (anyTarget) CheckHeader(string, string) *errs.Field { return nil }

func newWorld(t *testing.T, script openaitest.Script) *world {
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
	w := &world{
		db: db, pool: pool, service: endpoints.NewService(endpointstore.NewStore(endpointstore.NewStates(db, 0)), anyTarget{}), model: openaitest.New(t, script),
		rails: planner.DefaultGuardrails(), limits: plannerstore.Limits{Installation: 1 << 40, Tenant: 1 << 40, Endpoint: 1 << 40},
	}
	w.exec(t, "INSERT INTO tenants (id, name) VALUES ($1, 'next door')", second.TenantID)
	t.Cleanup(w.halt)
	return w
}

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := w.pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// rows returns the one column of a query.
func rows[T any](t *testing.T, w *world, sql string, args ...any) []T {
	t.Helper()
	found, err := w.pool.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	list, err := pgx.CollectRows(found, pgx.RowTo[T])
	require.NoError(t, err)
	return list
}

// register stores an endpoint that runs every minute, with clamps of 10 s and an hour, changed by
// edit.
func (w *world) register(t *testing.T, by endpoints.Actor, edit func(*endpoints.Spec)) *endpoints.Endpoint {
	t.Helper()
	spec := endpoints.Defaults()
	spec.Planner = endpoints.PlannerAct
	spec.Name, spec.URL, spec.BaselineInterval = "probe", "http://target.example/", time.Minute
	spec.MinInterval, spec.MaxInterval = 10*time.Second, time.Hour
	if edit != nil {
		edit(&spec)
	}
	e, _, err := w.service.Register(t.Context(), by, spec)
	require.NoError(t, err)
	return e
}

// reply is an answer of a target.
type reply struct {
	code        int
	body        string
	contentType string
}

// run runs every due endpoint once, answered by its target.
func (w *world) run(t *testing.T, answer func(endpoints.ID) reply) {
	t.Helper()
	me := [16]byte{9}
	executions := items.NewExecutions(endpointstore.NewStates(w.db, 0))
	list, _, err := items.NewClaims(w.db).ClaimDue(t.Context(), claims.Request{Worker: me, Limit: 1000, Horizon: time.Second, LockTTL: time.Minute})
	require.NoError(t, err)
	var starts []dispatch.Start
	for _, c := range list {
		tenant := rows[[16]byte](t, w, "SELECT tenant_id FROM endpoints WHERE id = $1", c.EndpointID)[0]
		starts = append(starts, dispatch.Start{Claim: c, TenantID: tenant, RunID: runs.NewID(c.Slot, c.EndpointID, c.Attempt, c.InfraAttempt), Execution: time.Minute})
	}
	started, err := executions.Start(t.Context(), dispatch.Starting{Worker: me, List: starts, LockTTL: time.Minute})
	require.NoError(t, err)
	require.Len(t, started, len(starts))
	var finished []runs.Run
	for i, s := range starts {
		at := slices.IndexFunc(started, func(one dispatch.Started) bool { return one.EndpointID == s.Claim.EndpointID })
		finished = append(finished, ended(s, started[at], answer(s.Claim.EndpointID)))
		finished[i].WorkerID = me
	}
	_, err = executions.Finish(t.Context(), dispatch.Finish{Worker: me, Runs: finished, LockTTL: time.Minute})
	require.NoError(t, err)
}

// ended returns the finished run of a start.
func ended(s dispatch.Start, started dispatch.Started, r reply) runs.Run {
	status := runs.Succeeded
	if r.code >= 400 {
		status = runs.Failed
	}
	return runs.Run{
		ID: s.RunID, EndpointID: s.Claim.EndpointID, TenantID: s.TenantID, ScheduledFor: s.Claim.Slot, Attempt: s.Claim.Attempt, Source: s.Claim.Source,
		ClaimToken: s.Claim.Token, StartedAt: started.StartedAt, FinishedAt: started.StartedAt.Add(5 * time.Millisecond),
		Outcome: runs.Outcome{
			Status: status, Reason: runs.HTTPStatus, StatusCode: r.code, MaybeSent: true, Body: []byte(r.body), ResponseBytes: int64(len(r.body)),
			ContentType: r.contentType, BodyDigest: runs.Digest([]byte(r.body)), Phases: runs.Phases{Wait: 5 * time.Millisecond},
		},
	}
}

// plan starts a planner with an advisor of its own, and returns the function that stops it.
func (w *world) plan(t *testing.T, change ...func(*openai.Config)) (stop func()) {
	t.Helper()
	config := openai.Config{BaseURL: w.model.URL(), Key: theKey, Model: "scripted-1", PromptPrice: 1, CompletionPrice: 4}
	for _, c := range change {
		c(&config)
	}
	registry := prometheus.NewRegistry()
	advisor, err := openai.New(config, plannerstore.NewBudget(w.db, w.limits), registry)
	require.NoError(t, err)
	p := planner.New(planner.Config{
		Advisor: advisor, Queue: plannerstore.NewQueue(endpointstore.NewStates(w.db, 0), planner.NewSessionID(), planner.LockDuration(time.Minute)),
		Evidence: plannerstore.NewEvidence(endpointstore.NewStates(w.db, 0)), Guardrails: w.rails, Slots: 4, Poll: 10 * time.Millisecond, Timeout: time.Minute,
		Grace: time.Second, Retention: time.Hour, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Registerer: registry,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	w.stop = append(w.stop, stop)
	return stop
}

// halt stops every planner.
func (w *world) halt() {
	for _, stop := range w.stop {
		stop()
	}
}

// await waits until a number of sessions is recorded.
func (w *world) await(t *testing.T, sessions int) {
	t.Helper()
	waittest.Until(t, func() bool {
		return rows[int](t, w, "SELECT count(*)::int FROM planner_sessions")[0] >= sessions
	})
}

// fixed returns the state that no planner may change, as text: configuration, keys and history, and
// of schedules the parts that runs and users decide.
func (w *world) fixed(t *testing.T) string {
	t.Helper()
	var all []string
	for _, sql := range []string{
		"SELECT e::text FROM endpoints e ORDER BY id", "SELECT t::text FROM tenants t ORDER BY id", "SELECT k::text FROM api_keys k ORDER BY id",
		"SELECT r::text FROM runs r ORDER BY id", "SELECT b::text FROM run_bodies b ORDER BY run_id",
		`SELECT (endpoint_id, version, lock_ms, failure_count, anchor, manual_at, retry_after, last_slot, last_status, last_started_at)::text
			FROM schedules ORDER BY endpoint_id`,
	} {
		all = append(all, rows[string](t, w, sql)...)
	}
	return strings.Join(all, "\n")
}

// outside returns the rows of all endpoints but the victims, with hints and schedules, as text.
func (w *world) outside(t *testing.T, victims []endpoints.ID) string {
	t.Helper()
	var all []string
	for _, sql := range []string{
		"SELECT s::text FROM schedules s WHERE endpoint_id <> ALL ($1) ORDER BY endpoint_id",
		"SELECT h::text FROM hints h WHERE endpoint_id <> ALL ($1) ORDER BY id",
		"SELECT g::text FROM planner_suggestions g WHERE endpoint_id <> ALL ($1) ORDER BY id",
	} {
		all = append(all, rows[string](t, w, sql, ids(victims))...)
	}
	return strings.Join(all, "\n")
}

func ids(list []endpoints.ID) [][16]byte {
	raw := make([][16]byte, len(list))
	for i, id := range list {
		raw[i] = id
	}
	return raw
}

// requireInsideTheRails requires that all changes in force for an endpoint lie within its clamps
// and the rails, and have an end.
func (w *world) requireInsideTheRails(t *testing.T) {
	t.Helper()
	for what, sql := range map[string]string{
		"an interval beyond clamps or step": `SELECT h::text FROM hints h WHERE kind = 'interval' AND interval_ms NOT BETWEEN 30000 AND 480000`,
		"a hint that lives too long":        `SELECT h::text FROM hints h WHERE expires_at > created_at + interval '24 hours'`,
		"a hint that is not the planner's":  `SELECT h::text FROM hints h WHERE author NOT LIKE 'planner:%'`,
		"a pause too long": `SELECT s::text FROM schedules s JOIN endpoints e ON e.id = s.endpoint_id
			WHERE s.paused_until > clock_timestamp() + interval '1 hour' AND e.name <> 'paused by a person'`,
		"a run before the clamp": `SELECT s::text FROM schedules s WHERE planned_at < last_started_at + interval '9 seconds'`,
		"a silence beyond the clamp": `SELECT s::text FROM schedules s JOIN endpoints e ON e.id = s.endpoint_id
			WHERE planned_at > last_started_at + interval '1 hour 1 second' AND e.name <> 'paused by a person'`,
		"a reason too long": `SELECT h::text FROM hints h WHERE length(reason) > 500`,
	} {
		require.Empty(t, rows[string](t, w, sql), what)
	}
}
