package zombie_test

import (
	"context"
	"sync/atomic"
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
	"rubato/internal/store/items"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
	"rubato/internal/waittest"
	"rubato/internal/zombie"
)

// world is a database with a clock that the test moves, and a worker with one live run and one
// waiting claim.
type world struct {
	*endpoints.Service
	clock      atomic.Pointer[time.Time]
	pool       *pgxpool.Pool
	sweeps     *items.Sweeps
	claims     *items.Claims
	executions *items.Executions
	began      time.Time
	run        dispatch.Started
	token      int64
}

var (
	tenant = endpoints.Actor{TenantID: keystore.DefaultTenant, Name: "tester"}
	dead   = [16]byte{1}
)

// anyTarget allows every URL and header.
type anyTarget struct{}

func (anyTarget) CheckURL(string) *errs.Field            { return nil }
func (anyTarget) CheckHeader(string, string) *errs.Field { return nil }

func (w *world) at(since time.Duration) { w.clock.Store(new(w.began.Add(since))) }

// setup returns a world. Its run has a limit of 10 minutes and a lock of one.
func setup(t *testing.T) *world {
	t.Helper()
	return setupFor(t, 10*time.Minute)
}

// setupFor registers one endpoint that is due and one that is due in 5 s, lets a worker claim both
// and start the first.
func setupFor(t *testing.T, limit time.Duration) *world {
	t.Helper()
	url := devpgtest.NewDatabase(t, devpgtest.Template{Key: pg.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := pg.MigrateUp(ctx, url)
		return err
	}})
	w := &world{began: time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour)}
	w.at(0)
	db, err := pg.Open(t.Context(), pg.Config{URL: url, Now: func() time.Time { return *w.clock.Load() }})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	w.pool, err = pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(w.pool.Close)
	w.Service = endpoints.NewService(endpointstore.NewStore(endpointstore.NewStates(db, 0)), anyTarget{})
	w.sweeps, w.claims, w.executions = items.NewSweeps(endpointstore.NewStates(db, 0)), items.NewClaims(db), items.NewExecutions(endpointstore.NewStates(db, 0))
	for _, later := range []time.Duration{0, 5 * time.Second} {
		spec := endpoints.Defaults()
		spec.Name, spec.URL, spec.BaselineInterval = "probe", "http://target.example/", time.Hour
		spec.MaxExecutionTime, spec.Retry.MaxAttempts = limit, 2
		spec.Timeout = min(spec.Timeout, limit)
		spec.StartAt = w.began.Add(later)
		_, _, err := w.Register(t.Context(), tenant, spec)
		require.NoError(t, err)
	}
	w.beat(t, "active")
	list := w.claim(t, dead)
	require.Len(t, list, 2)
	first := list[0]
	if list[1].PlannedAt.Before(first.PlannedAt) {
		first = list[1]
	}
	started, err := w.executions.Start(t.Context(), dispatch.Starting{Worker: dead, LockTTL: time.Minute, List: []dispatch.Start{{
		Claim: first, TenantID: keystore.DefaultTenant, RunID: runs.NewID(first.Slot, first.EndpointID, 1, 0), Execution: limit,
	}}})
	require.NoError(t, err)
	require.Len(t, started, 1)
	w.run, w.token = started[0], first.Token
	return w
}

func (w *world) claim(t *testing.T, by [16]byte) []claims.Claim {
	t.Helper()
	list, _, err := w.claims.ClaimDue(t.Context(), claims.Request{Worker: by, Limit: 10, Horizon: 10 * time.Second, LockTTL: time.Minute})
	require.NoError(t, err)
	return list
}

func (w *world) beat(t *testing.T, state dispatch.State) {
	t.Helper()
	_, err := w.executions.Beat(t.Context(), dispatch.Presence{ID: dead, Name: "host", Version: "v1", State: state, Slots: 4})
	require.NoError(t, err)
}

func (w *world) heartbeat(t *testing.T) {
	t.Helper()
	kept, _, err := w.claims.ExtendLocks(t.Context(), dead, []claims.FencedRun{{EndpointID: w.run.EndpointID, RunID: w.run.RunID, Token: w.token}}, time.Minute)
	require.NoError(t, err)
	require.Len(t, kept, 1)
}

