package dispatch_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/egress/egresstest"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/waittest"
)

// TestRunsStartOnTimeAndNeverEarly spreads due times over a second and compares the arrivals with
// them: database and target share this machine's clock.
func TestRunsStartOnTimeAndNeverEarly(t *testing.T) {
	t.Parallel()
	const count = 20
	b := setup(t)
	arrivals := make(chan time.Time, count)
	target := egresstest.Start(t, func(c *egresstest.Conn) {
		for {
			if !c.Arrived() {
				return
			}
			at := time.Now()
			if _, ok := c.Next(); !ok || !c.Write(egresstest.OK("")) {
				return
			}
			arrivals <- at
		}
	})
	first := time.Now().Add(time.Second).Truncate(time.Millisecond)
	for n := range count {
		b.register(t, target, func(s *endpoints.Spec) { s.StartAt = first.Add(time.Duration(n) * 50 * time.Millisecond) })
	}
	p := b.work(t, nil)
	for range count {
		waittest.Receive(t, arrivals)
	}
	b.await(t, count, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	p.stop(t)

	for _, r := range target.Requests() {
		planned, err := time.Parse(time.RFC3339, r.Header.Get("Rubato-Scheduled-For"))
		require.NoError(t, err)
		require.False(t, planned.Before(first.Truncate(time.Millisecond)))
	}
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM runs WHERE started_at < scheduled_for"), "by the database's clock")
	require.Len(t, target.PerRun(), count)
	for run, n := range target.PerRun() {
		require.Equal(t, 1, n, run)
	}
	require.InDelta(t, count, p.counter(t, "rubato_runs_started_total"), 0)
	require.InDelta(t, count, p.counter(t, "rubato_runs_finished_total"), 0)
}

// TestAStartIsCommittedBeforeItsDueTimeAndSentAtIt looks at the live row from within the statement
// that makes it, and at the target. A machine that stands still for longer than the lead misses it,
// so that starts are tried until one meets it.
func TestAStartIsCommittedBeforeItsDueTimeAndSentAtIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	type start struct{ committed, took time.Time }
	committed := make(chan start, 1)
	p := b.work(t, b.with(&faultyExecutions{start: func(next func() ([]dispatch.Started, error)) ([]dispatch.Started, error) {
		list, err := next()
		if len(list) == 1 {
			committed <- start{committed: query[time.Time](t, b, "SELECT clock_timestamp()"), took: list[0].StartedAt}
		}
		return list, err
	}}))
	limit := time.Now().Add(waittest.Limit(t))
	for n := 0; time.Now().Before(limit); n++ {
		due := time.Now().Add(time.Second).Truncate(time.Millisecond)
		b.register(t, target, func(s *endpoints.Spec) { s.StartAt = due })
		s := waittest.Receive(t, committed)
		b.await(t, n+1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
		require.WithinRange(t, s.took, due, due.Add(patience), "by its record the run starts at its due time")
		require.Zero(t, query[int](t, b, "SELECT count(*) FROM runs WHERE started_at < scheduled_for"))
		if !s.committed.After(due) {
			require.True(t, s.took.Equal(due), "%s", s.took)
			p.stop(t)
			return
		}
		t.Logf("the commit came %s after the due time", s.committed.Sub(due))
	}
	t.Fatal("no start was committed before its due time")
}

// slotPairs are the runs of an endpoint of one second: the slot that follows each by the grid, and
// the one that did follow.
const slotPairs = `FROM (SELECT decided_at, scheduled_for + interval '1 s' AS next, lead(scheduled_for) OVER (ORDER BY id) AS after FROM runs) r `

// requireGrid requires that every run of an endpoint of one second with a decision within it is
// followed by the next second.
func (b *bundle) requireGrid(t *testing.T, e *endpoints.Endpoint) {
	t.Helper()
	require.Zero(t, query[int](t, b, "SELECT count(*) "+slotPairs+"WHERE after <> next AND decided_at < next"))
	require.Equal(t, e.State.Due.Slot.UTC(), query[time.Time](t, b, "SELECT min(scheduled_for) FROM runs").UTC())
}

// TestAnEndpointOfOneSecondStaysOnItsGrid relies on claims that a finish keeps. A run with a later
// decision, as on a busy machine, begins a grid of its own at its end.
func TestAnEndpointOfOneSecondStaysOnItsGrid(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	e := b.register(t, target, func(s *endpoints.Spec) { s.BaselineInterval = time.Second })
	p := b.work(t, nil)
	b.await(t, 3, "SELECT least(3, count(*)) "+slotPairs+"WHERE after = next")
	p.stop(t)
	b.requireGrid(t, e)
	require.Len(t, target.Requests(), query[int](t, b, "SELECT count(*) FROM runs"))
	require.InDelta(t, 1, p.counter(t, "rubato_claims_claimed_total"), 0, "one claim, then kept")
}

func TestSlotsBoundTheRequestsUnderWay(t *testing.T) {
	t.Parallel()
	const slots, count = 3, 12
	b := setup(t)
	target := startGated(t)
	for range count {
		b.register(t, target.Target, nil)
	}
	p := b.work(t, func(cfg *dispatch.Config) { cfg.Slots = slots })
	for n := range count {
		if n >= slots {
			target.letGo <- struct{}{}
		}
		waittest.Receive(t, target.arrived)
	}
	for range slots {
		target.letGo <- struct{}{}
	}
	b.await(t, count, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	p.stop(t)
	require.EqualValues(t, slots, target.most.Load())
}

func TestADrainingWorkerReleasesUnstartedClaims(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := startGated(t)
	running := b.register(t, target.Target, nil)
	for range 2 {
		b.register(t, target.Target, func(s *endpoints.Spec) { s.StartAt = time.Now().Add(8 * time.Second) })
	}
	p := b.work(t, nil)
	waittest.Receive(t, target.arrived)
	b.await(t, 3, "SELECT count(*) FROM schedules WHERE claimed_by IS NOT NULL")
	require.NoError(t, p.Ready(t.Context()))

	p.cancel()
	b.await(t, 1, "SELECT count(*) FROM schedules WHERE claimed_by IS NOT NULL")
	require.ErrorContains(t, p.Ready(t.Context()), "draining")
	list, _, err := b.claims.ClaimDue(t.Context(), claims.Request{Worker: [16]byte{9}, Limit: 10, Horizon: 10 * time.Second, LockTTL: time.Minute})
	require.NoError(t, err)
	require.Len(t, list, 2, "others can take them at once")

	select {
	case <-p.ended:
		t.Fatal("the worker did not wait for its request")
	default:
	}
	target.letGo <- struct{}{}
	p.wait(t)
	require.Equal(t, "succeeded", b.state(t, running).LastRun.Status)
	require.Equal(t, "inactive", query[string](t, b, "SELECT state FROM workers"))
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM live_runs"))
}

func TestARequestThatOutlastsTheGraceIsLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := startGated(t)
	e := b.register(t, target.Target, func(s *endpoints.Spec) { s.Method = "POST" })
	p := b.work(t, func(cfg *dispatch.Config) { cfg.Grace = 50 * time.Millisecond })
	waittest.Receive(t, target.arrived)
	p.stop(t)
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM runs WHERE status = 'lost' AND reason_code = 'shutdown'"))
	state := b.state(t, e)
	require.Nil(t, state.Running)
	require.Zero(t, state.FailureCount, "a shutdown is not the target's failure")
	require.Equal(t, 1, state.Due.Attempt, "what may have arrived is not sent again")
}

func TestAWorkerClaimsByNotificationAndByPolling(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		poll   time.Duration
		listen bool
	}{"ByMessage": {time.Hour, true}, "ByPolling": {50 * time.Millisecond, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			target := startGated(t)
			p := b.work(t, func(cfg *dispatch.Config) { cfg.PollInterval = tc.poll })
			b.await(t, 1, "SELECT count(*) FROM workers")
			if tc.listen {
				b.listen(t, p)
			}
			b.register(t, target.Target, nil)
			waittest.Receive(t, target.arrived)
			target.letGo <- struct{}{}
			b.awaitTimely(t, 1)
		})
	}
}

