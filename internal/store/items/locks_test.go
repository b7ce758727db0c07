package items_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/notices"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/storetest"
	"rubato/internal/waittest"
)

// TestAStartNeedsItsTimeByTheDatabasesClock sets the database's clock back between a claim and its
// start.
func TestAStartNeedsItsTimeByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.StartAt = now })
	c := b.ClaimOne(t, storetest.Worker{1})
	b.At(now.Add(-51 * time.Millisecond))
	require.Empty(t, b.Start(t, storetest.Worker{1}, c))
	b.At(now.Add(-50 * time.Millisecond))
	require.Len(t, b.Start(t, storetest.Worker{1}, c), 1, "clocks may be off by a little")
	require.Equal(t, now, b.Run(t, runs.NewID(c.Slot, e.ID, 1, 0)).ScheduledFor)
}

// TestAReleaseWaitsForAStartInFlight holds a start just before its commit. The release must not
// free the claim of a starting run.
func TestAReleaseWaitsForAStartInFlight(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	c := b.ClaimOne(t, storetest.Worker{1})
	tx := b.InFlight(t, c.EndpointID)
	_, err := tx.Exec(t.Context(), "UPDATE schedules SET run_id = $1, started_at = now(), deadline_at = now() + interval '1 min'",
		[16]byte(runs.NewID(c.Slot, c.EndpointID, 1, 0)))
	require.NoError(t, err)
	released := make(chan int, 1)
	go func() {
		n, err := b.Claims.Release(t.Context(), storetest.Worker{1}, []claims.Claim{c})
		if err != nil {
			t.Error(err)
		}
		released <- n
	}()
	b.AwaitLockWait(t)
	require.NoError(t, tx.Commit(t.Context()))
	require.Zero(t, <-released)
	require.Equal(t, c.Token, storetest.Query[int64](t, b.Bundle, "SELECT claim_token FROM schedules"))
}

// TestAReleaseMayKeepAnEndpointFromBeingClaimedForAWhile releases a claim with a rest. Its due time
// does not move.
func TestAReleaseMayKeepAnEndpointFromBeingClaimedForAWhile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Fill(t, 1, now.Add(-time.Minute))
	c := b.ClaimOne(t, storetest.Worker{1})
	c.ReleaseDelay = 5 * time.Second
	n, err := b.Claims.Release(t.Context(), storetest.Worker{1}, []claims.Claim{c})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	b.At(now.Add(4999 * time.Millisecond))
	require.Empty(t, b.Claim(t, storetest.Worker{1}, 0))
	b.At(now.Add(5 * time.Second))
	again := b.Claim(t, storetest.Worker{1}, 0)
	require.Len(t, again, 1)
	require.Equal(t, c.PlannedAt, again[0].PlannedAt)
}

// TestRevokedClaimFreesNewDueTime releases a claim with a rest after a run now was requested.
func TestRevokedClaimFreesNewDueTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.StartAt = now.Add(8 * time.Second) })
	c := b.ClaimOne(t, storetest.Worker{1})
	queued, err := b.Service.RunNow(t.Context(), storetest.Tenant, e.ID, endpoints.OneOffRequest{})
	require.NoError(t, err)
	c.ReleaseDelay = 5 * time.Second
	n, err := b.Claims.Release(t.Context(), storetest.Worker{1}, []claims.Claim{c})
	require.NoError(t, err)
	require.Zero(t, n)
	list := b.Claim(t, storetest.Worker{2}, 0)
	require.Len(t, list, 1)
	require.Equal(t, queued.Slot, list[0].Slot)
}

// TestADelayedStartOfAReleasedClaimDoesNotStart is a start that the network held back until its
// worker had given up.
func TestADelayedStartOfAReleasedClaimDoesNotStart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	c := b.ClaimOne(t, storetest.Worker{1})
	n, err := b.Claims.Release(t.Context(), storetest.Worker{1}, []claims.Claim{c})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Empty(t, b.Start(t, storetest.Worker{1}, c))
	again := b.ClaimOne(t, storetest.Worker{1})
	require.Empty(t, b.Start(t, storetest.Worker{1}, c), "not even for the worker that has claimed it again")
	require.Len(t, b.Start(t, storetest.Worker{1}, again), 1)
}

func TestAWorkerFindsItsOwnStartsOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 3 {
		b.Register(t, nil)
	}
	list := b.Claim(t, storetest.Worker{1}, storetest.Horizon)
	require.Len(t, b.Start(t, storetest.Worker{1}, list[:2]...), 2)
	wrong := storetest.StartsOf(list)
	wrong[1].Claim.Token--
	found, err := b.Executions.LiveStarts(t.Context(), storetest.Worker{1}, wrong)
	require.NoError(t, err)
	require.Len(t, found, 1, "neither one under another token nor one that was not started")
	require.Equal(t, list[0].EndpointID, found[0].EndpointID)
	found, err = b.Executions.LiveStarts(t.Context(), storetest.Worker{2}, storetest.StartsOf(list))
	require.NoError(t, err)
	require.Empty(t, found)
}

func TestClaimReportsExpiredLock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	c := b.ClaimOne(t, storetest.Worker{1})
	require.False(t, c.Expired)
	b.At(c.LockedUntil)
	require.True(t, b.ClaimOne(t, storetest.Worker{2}).Expired)
}

// TestLocksOfAClockThatWasAheadAreBroughtBack grants locks, sets the clock back by an hour, and
// lets the sweeper look.
func TestLocksOfAClockThatWasAheadAreBroughtBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := storetest.Noon()
	back := b.At(now.Add(-time.Hour))
	waiting := b.Register(t, nil)
	running := b.Register(t, func(s *endpoints.Spec) { s.MaxExecutionTime = 10 * time.Minute })
	b.At(now)
	list := b.Claim(t, storetest.Worker{1}, storetest.Horizon)
	require.Len(t, list, 2)
	for _, c := range list {
		if endpoints.ID(c.EndpointID) == running.ID {
			starts := storetest.StartsOf([]claims.Claim{c})
			starts[0].Execution = 10 * time.Minute
			_, err := b.Executions.Start(t.Context(), dispatch.Starting{Worker: storetest.Worker{1}, List: starts, LockTTL: time.Minute})
			require.NoError(t, err)
		}
	}
	b.Beat(t, storetest.Worker{1}, "active", now)
	clamp := func() int {
		n, err := b.Sweeps.ClampRuns(t.Context(), time.Minute)
		require.NoError(t, err)
		m, err := b.Sweeps.ClampClaims(t.Context(), time.Minute, 100)
		require.NoError(t, err)
		return n + m
	}
	require.Zero(t, clamp(), "nothing lies ahead")
	b.At(now.Add(-4 * time.Second))
	require.Zero(t, clamp(), "a little is nothing")

	b.At(back)
	require.Equal(t, 3, clamp(), "a claim, a run, and a worker")
	require.Zero(t, clamp())
	at := func(sql string) time.Time { return storetest.Query[time.Time](t, b.Bundle, sql).UTC() }
	require.Equal(t, back.Add(time.Minute), storetest.Query[time.Time](t, b.Bundle, "SELECT due_at FROM schedules WHERE endpoint_id = $1", [16]byte(waiting.ID)).UTC())
	require.Equal(t, back.Add(time.Minute), at("SELECT locked_until FROM live_runs"))
	require.Equal(t, back.Add(10*time.Minute), at("SELECT deadline_at FROM live_runs"))
	require.Equal(t, back, at("SELECT heartbeat_at FROM workers"))
	b.At(back.Add(time.Minute))
	require.Len(t, b.Claim(t, storetest.Worker{2}, storetest.Horizon), 1, "and others can take the endpoint a lock later")
}

// TestATakeOverFollowsAClockThatWasAhead lets a worker be freed, the clock go back, and the worker
// come back and die again.
func TestATakeOverFollowsAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := storetest.Noon()
	back := b.At(now.Add(-time.Hour))
	b.Register(t, nil)
	b.At(now)
	b.ClaimOne(t, storetest.Worker{1})
	b.Beat(t, storetest.Worker{1}, "active", now.Add(-7*time.Second))
	takeOver := func() int {
		n, err := b.Sweeps.TakeOver(t.Context(), silent)
		require.NoError(t, err)
		return n
	}
	require.Equal(t, 1, takeOver())
	b.At(back)
	b.Beat(t, storetest.Worker{1}, "active", back)
	b.ClaimOne(t, storetest.Worker{1})
	b.At(back.Add(7 * time.Second))
	require.Equal(t, 1, takeOver())
}