func (w *world) count(t *testing.T, sql string) int {
	t.Helper()
	rows, err := w.pool.Query(t.Context(), sql)
	require.NoError(t, err)
	n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	require.NoError(t, err)
	return n
}

// passCounter counts what reaches the store, so that a test can wait for whole passCounter.
type passCounter struct {
	*items.Sweeps
	listed atomic.Int32
	freed  atomic.Int32
}

func (p *passCounter) FreeStuck(ctx context.Context, over time.Duration, limit int) (int, error) {
	defer p.listed.Add(1) // The last sweep of every pass.
	return p.Sweeps.FreeStuck(ctx, over, limit)
}

func (p *passCounter) TakeOver(ctx context.Context, q zombie.TakeOverFilter) (int, error) {
	n, err := p.Sweeps.TakeOver(ctx, q)
	p.freed.Add(int32(n))
	return n, err
}

// more waits for so many more passes.
func (p *passCounter) more(t *testing.T, n int32) {
	t.Helper()
	want := p.listed.Load() + n
	waittest.Until(t, func() bool { return p.listed.Load() >= want })
}

// TestADeadWorkersWorkIsTakenUp follows the time after a worker's death: first its waiting claim
// comes free, later its run is lost.
func TestADeadWorkersWorkIsTakenUp(t *testing.T) {
	t.Parallel()
	w := setup(t)
	store := &passCounter{Sweeps: w.sweeps}
	w.at(6*time.Second + time.Millisecond)
	s := sweep(t, store, 5*time.Millisecond, time.Nanosecond)
	defer s.stop()
	store.more(t, 1)
	require.EqualValues(t, 1, store.freed.Load(), "the claim that it never started, with the first pass")
	require.Len(t, w.claim(t, [16]byte{2}), 1)

	for _, since := range []time.Duration{59 * time.Second, 61 * time.Second, 89 * time.Second} {
		w.at(since)
		store.more(t, 3)
		require.Equal(t, 1, w.count(t, "SELECT count(*) FROM live_runs"), "after %s", since)
	}
	w.at(91 * time.Second)
	store.more(t, 3)
	require.Zero(t, w.count(t, "SELECT count(*) FROM live_runs"))
	require.Equal(t, 1, w.count(t, "SELECT count(*) FROM runs WHERE status = 'lost' AND reason_code = 'worker_lost'"))
	require.InDelta(t, 1, s.value(t, "rubato_zombie_settled_total", ""), 0)
	e, _, err := w.Get(t.Context(), tenant, w.run.EndpointID)
	require.NoError(t, err)
	require.Equal(t, 1, e.State.Due.Attempt)
	require.Equal(t, 1, e.State.Due.InfraAttempt, "a GET may be sent again")
	require.Equal(t, w.began, e.State.Due.Slot)
	require.Zero(t, e.State.FailureCount)
}

func TestALiveLockIsNeverSettled(t *testing.T) {
	t.Parallel()
	w := setup(t)
	store := &passCounter{Sweeps: w.sweeps}
	s := sweep(t, store, time.Millisecond, time.Nanosecond)
	defer s.stop()
	for since := 9 * time.Second; since < 9*time.Minute; since += 9 * time.Second { // Steps that a sweep under way does not notice.
		w.at(since)
		w.heartbeat(t) // It speaks for its run, and its row falls silent.
		store.more(t, 2)
		require.Equal(t, 1, w.count(t, "SELECT count(*) FROM live_runs"), "after %s", since)
	}
	require.Zero(t, w.count(t, "SELECT count(*) FROM runs"))
}