// startSilent returns a target that accepts one request and never answers, and channels that signal
// its arrival and the end of its connection.
func startSilent(t *testing.T) (target *egresstest.Target, arrived, gone <-chan struct{}) {
	t.Helper()
	came, ended := make(chan struct{}), make(chan struct{})
	target = egresstest.Start(t, func(c *egresstest.Conn) {
		if _, ok := c.Next(); ok {
			close(came)
			c.AwaitHangup()
			close(ended)
		}
	})
	return target, came, ended
}

// TestALockThatIsLostEndsTheRequest takes the live row away, as a settlement does, and expects the
// request to be hung up.
func TestALockThatIsLostEndsTheRequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target, arrived, gone := startSilent(t)
	b.register(t, target, nil)
	p := b.work(t, func(cfg *dispatch.Config) { cfg.Rules.LockTTL = 3 * time.Second })
	waittest.Receive(t, arrived)
	b.exec(t, "UPDATE schedules SET run_id = NULL, started_at = NULL, deadline_at = NULL, claim_token = claim_token + 1")
	waittest.Receive(t, gone)
	p.stop(t)
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM runs"), "who has no lock writes nothing")
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM run_events"), "not even a late answer")
	require.InDelta(t, 1, p.counter(t, "rubato_claims_lock_lost_total"), 0)
}

