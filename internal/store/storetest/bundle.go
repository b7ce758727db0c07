// Package storetest gives tests a migrated database with every store over it.
package storetest

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
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/history"
	"rubato/internal/store/items"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
)

// Horizon is the horizon of claims.
const Horizon = 10 * time.Second

// Bundle is a migrated database of its own, with every store over it.
type Bundle struct {
	DB         *pg.DB
	States     *endpointstore.States
	URL        string
	Pool       *pgxpool.Pool // for statements of the test's own
	Endpoints  *endpointstore.Store
	Service    *endpoints.Service
	Claims     *items.Claims
	Executions *items.Executions
	Runs       *history.Runs
	Sweeps     *items.Sweeps
	bases      sync.Map  // by run: what its start read for its finish
	now        time.Time // as set; zero: the database's own
}

// Tenant is the actor of the default tenant.
var Tenant = endpoints.Actor{TenantID: keystore.DefaultTenant, Name: "tester"}

// Setup returns a bundle over a migrated database of its own.
func Setup(t *testing.T) *Bundle {
	t.Helper()
	url := devpgtest.NewDatabase(t, devpgtest.Template{Key: pg.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := pg.MigrateUp(ctx, url)
		return err
	}})
	return Open(t, url)
}

// Open returns a bundle over an existing database.
func Open(t *testing.T, url string) *Bundle {
	t.Helper()
	db, err := pg.Open(t.Context(), pg.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	states := endpointstore.NewStates(db, 0)
	keeper := endpointstore.NewStore(states)
	return &Bundle{
		DB:         db,
		States:     states,
		URL:        url,
		Pool:       pool,
		Endpoints:  keeper,
		Service:    endpoints.NewService(keeper, AnyTarget{}),
		Claims:     items.NewClaims(db),
		Executions: items.NewExecutions(states),
		Runs:       history.NewRuns(db),
		Sweeps:     items.NewSweeps(states),
	}
}

// AnyTarget allows every URL and header.
type AnyTarget struct{}

// CheckURL allows every URL.
func (AnyTarget) CheckURL(string) *errs.Field { return nil }

// CheckHeader allows every header.
func (AnyTarget) CheckHeader(string, string) *errs.Field { return nil }

// At sets the database's time as the stores see it.
func (b *Bundle) At(now time.Time) time.Time {
	SetNow(b.DB, now)
	b.now = now
	return now
}

// Noon returns an instant that the prepared days of history hold, so that tests can move both ways
// from it. It is tomorrow's noon, because endpoints that were registered by the real clock are due
// then at any hour of the tests.
func Noon() time.Time { return time.Now().UTC().Truncate(24 * time.Hour).Add(36 * time.Hour) }

// Exec runs a statement that bypasses the stores and returns the number of changed rows.
func (b *Bundle) Exec(t *testing.T, sql string, args ...any) int64 {
	t.Helper()
	tag, err := b.Pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
	return tag.RowsAffected()
}

// Query returns the single value of a query that bypasses the stores.
func Query[T any](t *testing.T, b *Bundle, sql string, args ...any) T {
	t.Helper()
	rows, err := b.Pool.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(t, err)
	return value
}

// Register stores an endpoint with a one-minute interval, changed by edit.
func (b *Bundle) Register(t *testing.T, edit func(*endpoints.Spec)) *endpoints.Endpoint {
	t.Helper()
	spec := endpoints.Defaults()
	spec.Name, spec.URL, spec.BaselineInterval = "probe", "http://target.example/", time.Minute
	if edit != nil {
		edit(&spec)
	}
	e, _, err := b.Service.Register(t.Context(), Tenant, spec)
	require.NoError(t, err)
	return e
}

// OtherTenant creates a second tenant, which owns nothing.
func (b *Bundle) OtherTenant(t *testing.T) endpoints.Actor {
	t.Helper()
	other := endpoints.Actor{TenantID: [16]byte{15: 9}, Name: "stranger"}
	b.Exec(t, "INSERT INTO tenants (id, name) VALUES ($1, 'another') ON CONFLICT DO NOTHING", other.TenantID)
	return other
}

// Get reads an endpoint as it stands.
func (b *Bundle) Get(t *testing.T, id endpoints.ID) *endpoints.Endpoint {
	t.Helper()
	e, _, err := b.Service.Get(t.Context(), Tenant, id)
	require.NoError(t, err)
	return e
}

// Worker is a claimant with an ID of its own.
type Worker [16]byte

// Claim claims all endpoints that are due within ahead.
func (b *Bundle) Claim(t *testing.T, by Worker, ahead time.Duration) []claims.Claim {
	t.Helper()
	return b.ClaimUpTo(t, by, 1000, ahead)
}

// ClaimUpTo is Claim with a limit.
func (b *Bundle) ClaimUpTo(t *testing.T, by Worker, limit int, ahead time.Duration) []claims.Claim {
	t.Helper()
	list, now, err := b.Claims.ClaimDue(t.Context(), claims.Request{
		Worker:  by,
		Limit:   limit,
		Horizon: ahead,
		LockTTL: time.Minute,
	})
	require.NoError(t, err)
	require.False(t, now.IsZero())
	return list
}

// ClaimOne claims the one endpoint that is due.
func (b *Bundle) ClaimOne(t *testing.T, by Worker) claims.Claim {
	t.Helper()
	list := b.Claim(t, by, Horizon)
	require.Len(t, list, 1)
	return list[0]
}

// StartsOf returns the starts of claims, with a minute for each run.
func StartsOf(list []claims.Claim) []dispatch.Start {
	starts := make([]dispatch.Start, len(list))
	for i, c := range list {
		starts[i] = dispatch.Start{
			Claim:     c,
			TenantID:  keystore.DefaultTenant,
			RunID:     runs.NewID(c.Slot, c.Endpoint(), c.Attempt, c.InfraAttempt),
			Execution: time.Minute,
		}
	}
	return starts
}

// Start starts the runs of claims and remembers the basis of each.
func (b *Bundle) Start(t *testing.T, by Worker, list ...claims.Claim) []dispatch.Started {
	t.Helper()
	started, err := b.Executions.Start(t.Context(), dispatch.Starting{
		Worker:  by,
		List:    StartsOf(list),
		LockTTL: time.Minute,
	})
	require.NoError(t, err)
	for _, s := range started {
		b.bases.Store(s.RunID, s.Basis)
	}
	return started
}

// StartOne claims and starts the one endpoint that is due.
func (b *Bundle) StartOne(t *testing.T, by Worker) (claims.Claim, dispatch.Started) {
	t.Helper()
	c := b.ClaimOne(t, by)
	started := b.Start(t, by, c)
	require.Len(t, started, 1)
	return c, started[0]
}

// Succeed returns the finished run of a start.
func Succeed(by Worker, c claims.Claim, s dispatch.Started) runs.Run {
	return runs.Run{
		ID:           s.RunID,
		EndpointID:   c.Endpoint(),
		ItemID:       c.ItemID(),
		TenantID:     s.TenantID,
		ScheduledFor: c.Slot,
		Attempt:      c.Attempt,
		InfraAttempt: c.InfraAttempt,
		Source:       c.Source,
		ClaimToken:   c.Token,
		WorkerID:     by,
		StartedAt:    s.StartedAt,
		FinishedAt:   s.StartedAt.Add(time.Millisecond),
		Outcome: runs.Outcome{
			Status:      runs.Succeeded,
			Reason:      runs.HTTPStatus,
			StatusCode:  200,
			MaybeSent:   true,
			Body:        []byte("ok"),
			ContentType: "text/plain",
		},
	}
}

// Fail returns the run of a start that the target answered with an error.
func Fail(by Worker, c claims.Claim, s dispatch.Started) runs.Run {
	run := Succeed(by, c, s)
	run.Outcome = runs.Outcome{
		Status:     runs.Failed,
		Reason:     runs.HTTPStatus,
		StatusCode: 503,
		MaybeSent:  true,
	}
	return run
}

// Finish records runs, and requires success.
func (b *Bundle) Finish(t *testing.T, by Worker, keep time.Duration, list ...runs.Run) dispatch.Finished {
	t.Helper()
	done, err := b.Executions.Finish(t.Context(), b.FinishOf(t, by, keep, list...))
	require.NoError(t, err)
	return done
}

// FinishOf returns the finish of runs as a worker asks for it, with what their starts read.
func (b *Bundle) FinishOf(t *testing.T, by Worker, keep time.Duration, list ...runs.Run) dispatch.Finish {
	t.Helper()
	f := dispatch.Finish{
		Worker:  by,
		Runs:    list,
		LockTTL: time.Minute,
		Now:     Query[time.Time](t, b, "SELECT clock_timestamp()"),
	}
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

// RunOne claims, starts and finishes the one endpoint that is due.
func (b *Bundle) RunOne(t *testing.T, by Worker) runs.Run {
	t.Helper()
	c, s := b.StartOne(t, by)
	run := Succeed(by, c, s)
	require.Empty(t, b.Finish(t, by, 0, run).Late)
	return run
}