// TestAfterAnOutageSilenceSettlesNothing restores the database after an outage of ten minutes, in
// which no worker could send a heartbeat.
func TestAfterAnOutageSilenceSettlesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.at(9 * time.Minute)
	store := &passCounter{Sweeps: w.sweeps}
	s := sweep(t, store, time.Millisecond, time.Hour)
	defer s.stop()
	store.more(t, 5)
	require.Equal(t, 1, w.count(t, "SELECT count(*) FROM live_runs"))

	w.beat(t, "active") // It was alive all the time.
	store.more(t, 5)
	require.Equal(t, 1, w.count(t, "SELECT count(*) FROM live_runs"))
	require.Equal(t, 1, w.count(t, "SELECT count(*) FROM workers WHERE state = 'active'"))
	done, err := w.executions.Finish(t.Context(), dispatch.Finish{Worker: dead, LockTTL: time.Minute, Runs: []runs.Run{{
		ID: w.run.RunID, EndpointID: w.run.EndpointID, TenantID: w.run.TenantID, ScheduledFor: w.began, Attempt: 1, Source: "baseline-interval",
		ClaimToken: w.token, WorkerID: dead, StartedAt: w.run.StartedAt, FinishedAt: w.began.Add(9 * time.Minute),
		Outcome: runs.Outcome{Status: runs.Succeeded, Reason: runs.HTTPStatus, StatusCode: 200},
	}}})
	require.NoError(t, err)
	require.Empty(t, done.Late, "and its answer counts")
}

func TestDeadlineSettlesWithoutTrustInSilence(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.at(10*time.Minute + 5*time.Second + time.Millisecond)
	w.beat(t, "active")
	store := &passCounter{Sweeps: w.sweeps}
	one, other := sweep(t, store, time.Millisecond, time.Hour), sweep(t, store, time.Millisecond, time.Hour)
	store.more(t, 5)
	one.stop()
	other.stop()
	require.Zero(t, w.count(t, "SELECT count(*) FROM live_runs"))
	require.Equal(t, 1, w.count(t, "SELECT count(*) FROM runs"))
	require.InDelta(t, 1, one.value(t, "rubato_zombie_settled_total", "")+other.value(t, "rubato_zombie_settled_total", ""), 0, "once, by one of the two")
}

// TestLostRunsAreSettledInTheTimesThatAreStated lets the time go on by seconds after a worker's
// death. A sweep comes every 10 s, so a run must be open to settlement 10 s before the time that is
// stated.
func TestLostRunsAreSettledInTheTimesThatAreStated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ limit, stated time.Duration }{
		"TenSeconds":  {10 * time.Second, 30 * time.Second},
		"ThirtySeven": {37 * time.Second, 57 * time.Second},
		"AMinute":     {time.Minute, 80 * time.Second},
		"TenMinutes":  {10 * time.Minute, 105 * time.Second},
		"HalfAnHour":  {30 * time.Minute, 105 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setupFor(t, tc.limit)
			store := &passCounter{Sweeps: w.sweeps}
			s := sweep(t, store, time.Millisecond, time.Nanosecond)
			defer s.stop()
			for since := time.Second; since <= tc.stated-interval; since += time.Second {
				w.at(since)
				store.more(t, 2)
				if w.count(t, "SELECT count(*) FROM live_runs") == 0 {
					require.Greater(t, since, min(tc.limit, time.Minute), "no lock was ended early")
					return
				}
			}
			t.Fatalf("the run is live %s after its start", tc.stated-interval)
		})
	}
}

// TestAClockThatWasSetBackHoldsNothingUp sets it back by an hour under a dead worker's claim and
// run: both come free in the times after a sweep that hold for locks that were granted now.
func TestAClockThatWasSetBackHoldsNothingUp(t *testing.T) {
	t.Parallel()
	w := setup(t)
	store := &passCounter{Sweeps: w.sweeps}
	s := sweep(t, store, time.Millisecond, time.Nanosecond)
	defer s.stop()
	store.more(t, 1)
	w.at(-time.Hour)
	store.more(t, 2)
	require.Positive(t, s.value(t, "rubato_zombie_locks_clamped_total", ""))
	w.at(-time.Hour + 91*time.Second)
	store.more(t, 3)
	require.Zero(t, w.count(t, "SELECT count(*) FROM live_runs"))
	require.Equal(t, 1, w.count(t, "SELECT count(*) FROM runs WHERE status = 'lost'"))
}
