package store_test

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
	"rubato/internal/store"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/waittest"
)

// TestAStartNeedsItsTimeByTheDatabasesClock sets the database's clock back between a claim and its start.
func TestAStartNeedsItsTimeByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.at(noon())
	e := b.register(t, func(s *endpoints.Spec) { s.StartAt = now })
	c := b.claimOne(t, worker{1})
	b.at(now.Add(-51 * time.Millisecond))
	require.Empty(t, b.start(t, worker{1}, c))
	b.at(now.Add(-50 * time.Millisecond))
	require.Len(t, b.start(t, worker{1}, c), 1, "clocks may be off by a little")
	require.Equal(t, now, b.run(t, runs.NewID(c.Slot, e.ID, 1, 0)).ScheduledFor)
}

// TestAReleaseWaitsForAStartInFlight holds a start just before its commit: the release must not free what is coming to life.
func TestAReleaseWaitsForAStartInFlight(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.register(t, nil)
	c := b.claimOne(t, worker{1})
	tx := b.inFlight(t, c.EndpointID)
	_, err := tx.Exec(t.Context(), "UPDATE schedules SET run_id = $1, started_at = now(), deadline_at = now() + interval '1 min'",
		[16]byte(runs.NewID(c.Slot, c.EndpointID, 1, 0)))
	require.NoError(t, err)
	released := make(chan int, 1)
	go func() {
		n, err := b.claims.Release(t.Context(), worker{1}, []claims.Claim{c})
		if err != nil {
			t.Error(err)
		}
		released <- n
	}()
	b.awaitLockWait(t)
	require.NoError(t, tx.Commit(t.Context()))
	require.Zero(t, <-released)
	require.Equal(t, c.Token, query[int64](t, b, "SELECT claim_token FROM schedules"))
}

// TestAReleaseMayKeepAnEndpointFromBeingClaimedForAWhile gives a claim back with a rest. What it stands for does not move.
func TestAReleaseMayKeepAnEndpointFromBeingClaimedForAWhile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.at(noon())
	b.fill(t, 1, now.Add(-time.Minute))
	c := b.claimOne(t, worker{1})
	c.Rest = 5 * time.Second
	n, err := b.claims.Release(t.Context(), worker{1}, []claims.Claim{c})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	b.at(now.Add(4999 * time.Millisecond))
	require.Empty(t, b.claim(t, worker{1}, 0))
	b.at(now.Add(5 * time.Second))
	again := b.claim(t, worker{1}, 0)
	require.Len(t, again, 1)
	require.Equal(t, c.PlannedAt, again[0].PlannedAt)
}

// TestARevokedClaimKeepsNobodyFromTheNewPlan gives a claim back with a rest after somebody has asked for a run now.
func TestARevokedClaimKeepsNobodyFromTheNewPlan(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.at(noon())
	e := b.register(t, func(s *endpoints.Spec) { s.StartAt = now.Add(8 * time.Second) })
	c := b.claimOne(t, worker{1})
	queued, err := b.service.RunNow(t.Context(), tenant, e.ID, endpoints.OneOffRequest{})
	require.NoError(t, err)
	c.Rest = 5 * time.Second
	n, err := b.claims.Release(t.Context(), worker{1}, []claims.Claim{c})
	require.NoError(t, err)
	require.Zero(t, n)
	list := b.claim(t, worker{2}, 0)
	require.Len(t, list, 1)
	require.Equal(t, queued.Slot, list[0].Slot)
}

// TestADelayedStartOfAReleasedClaimDoesNotStart is a start that the network held back until its worker had given up.
func TestADelayedStartOfAReleasedClaimDoesNotStart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.register(t, nil)
	c := b.claimOne(t, worker{1})
	n, err := b.claims.Release(t.Context(), worker{1}, []claims.Claim{c})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Empty(t, b.start(t, worker{1}, c))
	again := b.claimOne(t, worker{1})
	require.Empty(t, b.start(t, worker{1}, c), "not even for the worker that has claimed it again")
	require.Len(t, b.start(t, worker{1}, again), 1)
}

func TestAWorkerFindsItsOwnStartsOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 3 {
		b.register(t, nil)
	}
	list := b.claim(t, worker{1}, horizon)
	require.Len(t, b.start(t, worker{1}, list[:2]...), 2)
	wrong := startsOf(list)
	wrong[1].Claim.Token--
	found, err := b.executions.Own(t.Context(), worker{1}, wrong)
	require.NoError(t, err)
	require.Len(t, found, 1, "neither one under another token nor one that was not started")
	require.Equal(t, list[0].EndpointID, found[0].EndpointID)
	found, err = b.executions.Own(t.Context(), worker{2}, startsOf(list))
	require.NoError(t, err)
	require.Empty(t, found)
}

func TestAClaimTellsThatTheLockBeforeItWasOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.register(t, nil)
	c := b.claimOne(t, worker{1})
	require.False(t, c.Expired)
	b.at(c.LockedUntil)
	require.True(t, b.claimOne(t, worker{2}).Expired)
}