func TestAStuckClaimIsFreed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Register(t, func(s *endpoints.Spec) { s.StartAt = now })
	b.Register(t, func(s *endpoints.Spec) { s.StartAt = now })
	list := b.Claim(t, storetest.Worker{1}, storetest.Horizon)
	require.Len(t, b.Start(t, storetest.Worker{1}, list[0]), 1)
	free := func() int {
		n, err := b.Sweeps.FreeStuck(t.Context(), 3*time.Minute, 100)
		require.NoError(t, err)
		return n
	}
	b.At(list[1].LockedUntil.Add(3 * time.Minute))
	require.Zero(t, free())
	b.At(list[1].LockedUntil.Add(3*time.Minute + time.Millisecond))
	require.Equal(t, 1, free(), "and nothing of the endpoint whose run is live")
	require.Zero(t, free())
	require.Equal(t, list[1].Token+1, storetest.Query[int64](t, b.Bundle, "SELECT claim_token FROM schedules WHERE claimed_by IS NULL"))
	require.Equal(t, now, storetest.Query[time.Time](t, b.Bundle, "SELECT due_at FROM schedules WHERE claimed_by IS NULL").UTC())
}

// TestHeartbeatsWaitForNoRowLock takes every ordinary connection with statements that stand still.
func TestHeartbeatsWaitForNoRowLock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	c, s := b.StartOne(t, storetest.Worker{1})
	tx, err := b.Pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE endpoints")
	require.NoError(t, err)
	const all = 10
	read := make(chan error, all)
	for range all {
		go func() {
			_, _, err := b.Service.List(t.Context(), endpoints.Filter{TenantID: storetest.Tenant.TenantID, Limit: 10})
			read <- err
		}()
	}
	waittest.Until(t, func() bool {
		return storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == all
	})

	ctx := waittest.Context(t)
	kept, _, err := b.Claims.ExtendLocks(ctx, storetest.Worker{1}, []claims.FencedRun{{EndpointID: c.EndpointID, RunID: s.RunID, Token: c.Token}}, time.Minute)
	require.NoError(t, err)
	require.Len(t, kept, 1)
	_, err = b.Executions.Beat(ctx, dispatch.Presence{ID: storetest.Worker{1}, Name: "host", Version: "v1", State: dispatch.Active, Slots: 4})
	require.NoError(t, err)
	_, err = b.Sweeps.Clock(ctx)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(t.Context()))
	for range all {
		require.NoError(t, <-read)
	}
}

// TestAVersionThatWasRaisedAloneKeepsNoRunFromItsEnd raises the version of an endpoint by hand
// while it runs.
func TestAVersionThatWasRaisedAloneKeepsNoRunFromItsEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Register(t, func(s *endpoints.Spec) { s.StartAt = now })
	c, s := b.StartOne(t, storetest.Worker{1})
	b.Exec(t, `UPDATE endpoints SET version = version + 1, spec = spec || '{"baselineIntervalMs": 5000, "maxExecutionTimeMs": 31000, "timeoutMs": 1000}'`)
	fresh := open(t, b.URL) // Another process: nothing is cached.
	fresh.At(now)
	require.Empty(t, fresh.Finish(t, storetest.Worker{1}, 0, storetest.Succeed(storetest.Worker{1}, c, s)).Late)
	require.Equal(t, now.Add(5*time.Second), storetest.Query[time.Time](t, b.Bundle, "SELECT planned_at FROM schedules").UTC())

	fresh.At(now.Add(5 * time.Second))
	void := fresh.ClaimOne(t, storetest.Worker{1})
	targets, err := open(t, b.URL).Executions.Targets(t.Context(), []claims.Claim{void})
	require.NoError(t, err)
	require.Empty(t, targets)
	require.Equal(t, 36000, storetest.Query[int](t, b.Bundle, "SELECT lock_ms FROM schedules"))
	again := fresh.ClaimOne(t, storetest.Worker{1})
	targets, err = fresh.Executions.Targets(t.Context(), []claims.Claim{again})
	require.NoError(t, err)
	require.Len(t, targets, 1)
	require.Empty(t, fresh.Start(t, storetest.Worker{1}, void))
	require.Len(t, fresh.Start(t, storetest.Worker{1}, again), 1)
}

