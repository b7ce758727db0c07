package store_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rubato/internal/claims"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
	"rubato/internal/store"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// bundle is a migrated database of its own, with every store over it.
type bundle struct {
	db         *store.DB
	url        string
	endpoints  *store.Endpoints
	service    *endpoints.Service
	claims     *store.Claims
	executions *store.Executions
	runs       *store.Runs
	sweeps     *store.Sweeps
}

var tenant = endpoints.Actor{TenantID: store.DefaultTenant, Name: "tester"}

func setup(t *testing.T) *bundle {
	t.Helper()
	url := devpgtest.NewDatabase(t, devpgtest.Template{Key: store.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := store.MigrateUp(ctx, url)
		return err
	}})
	db, err := store.Open(t.Context(), store.Config{URL: url, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	keeper := store.NewEndpoints(db)
	return &bundle{
		db: db, url: url, endpoints: keeper, service: endpoints.NewService(keeper, anyTarget{}), claims: store.NewClaims(db),
		executions: store.NewExecutions(db), runs: store.NewRuns(db), sweeps: store.NewSweeps(db),
	}
}

// anyTarget allows every URL and header.
type anyTarget struct{}

func (anyTarget) CheckURL(string) *errs.Field            { return nil }
func (anyTarget) CheckHeader(string, string) *errs.Field { return nil }

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

// worker is a claimant with an ID of its own.
type worker [16]byte

func (b *bundle) claim(t *testing.T, by worker, horizon time.Duration) []claims.Claim {
	t.Helper()
	list, now, err := b.claims.ClaimDue(t.Context(), claims.Request{Worker: by, Limit: 100, Horizon: horizon, LockTTL: time.Minute})
	require.NoError(t, err)
	require.False(t, now.IsZero())
	return list
}

func (b *bundle) start(t *testing.T, by worker, list ...claims.Claim) []dispatch.Started {
	t.Helper()
	starts := make([]dispatch.Start, len(list))
	for i, c := range list {
		starts[i] = dispatch.Start{Claim: c, RunID: runs.NewID(c.Slot, c.EndpointID, c.Attempt), Execution: time.Minute}
	}
	started, err := b.executions.Start(t.Context(), by, starts, time.Minute)
	require.NoError(t, err)
	return started
}

// succeed returns the finished run of a start.
func succeed(by worker, c claims.Claim, s dispatch.Started) runs.Run {
	return runs.Run{
		ID: s.RunID, EndpointID: c.EndpointID, TenantID: s.TenantID, ScheduledFor: c.Slot, Attempt: c.Attempt, Source: c.Source,
		ClaimToken: c.Token, WorkerID: by, StartedAt: s.StartedAt, FinishedAt: s.StartedAt.Add(time.Millisecond),
		Outcome: runs.Outcome{
			Status: runs.Succeeded, Reason: runs.HTTPStatus, StatusCode: 200, MaybeSent: true, Body: []byte("ok"), ContentType: "text/plain",
		},
	}
}

func (b *bundle) finish(t *testing.T, by worker, keep time.Duration, list ...runs.Run) dispatch.Finished {
	t.Helper()
	done, err := b.executions.Finish(t.Context(), dispatch.Finish{Worker: by, Runs: list, Keep: keep, LockTTL: time.Minute})
	require.NoError(t, err)
	return done
}

// TestARunFromClaimToFinish walks the main path once.
func TestARunFromClaimToFinish(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.register(t, nil)
	me := worker{1}

	list := b.claim(t, me, 10*time.Second)
	require.Len(t, list, 1)
	c := list[0]
	require.Equal(t, [16]byte(e.ID), c.EndpointID)
	require.Equal(t, int64(1), c.Token)
	require.Equal(t, e.State.Due.At, c.PlannedAt)
	require.Empty(t, b.claim(t, worker{2}, 10*time.Second), "what is claimed cannot be claimed again")

	started := b.start(t, me, c)
	require.Len(t, started, 1)
	live, err := b.runs.Get(t.Context(), tenant.TenantID, started[0].RunID)
	require.NoError(t, err)
	require.Equal(t, runs.Running, live.Outcome.Status)

	done := b.finish(t, me, 0, succeed(me, c, started[0]))
	require.Empty(t, done.Late)
	require.Empty(t, done.Kept)

	run, err := b.runs.Get(t.Context(), tenant.TenantID, started[0].RunID)
	require.NoError(t, err)
	require.Equal(t, runs.Succeeded, run.Outcome.Status)
	require.Equal(t, "ok", string(run.Outcome.Body))
	require.Equal(t, c.Slot.Add(time.Minute), run.Decision.NextRunAt)

	after, _, err := b.service.Get(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.Nil(t, after.State.Running)
	require.Equal(t, c.Slot.Add(time.Minute), after.State.Due.At)
	require.Equal(t, c.Slot, after.State.Anchor)
	decided, err := b.service.Explain(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.Equal(t, "finish", decided.Cause)
	require.Equal(t, after.State.Due.At, decided.Due.At)
}