// TestLocksOfAClockThatWasAheadAreBroughtBack grants locks, sets the clock back by an hour, and lets the sweeper look.
func TestLocksOfAClockThatWasAheadAreBroughtBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := noon()
	back := b.at(now.Add(-time.Hour))
	waiting := b.register(t, nil)
	running := b.register(t, func(s *endpoints.Spec) { s.MaxExecutionTime = 10 * time.Minute })
	b.at(now)
	list := b.claim(t, worker{1}, horizon)
	require.Len(t, list, 2)
	for _, c := range list {
		if endpoints.ID(c.EndpointID) == running.ID {
			starts := startsOf([]claims.Claim{c})
			starts[0].Execution = 10 * time.Minute
			_, err := b.executions.Start(t.Context(), dispatch.Starting{Worker: worker{1}, List: starts, LockTTL: time.Minute})
			require.NoError(t, err)
		}
	}
	b.beat(t, worker{1}, "active", now)
	clamp := func() int {
		n, err := b.sweeps.ClampRuns(t.Context(), time.Minute)
		require.NoError(t, err)
		m, err := b.sweeps.ClampClaims(t.Context(), time.Minute, 100)
		require.NoError(t, err)
		return n + m
	}
	require.Zero(t, clamp(), "nothing lies ahead")
	b.at(now.Add(-4 * time.Second))
	require.Zero(t, clamp(), "a little is nothing")

	b.at(back)
	require.Equal(t, 3, clamp(), "a claim, a run, and a worker")
	require.Zero(t, clamp())
	at := func(sql string) time.Time { return query[time.Time](t, b, sql).UTC() }
	require.Equal(t, back.Add(time.Minute), query[time.Time](t, b, "SELECT due_at FROM schedules WHERE endpoint_id = $1", [16]byte(waiting.ID)).UTC())
	require.Equal(t, back.Add(time.Minute), at("SELECT locked_until FROM live_runs"))
	require.Equal(t, back.Add(10*time.Minute), at("SELECT deadline_at FROM live_runs"))
	require.Equal(t, back, at("SELECT heartbeat_at FROM workers"))
	b.at(back.Add(time.Minute))
	require.Len(t, b.claim(t, worker{2}, horizon), 1, "and others can take the endpoint a lock later")
}

// TestATakeOverFollowsAClockThatWasAhead lets a worker be freed, the clock go back, and the worker come back and die again.
func TestATakeOverFollowsAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := noon()
	back := b.at(now.Add(-time.Hour))
	b.register(t, nil)
	b.at(now)
	b.claimOne(t, worker{1})
	b.beat(t, worker{1}, "active", now.Add(-7*time.Second))
	takeOver := func() int {
		n, err := b.sweeps.TakeOver(t.Context(), silent)
		require.NoError(t, err)
		return n
	}
	require.Equal(t, 1, takeOver())
	b.at(back)
	b.beat(t, worker{1}, "active", back)
	b.claimOne(t, worker{1})
	b.at(back.Add(7 * time.Second))
	require.Equal(t, 1, takeOver())
}

func TestAStuckClaimIsFreed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.at(noon())
	b.register(t, func(s *endpoints.Spec) { s.StartAt = now })
	b.register(t, func(s *endpoints.Spec) { s.StartAt = now })
	list := b.claim(t, worker{1}, horizon)
	require.Len(t, b.start(t, worker{1}, list[0]), 1)
	free := func() int {
		n, err := b.sweeps.FreeStuck(t.Context(), 3*time.Minute, 100)
		require.NoError(t, err)
		return n
	}
	b.at(list[1].LockedUntil.Add(3 * time.Minute))
	require.Zero(t, free())
	b.at(list[1].LockedUntil.Add(3*time.Minute + time.Millisecond))
	require.Equal(t, 1, free(), "and nothing of the endpoint whose run is live")
	require.Zero(t, free())
	require.Equal(t, list[1].Token+1, query[int64](t, b, "SELECT claim_token FROM schedules WHERE claimed_by IS NULL"))
	require.Equal(t, now, query[time.Time](t, b, "SELECT due_at FROM schedules WHERE claimed_by IS NULL").UTC())
}

// TestSignsOfLifeWaitForNobody takes every ordinary connection with statements that stand still.
func TestSignsOfLifeWaitForNobody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.register(t, nil)
	c, s := b.startOne(t, worker{1})
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE endpoints")
	require.NoError(t, err)
	const all = 10
	read := make(chan error, all)
	for range all {
		go func() {
			_, _, err := b.service.List(t.Context(), endpoints.Filter{TenantID: tenant.TenantID, Limit: 10})
			read <- err
		}()
	}
	waittest.Until(t, func() bool {
		return query[int](t, b, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == all
	})

	ctx := waittest.Context(t)
	kept, _, err := b.claims.ExtendLocks(ctx, worker{1}, []claims.Held{{EndpointID: c.EndpointID, RunID: s.RunID, Token: c.Token}}, time.Minute)
	require.NoError(t, err)
	require.Len(t, kept, 1)
	require.NoError(t, b.executions.Beat(ctx, dispatch.Presence{ID: worker{1}, Name: "host", Version: "v1", State: dispatch.Active, Slots: 4}))
	_, err = b.sweeps.Clock(ctx)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(t.Context()))
	for range all {
		require.NoError(t, <-read)
	}
}