// failingHeartbeats is a store that loses heartbeats.
type failingHeartbeats struct{ claims.Store }

func (failingHeartbeats) ExtendLocks(context.Context, [16]byte, []claims.FencedRun, time.Duration) (kept, over [][16]byte, err error) {
	return nil, nil, errAway
}

// TestALostLockIsRecordedAtOnceByItsWorker fails only the heartbeats. The worker records the lost
// run itself, so that the endpoint does not wait for the deadline of the run.
func TestALostLockIsRecordedAtOnceByItsWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	gone := make(chan struct{})
	target := egresstest.Start(t, func(c *egresstest.Conn) {
		if _, ok := c.Next(); ok {
			c.AwaitHangup()
			close(gone)
		}
	})
	b.register(t, target, func(s *endpoints.Spec) { s.Timeout, s.MaxExecutionTime = 10*time.Minute, 10*time.Minute })
	p := b.work(t, func(cfg *dispatch.Config) { cfg.Rules.LockTTL, cfg.Claims = 3*time.Second, failingHeartbeats{b.claims} })
	waittest.Receive(t, gone)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'lost' AND reason_code = 'lock_lost' AND failure_count = 0")
	b.await(t, 0, "SELECT count(*) FROM live_runs")
	p.stop(t)
	require.Len(t, target.Requests(), 1)
}

// TestALockThatIsOverForTheDatabaseAloneIsOnRecordAtOnce sets the lock of a run back, as a step
// ahead of the database's clock does. The worker lives and its run is far from its deadline, so no
// sweeper may settle it.
func TestALockThatIsOverForTheDatabaseAloneIsOnRecordAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target, arrived, gone := startSilent(t)
	b.register(t, target, func(s *endpoints.Spec) { s.Timeout, s.MaxExecutionTime = 10*time.Minute, 10*time.Minute })
	p := b.work(t, func(cfg *dispatch.Config) { cfg.Rules.LockTTL = 6 * time.Second })
	waittest.Receive(t, arrived)
	b.exec(t, "UPDATE live_runs SET locked_until = started_at")
	waittest.Receive(t, gone)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'lost' AND reason_code = 'lock_lost' AND failure_count = 0")
	b.await(t, 0, "SELECT count(*) FROM live_runs")
	p.stop(t)
	require.Len(t, target.Requests(), 1)
}

// TestALockExpiredBeforeSendingIsRecorded expires the lock of a run that waits for the only
// connection to its host.
func TestALockExpiredBeforeSendingIsRecorded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target, client := startGated(t), alone(t)
	b.register(t, target.Target, nil)
	p := b.work(t, func(cfg *dispatch.Config) { cfg.Rules.LockTTL, cfg.Egress = 6*time.Second, client })
	waittest.Receive(t, target.arrived)
	waits := b.register(t, target.Target, nil)
	b.await(t, 2, "SELECT count(*) FROM live_runs")
	b.exec(t, "UPDATE live_runs SET locked_until = started_at WHERE endpoint_id = $1", waits.ID)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'lost' AND reason_code = 'lock_lost'")
	target.letGo <- struct{}{}
	b.await(t, 0, "SELECT count(*) FROM live_runs")
	p.stop(t)
	require.Contains(t, query[string](t, b, "SELECT error FROM runs WHERE status = 'lost'"), "nothing was sent")
	require.Len(t, target.Requests(), 1)
}

// TestALongRunKeepsItsLock outlives its first lock twice.
func TestALongRunKeepsItsLock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := startGated(t)
	b.register(t, target.Target, nil)
	p := b.work(t, func(cfg *dispatch.Config) { cfg.Rules.LockTTL = 2 * time.Second })
	waittest.Receive(t, target.arrived)
	b.await(t, 1, "SELECT count(*) FROM live_runs WHERE locked_until > started_at + interval '4 s'")
	target.letGo <- struct{}{}
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	p.stop(t)
}

