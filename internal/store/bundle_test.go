package store_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
	"rubato/internal/store"
)

const horizon = 10 * time.Second

// bundle is a migrated database of its own, with every store over it.
type bundle struct {
	db         *store.DB
	states     *store.States
	url        string
	pool       *pgxpool.Pool // for statements of the test's own
	endpoints  *store.Endpoints
	service    *endpoints.Service
	claims     *store.Claims
	executions *store.Executions
	runs       *store.Runs
	sweeps     *store.Sweeps
	bases      sync.Map  // by run: what its start read for its finish
	now        time.Time // as set; zero: the database's own
}

var tenant = endpoints.Actor{TenantID: store.DefaultTenant, Name: "tester"}

func setup(t *testing.T) *bundle {
	t.Helper()
	url := devpgtest.NewDatabase(t, devpgtest.Template{Key: store.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := store.MigrateUp(ctx, url)
		return err
	}})
	return open(t, url)
}

// open returns a bundle over a database that is there already.
func open(t *testing.T, url string) *bundle {
	t.Helper()
	db, err := store.Open(t.Context(), store.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	states := store.NewStates(db, 0)
	keeper := store.NewEndpoints(states)
	return &bundle{
		db: db, states: states, url: url, pool: pool, endpoints: keeper, service: endpoints.NewService(keeper, anyTarget{}), claims: store.NewClaims(db),
		executions: store.NewExecutions(states), runs: store.NewRuns(db), sweeps: store.NewSweeps(states),
	}
}

// anyTarget allows every URL and header.
type anyTarget struct{}

func (anyTarget) CheckURL(string) *errs.Field            { return nil }
func (anyTarget) CheckHeader(string, string) *errs.Field { return nil }

// at sets the database's time as the stores see it.
func (b *bundle) at(now time.Time) time.Time {
	store.SetNow(b.db, now)
	b.now = now
	return now
}

// noon returns an instant that the prepared days of history hold, so that tests can move both ways from it. It is tomorrow's: what was
// registered by the real clock is due then, at whatever hour the tests run.
func noon() time.Time { return time.Now().UTC().Truncate(24 * time.Hour).Add(36 * time.Hour) }

// exec runs a statement past the stores and returns how many rows it changed.
func (b *bundle) exec(t *testing.T, sql string, args ...any) int64 {
	t.Helper()
	tag, err := b.pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
	return tag.RowsAffected()
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

// register stores an endpoint with a one-minute interval, changed by edit.
func (b *bundle) register(t *testing.T, edit func(*endpoints.Spec)) *endpoints.Endpoint {
	t.Helper()
	spec := endpoints.Defaults()
	spec.Name, spec.URL, spec.BaselineInterval = "probe", "http://target.example/", time.Minute
	if edit != nil {
		edit(&spec)
	}
	e, _, err := b.service.Register(t.Context(), tenant, spec)
	require.NoError(t, err)
	return e
}

// stranger is another tenant, which has nothing.
func (b *bundle) stranger(t *testing.T) endpoints.Actor {
	t.Helper()
	other := endpoints.Actor{TenantID: [16]byte{15: 9}, Name: "stranger"}
	b.exec(t, "INSERT INTO tenants (id, name) VALUES ($1, 'another') ON CONFLICT DO NOTHING", other.TenantID)
	return other
}

// get reads an endpoint as it stands.
func (b *bundle) get(t *testing.T, id endpoints.ID) *endpoints.Endpoint {
	t.Helper()
	e, _, err := b.service.Get(t.Context(), tenant, id)
	require.NoError(t, err)
	return e
}

// worker is a claimant with an ID of its own.
type worker [16]byte

func (b *bundle) claim(t *testing.T, by worker, ahead time.Duration) []claims.Claim {
	t.Helper()
	return b.claimUpTo(t, by, 1000, ahead)
}

func (b *bundle) claimUpTo(t *testing.T, by worker, limit int, ahead time.Duration) []claims.Claim {
	t.Helper()
	list, now, err := b.claims.ClaimDue(t.Context(), claims.Request{Worker: by, Limit: limit, Horizon: ahead, LockTTL: time.Minute})
	require.NoError(t, err)
	require.False(t, now.IsZero())
	return list
}

// claimOne claims the one endpoint that is due.
func (b *bundle) claimOne(t *testing.T, by worker) claims.Claim {
	t.Helper()
	list := b.claim(t, by, horizon)
	require.Len(t, list, 1)
	return list[0]
}

func startsOf(list []claims.Claim) []dispatch.Start {
	starts := make([]dispatch.Start, len(list))
	for i, c := range list {
		starts[i] = dispatch.Start{Claim: c, TenantID: store.DefaultTenant, RunID: runs.NewID(c.Slot, c.EndpointID, c.Attempt, c.InfraAttempt), Execution: time.Minute}
	}
	return starts
}

func (b *bundle) start(t *testing.T, by worker, list ...claims.Claim) []dispatch.Started {
	t.Helper()
	started, err := b.executions.Start(t.Context(), dispatch.Starting{Worker: by, List: startsOf(list), LockTTL: time.Minute})
	require.NoError(t, err)
	for _, s := range started {
		b.bases.Store(s.RunID, s.Basis)
	}
	return started
}

// startOne claims and starts the one endpoint that is due.
func (b *bundle) startOne(t *testing.T, by worker) (claims.Claim, dispatch.Started) {
	t.Helper()
	c := b.claimOne(t, by)
	started := b.start(t, by, c)
	require.Len(t, started, 1)
	return c, started[0]
}

// succeed returns the finished run of a start.
func succeed(by worker, c claims.Claim, s dispatch.Started) runs.Run {
	return runs.Run{
		ID: s.RunID, EndpointID: c.EndpointID, TenantID: s.TenantID, ScheduledFor: c.Slot, Attempt: c.Attempt, InfraAttempt: c.InfraAttempt, Source: c.Source,
		ClaimToken: c.Token, WorkerID: by, StartedAt: s.StartedAt, FinishedAt: s.StartedAt.Add(time.Millisecond),
		Outcome: runs.Outcome{
			Status: runs.Succeeded, Reason: runs.HTTPStatus, StatusCode: 200, MaybeSent: true, Body: []byte("ok"), ContentType: "text/plain",
		},
	}
}

// fail returns the run of a start that the target answered with an error.
func fail(by worker, c claims.Claim, s dispatch.Started) runs.Run {
	run := succeed(by, c, s)
	run.Outcome = runs.Outcome{Status: runs.Failed, Reason: runs.HTTPStatus, StatusCode: 503, MaybeSent: true}
	return run
}

func (b *bundle) finish(t *testing.T, by worker, keep time.Duration, list ...runs.Run) dispatch.Finished {
	t.Helper()
	done, err := b.executions.Finish(t.Context(), b.finishOf(t, by, keep, list...))
	require.NoError(t, err)
	return done
}

// finishOf returns the finish of runs as a worker asks for it, with what their starts read.
func (b *bundle) finishOf(t *testing.T, by worker, keep time.Duration, list ...runs.Run) dispatch.Finish {
	t.Helper()
	f := dispatch.Finish{Worker: by, Runs: list, LockTTL: time.Minute, Now: query[time.Time](t, b, "SELECT clock_timestamp()")}
	if keep > 0 {
		f.Keep = dispatch.Keep{Within: keep, Most: len(list)}
	}
	if !b.now.IsZero() {
		f.Now = b.now
	}
	for _, run := range list {
		read, _ := b.bases.Load(run.ID)
		f.Bases = append(f.Bases, read)
	}
	return f
}

// runOne claims, starts and finishes the one endpoint that is due.
func (b *bundle) runOne(t *testing.T, by worker) runs.Run {
	t.Helper()
	c, s := b.startOne(t, by)
	run := succeed(by, c, s)
	require.Empty(t, b.finish(t, by, 0, run).Late)
	return run
}