// TestAVersionThatWasRaisedAloneKeepsNoRunFromItsEnd raises the version of an endpoint by hand while it runs.
func TestAVersionThatWasRaisedAloneKeepsNoRunFromItsEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.at(noon())
	b.register(t, func(s *endpoints.Spec) { s.StartAt = now })
	c, s := b.startOne(t, worker{1})
	b.exec(t, `UPDATE endpoints SET version = version + 1, spec = spec || '{"baselineIntervalMs": 5000, "maxExecutionTimeMs": 31000, "timeoutMs": 1000}'`)
	fresh := open(t, b.url) // Another process: nothing is cached.
	fresh.at(now)
	require.Empty(t, fresh.finish(t, worker{1}, 0, succeed(worker{1}, c, s)).Late)
	require.Equal(t, now.Add(5*time.Second), query[time.Time](t, b, "SELECT planned_at FROM schedules").UTC())

	fresh.at(now.Add(5 * time.Second))
	void := fresh.claimOne(t, worker{1})
	targets, err := open(t, b.url).executions.Targets(t.Context(), []claims.Claim{void})
	require.NoError(t, err)
	require.Empty(t, targets)
	require.Equal(t, 36000, query[int](t, b, "SELECT lock_ms FROM schedules"))
	again := fresh.claimOne(t, worker{1})
	targets, err = fresh.executions.Targets(t.Context(), []claims.Claim{again})
	require.NoError(t, err)
	require.Len(t, targets, 1)
	require.Empty(t, fresh.start(t, worker{1}, void))
	require.Len(t, fresh.start(t, worker{1}, again), 1)
}

// TestSweepsWalkTheDueIndex looks at the plans of the statements that are shipped, on a table of real size and by the database's own
// clock: one that is read anew for every row would make the index useless.
func TestSweepsWalkTheDueIndex(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(t, 20_000, time.Now().Add(-time.Hour))
	b.exec(t, "UPDATE schedules SET claimed_by = gen_random_uuid(), claim_token = claim_token + 1 WHERE due_at < now()")
	b.exec(t, "UPDATE schedules SET due_at = now() + interval '1 min' WHERE due_at < now()")
	b.exec(t, "ANALYZE schedules")
	q := dbsqlc.New()
	for name, ask := range map[string]func(db dbsqlc.DBTX) error{
		"TakeOver": func(db dbsqlc.DBTX) error {
			_, err := q.ScheduleListClaimed(t.Context(), db, dbsqlc.ScheduleListClaimedParams{WorkerID: [16]byte{1}, ReachMs: 71_000})
			return err
		},
		"Stuck": func(db dbsqlc.DBTX) error {
			_, err := q.ScheduleListStuck(t.Context(), db, dbsqlc.ScheduleListStuckParams{StuckMs: 180_000, MaxRows: 100})
			return err
		},
	} {
		plan, err := store.ExplainPlainly(t.Context(), b.db, ask)
		require.NoError(t, err, name)
		require.Contains(t, plan, "schedules_held", name)
		require.NotContains(t, plan, "Seq Scan on schedules", name)
	}
}

// TestARuleThatEndsLocksEpisodesAsFinishesDo holds the first of two episodes, as a finish does that is about to close both. Every other order
// but that of their IDs says that the second goes first.
func TestARuleThatEndsLocksEpisodesAsFinishesDo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.at(noon())
	keeper := b.noticed(t, "failing", func(s *notices.Spec) { s.Failures = 1 })
	first, second := notices.EpisodeID{15: 1}, notices.EpisodeID{15: 2}
	for _, id := range []notices.EpisodeID{second, first} {
		b.exec(t, `INSERT INTO notice_episodes (id, tenant_id, rule_id, rule, endpoint_id, event, opened_at, detail, remind_at, reminders)
			SELECT $1, tenant_id, id, name, $2, event, now(), '{}', 'infinity', 0 FROM notice_rules`, id, b.register(t, nil).ID)
	}
	finish, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = finish.Rollback(context.WithoutCancel(t.Context())) }() // Where it was not committed, nothing may wait for it.
	_, err = finish.Exec(t.Context(), "SELECT FROM notice_episodes WHERE id = $1 FOR UPDATE", first)
	require.NoError(t, err)

	ended := make(chan error, 1)
	go func() { ended <- keeper.DeleteRule(t.Context(), tenant, "failing", 0) }()
	b.awaitLockWait(t)

	_, err = finish.Exec(t.Context(), "SELECT FROM notice_episodes WHERE id = $1 FOR UPDATE NOWAIT", second)
	require.NoError(t, err, "nobody holds what a finish needs while it waits for that finish")
	require.NoError(t, finish.Commit(t.Context()))
	require.NoError(t, <-ended)
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM notice_episodes WHERE closed_at IS NULL"))
}