// TestNoRequestIsSentAfterTheLockOfItsStart has a run wait for the only connection to its host
// until its first lock has expired. Heartbeats have extended the lock, but a worker that was
// suspended would not know.
func TestNoRequestIsSentAfterTheLockOfItsStart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := startGated(t)
	b.register(t, target.Target, nil)
	b.register(t, target.Target, nil)
	client := alone(t)
	p := b.work(t, func(cfg *dispatch.Config) { cfg.Rules.LockTTL, cfg.Egress = 2*time.Second, client })
	waittest.Receive(t, target.arrived)
	b.await(t, 2, "SELECT count(*) FROM live_runs WHERE locked_until > started_at + interval '4 s'")
	target.letGo <- struct{}{}
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'skipped' AND reason_code = 'start_expired'")
	p.stop(t)
	skipped := runs.ID(query[[16]byte](t, b, "SELECT id FROM runs WHERE reason_code = 'start_expired'")).String()
	require.NotEmpty(t, target.PerRun())
	require.NotContains(t, target.PerRun(), skipped, "an attempt in its place may have been sent since")
}

// TestARedirectIsFollowedUnderALockThatWasExtended has a target redirect after the lock is over
// under which the run started.
func TestARedirectIsFollowedUnderALockThatWasExtended(t *testing.T) {
	t.Parallel()
	b := setup(t)
	there := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	letGo := make(chan struct{})
	target := egresstest.Start(t, func(c *egresstest.Conn) {
		if _, ok := c.Next(); ok {
			<-letGo
			c.Write(egresstest.Redirect("302 Found", there.URL()))
		}
	})
	b.register(t, target, func(s *endpoints.Spec) { s.FollowRedirects = 1 })
	p := b.work(t, func(cfg *dispatch.Config) { cfg.Rules.LockTTL = 2 * time.Second })
	b.await(t, 1, "SELECT count(*) FROM live_runs WHERE locked_until > started_at + interval '4 s'")
	close(letGo)
	b.awaitTimely(t, 1)
	p.stop(t)
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM runs WHERE status = 'succeeded' AND reason_code = 'http_status'"))
	require.Len(t, there.Requests(), 1)
}

// TestAWorkerWithoutFreeSlotsReleasesOverdueClaims has one slot, which a slow target holds.
func TestAWorkerWithoutFreeSlotsReleasesOverdueClaims(t *testing.T) {
	t.Parallel()
	b := setup(t)
	slow, quick := startGated(t), egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	b.register(t, slow.Target, nil)
	waiting := b.register(t, quick, func(s *endpoints.Spec) { s.StartAt = time.Now().Add(time.Second) })
	full := b.work(t, func(cfg *dispatch.Config) { cfg.Slots = 1 })
	waittest.Receive(t, slow.arrived)
	b.await(t, 2, "SELECT count(*) FROM schedules WHERE claimed_by IS NOT NULL")
	idle := b.work(t, nil)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE endpoint_id = $1", [16]byte(waiting.ID))
	slow.letGo <- struct{}{}
	full.stop(t)
	idle.stop(t)
}

// TestABurstBeyondTheQueueDoesNotWaitForThePoll has more endpoints come due at one instant than a
// worker holds. The worker has claimed ahead up to its limit, and the rest was not due at its last
// claim; the next poll is later than the test waits.
func TestABurstBeyondTheQueueDoesNotWaitForThePoll(t *testing.T) {
	t.Parallel()
	const count = 40
	b := setup(t)
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	due := time.Now().Add(2 * time.Second)
	for range count {
		b.register(t, target, func(s *endpoints.Spec) { s.StartAt = due })
	}
	p := b.work(t, func(cfg *dispatch.Config) { cfg.Slots, cfg.PollInterval = 2, 2*patience })
	b.awaitTimely(t, count)
	p.stop(t)
}

// TestWorkersThatComeAndGoLoseNothing starts and stops workers at every point of their life while
// endpoints of a second run.
func TestWorkersThatComeAndGoLoseNothing(t *testing.T) {
	t.Parallel()
	const count = 10
	b := setup(t)
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	for range count {
		b.register(t, target, func(s *endpoints.Spec) { s.BaselineInterval = time.Second })
	}
	for round := range 12 {
		p := b.work(t, func(cfg *dispatch.Config) { cfg.Slots = 4 })
		if round%3 > 0 {
			before := query[int](t, b, "SELECT count(*) FROM runs")
			b.await(t, 1, "SELECT (count(*) > $1)::int FROM runs", before+round)
		}
		p.stop(t)
		require.Zero(t, query[int](t, b, "SELECT count(*) FROM schedules WHERE claimed_by IS NOT NULL"), "round %d", round)
		require.Zero(t, query[int](t, b, "SELECT count(*) FROM live_runs"), "round %d", round)
		require.Zero(t, query[int](t, b, "SELECT count(*) FROM workers WHERE state <> 'inactive'"), "round %d", round)
	}
	for run, n := range target.PerRun() {
		require.Equal(t, 1, n, run)
	}
	// On a busy machine a due time may pass unserved: it is recorded as skipped, without a request.
	require.Equal(t, query[int](t, b, "SELECT count(*) FROM runs WHERE status <> 'skipped'"), len(target.PerRun()))
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM runs WHERE status NOT IN ('succeeded', 'skipped')"))
}