// TestSweepsWalkTheDueIndex looks at the plans of the statements that are shipped, on a table of
// real size and by the database's own clock: one that is read anew for every row would make the
// index useless.
func TestSweepsWalkTheDueIndex(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Fill(t, 20_000, time.Now().Add(-time.Hour))
	b.Exec(t, "UPDATE schedules SET claimed_by = gen_random_uuid(), claim_token = claim_token + 1 WHERE due_at < now()")
	b.Exec(t, "UPDATE schedules SET due_at = now() + interval '1 min' WHERE due_at < now()")
	b.Exec(t, "ANALYZE schedules")
	q := dbsqlc.New()
	for name, of := range map[string]struct {
		index string
		ask   func(db dbsqlc.DBTX) error
	}{
		"TakeOver": {"schedules_held", func(db dbsqlc.DBTX) error {
			_, err := q.ScheduleListClaimed(t.Context(), db, dbsqlc.ScheduleListClaimedParams{WorkerID: [16]byte{1}, ReachMs: 71_000})
			return err
		}},
		"Lowest": {"schedules_held", func(db dbsqlc.DBTX) error {
			_, err := q.ScheduleLowestLock(t.Context(), db, dbsqlc.ScheduleLowestLockParams{FromAt: new(time.Now())})
			return err
		}},
		"Clamp": {"schedules_held", func(db dbsqlc.DBTX) error {
			_, err := q.RunClampLocks(t.Context(), db, dbsqlc.RunClampLocksParams{LockTtlMs: 60_000})
			return err
		}},
		"Lost": {"schedules_held", func(db dbsqlc.DBTX) error {
			_, err := q.RunListLost(t.Context(), db, dbsqlc.RunListLostParams{FromAt: new(time.Now()), MaxRows: 100, ExceptIds: [][16]byte{{1}}})
			return err
		}},
		"Live": {"schedules_held", func(db dbsqlc.DBTX) error {
			_, err := q.RunCountSilent(t.Context(), db, dbsqlc.RunCountSilentParams{FromAt: new(time.Now())})
			return err
		}},
		"Stuck": {"schedules_held", func(db dbsqlc.DBTX) error {
			_, err := q.ScheduleListStuck(t.Context(), db, dbsqlc.ScheduleListStuckParams{FromAt: new(time.Now()), StuckMs: 180_000, MaxRows: 100})
			return err
		}},
		"Suspended": {"schedules_suspended", func(db dbsqlc.DBTX) error {
			_, err := q.SuspendedListEnded(t.Context(), db, dbsqlc.SuspendedListEndedParams{ExceptIds: [][16]byte{{1}}, MaxRows: 100})
			return err
		}},
	} {
		plan, err := storetest.ExplainUncached(t.Context(), b.DB, of.ask)
		require.NoError(t, err, name)
		require.Regexp(t, of.index+`.*\n\s+Index Cond: \(.*due_at`, plan, name)
		require.NotContains(t, plan, "Seq Scan on schedules", name)
	}
}

// TestARuleThatEndsLocksEpisodesAsFinishesDo holds the first of two episodes, as a finish does that
// is about to close both. Every other order but that of their IDs says that the second goes first.
func TestARuleThatEndsLocksEpisodesAsFinishesDo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	keeper := b.PutRule(t, "failing", func(s *notices.Spec) { s.Failures = 1 })
	first, second := notices.EpisodeID{15: 1}, notices.EpisodeID{15: 2}
	for _, id := range []notices.EpisodeID{second, first} {
		b.Exec(t, `INSERT INTO notice_episodes (id, tenant_id, rule_id, rule, endpoint_id, event, opened_at, detail, remind_at, reminders)
			SELECT $1, tenant_id, id, name, $2, event, now(), '{}', 'infinity', 0 FROM notice_rules`, id, b.Register(t, nil).ID)
	}
	finish, err := b.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = finish.Rollback(context.WithoutCancel(t.Context())) }() // Where it was not committed, nothing may wait for it.
	_, err = finish.Exec(t.Context(), "SELECT FROM notice_episodes WHERE id = $1 FOR UPDATE", first)
	require.NoError(t, err)

	ended := make(chan error, 1)
	go func() { ended <- keeper.DeleteRule(t.Context(), storetest.Tenant, "failing", 0) }()
	b.AwaitLockWait(t)

	_, err = finish.Exec(t.Context(), "SELECT FROM notice_episodes WHERE id = $1 FOR UPDATE NOWAIT", second)
	require.NoError(t, err, "nobody holds what a finish needs while it waits for that finish")
	require.NoError(t, finish.Commit(t.Context()))
	require.NoError(t, <-ended)
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM notice_episodes WHERE closed_at IS NULL"))
}