// failingPresence is a store that loses presence heartbeats while it is on. Everything else works.
type failingPresence struct {
	dispatch.Executions
	on     atomic.Bool
	failed atomic.Int32
}

func (m *failingPresence) Beat(ctx context.Context, p dispatch.Presence) (drain bool, err error) {
	if m.on.Load() {
		m.failed.Add(1)
		return false, errAway
	}
	return m.Executions.Beat(ctx, p)
}

// TestAWorkerWithFailedHeartbeatsClaimsNothing fails the heartbeats of a worker, with a sound
// database, until it is not ready. Due endpoints then wait until a heartbeat has succeeded.
func TestAWorkerWithFailedHeartbeatsClaimsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	m := &failingPresence{Executions: b.executions}
	asked := &counting{Store: b.claims, empty: make(chan struct{}, 10_000)}
	p := b.work(t, func(cfg *dispatch.Config) { cfg.Executions, cfg.Claims = m, asked })
	waittest.Until(t, func() bool { return p.Ready(t.Context()) == nil })
	m.on.Store(true)
	waittest.Until(t, func() bool { return p.Ready(t.Context()) != nil })
	require.ErrorContains(t, p.Ready(t.Context()), "presence of the worker has failed")
	require.EqualValues(t, 3, m.failed.Load(), "two are not enough")
	b.register(t, target, nil)
	p.Wake(time.Now())
	for len(asked.empty) > 0 {
		<-asked.empty
	}
	for range 5 { // Claims that ask for nothing.
		waittest.Receive(t, asked.empty)
	}
	require.Zero(t, query[int](t, b, "SELECT claim_token::int FROM schedules"))
	m.on.Store(false)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	require.NoError(t, p.Ready(t.Context()))
	p.stop(t)
}

// TestSkippedDueTimesAreCounted has an hourly endpoint and no worker for five and a half hours.
func TestSkippedDueTimesAreCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	e := b.register(t, target, nil)
	b.exec(t, "UPDATE endpoints SET created_at = created_at - interval '5 h 30 min'")
	b.exec(t, "UPDATE schedules SET due_at = due_at - interval '5 h 30 min', planned_at = planned_at - interval '5 h 30 min', slot = slot - interval '5 h 30 min'")
	p := b.work(t, nil)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE endpoint_id = $1 AND skipped_count = 5 AND reason_code = 'misfire_skipped'", [16]byte(e.ID))
	p.stop(t)
	require.InDelta(t, 6, p.counter(t, "rubato_runs_finished_total"), 0, "one run, and five due times without one")
}

// TestMissedOccurrencesAreRunByTheirPolicy has hourly crons without a worker for the last five
// hours. None comes due during the test: they run at minute 30 if the test is near the hour.
func TestMissedOccurrencesAreRunByTheirPolicy(t *testing.T) {
	t.Parallel()
	minute := (query[int](t, setup(t), "SELECT extract(minute FROM clock_timestamp())::int") + 30) % 60
	for policy, want := range map[governor.CatchUp]struct{ called, missed int }{
		governor.CatchUpSkip: {0, 5},
		governor.CatchUpOnce: {1, 4},
		governor.CatchUpAll:  {5, 0},
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			target := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
			e := b.register(t, target, func(s *endpoints.Spec) {
				s.BaselineInterval, s.BaselineCron, s.CatchUp = 0, fmt.Sprintf("%d * * * *", minute), policy
			})
			b.exec(t, "UPDATE endpoints SET created_at = created_at - interval '5 h'")
			b.exec(t, "UPDATE schedules SET due_at = due_at - interval '5 h', planned_at = planned_at - interval '5 h', slot = slot - interval '5 h'")
			p := b.work(t, nil)
			b.await(t, 1, "SELECT count(*) FROM schedules WHERE planned_at > clock_timestamp() + interval '1 min'")
			p.stop(t)
			require.Len(t, target.Requests(), want.called)
			require.Equal(t, want.missed, query[int](t, b,
				"SELECT coalesce(sum(coalesce(skipped_count, 1)), 0)::int FROM runs WHERE status = 'skipped' AND reason_code = 'misfire_skipped'"))
			require.Equal(t, governor.SourceBaselineCron, b.state(t, e).Due.Source)
		})
	}
}
