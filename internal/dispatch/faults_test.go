package dispatch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/dispatch/request"
	"rubato/internal/egress/egresstest"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/waittest"
)

func answering(t *testing.T) *egresstest.Target {
	t.Helper()
	return egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
}

func TestAFinishIsTriedAgainUntilTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	e := b.register(t, target, nil)
	var tries atomic.Int32
	p := b.work(t, b.with(&faultyExecutions{finish: func(f dispatch.Finish, next func(dispatch.Finish) (dispatch.Finished, error)) (dispatch.Finished, error) {
		if tries.Add(1) <= 3 {
			return dispatch.Finished{}, errAway
		}
		return next(f)
	}}))
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	p.stop(t)
	require.EqualValues(t, 4, tries.Load())
	require.Len(t, target.Requests(), 1)
	require.Equal(t, "succeeded", b.state(t, e).LastRun.Status)
}

// TestAFinishWithUnknownCommitIsIdempotent loses the response to a commit.
func TestAFinishWithUnknownCommitIsIdempotent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.register(t, answering(t), func(s *endpoints.Spec) { s.BaselineInterval = time.Second })
	var tries atomic.Int32
	p := b.work(t, b.with(&faultyExecutions{finish: func(f dispatch.Finish, next func(dispatch.Finish) (dispatch.Finished, error)) (dispatch.Finished, error) {
		done, err := next(f)
		if tries.Add(1) == 1 {
			return dispatch.Finished{}, errAway
		}
		return done, err
	}}))
	b.await(t, 3, "SELECT least(3, count(*)) FROM runs WHERE status = 'succeeded'")
	p.stop(t)
	b.requireGrid(t, e)
	all := query[int](t, b, "SELECT count(*) FROM runs")
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM run_events"), "its own record makes no answer late")
	require.Zero(t, p.counter(t, "rubato_runs_late_results_total"))
	require.InDelta(t, all, p.counter(t, "rubato_runs_finished_total"), 0, "each is counted once")
	require.InDelta(t, all, p.counter(t, "rubato_governor_decisions_total"), 0)
	require.InDelta(t, 1, p.counter(t, "rubato_claims_claimed_total"), 0, "the claim that the lost answer told of is not lost")
}

func TestAWorkerThatCannotRecordStopsAllTheSame(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.register(t, answering(t), nil)
	failed := make(chan struct{}, 1000)
	p := b.work(t, func(cfg *dispatch.Config) {
		b.with(&faultyExecutions{finish: func(dispatch.Finish, func(dispatch.Finish) (dispatch.Finished, error)) (dispatch.Finished, error) {
			failed <- struct{}{}
			return dispatch.Finished{}, errAway
		}})(cfg)
		cfg.Grace = 10 * time.Millisecond
	})
	waittest.Receive(t, failed)
	p.stop(t)
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM live_runs"), "it is settled as lost by others")
}

// TestARunThatTheDatabaseRefusesHurtsNoOther has one run in a batch that cannot be recorded.
func TestARunThatTheDatabaseRefusesHurtsNoOther(t *testing.T) {
	t.Parallel()
	const count = 6
	for name, spoil := range map[string]func(*runs.Run) error{
		"ForItsAnswer":         func(run *runs.Run) error { run.Outcome.StatusCode = 1000; return nil },
		"ForAReasonOfOurs":     func(*runs.Run) error { return errors.New("a fault inside the store") },
		"ForAPanic":            func(*runs.Run) error { panic("a poisoned row") },
		"ForItsAnswerAndAlone": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			target := answering(t)
			sick := b.register(t, target, nil)
			others := count - 1
			if spoil == nil {
				others, spoil = 0, func(run *runs.Run) error { run.Outcome.StatusCode = 1000; return nil }
			}
			for range others {
				b.register(t, target, nil)
			}
			p := b.work(t, b.with(&faultyExecutions{finish: func(f dispatch.Finish, next func(dispatch.Finish) (dispatch.Finished, error)) (dispatch.Finished, error) {
				f.Runs = slices.Clone(f.Runs)
				for i := range f.Runs {
					if run := &f.Runs[i]; run.EndpointID == sick.ID && len(run.Outcome.Body) > 0 {
						if err := spoil(run); err != nil {
							return dispatch.Finished{}, err
						}
					}
				}
				return next(f)
			}}))
			b.await(t, others+1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
			p.stop(t)
			require.Equal(t, "the answer could not be recorded", query[string](t, b, "SELECT error FROM runs WHERE endpoint_id = $1", [16]byte(sick.ID)))
			require.Equal(t, others, query[int](t, b, "SELECT count(*) FROM run_bodies"))
		})
	}
}

// TestARunThatIsRecordedWithoutItsAnswerWaitsForTheDatabase has an outage between two attempts.
func TestARunThatIsRecordedWithoutItsAnswerWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.register(t, answering(t), nil)
	var tries atomic.Int32
	p := b.work(t, b.with(&faultyExecutions{finish: func(f dispatch.Finish, next func(dispatch.Finish) (dispatch.Finished, error)) (dispatch.Finished, error) {
		switch tries.Add(1) {
		case 1:
			return dispatch.Finished{}, errors.New("a fault inside the store")
		case 2:
			return dispatch.Finished{}, errAway
		default:
			return next(f)
		}
	}}))
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded' AND error = 'the answer could not be recorded'")
	p.stop(t)
	require.EqualValues(t, 3, tries.Load())
}

func TestAPanicEndsOneRunOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	sick, sound := b.register(t, target, nil), b.register(t, target, nil)
	p := b.work(t, b.with(&faultyExecutions{targets: func(found map[[16]byte]*request.Target) {
		if broken, here := found[sick.ID]; here {
			broken.Success = endpoints.SuccessRule{}
			found[sick.ID] = broken
		}
	}}))
	b.awaitTimely(t, 2)
	p.stop(t)
	require.Equal(t, "succeeded", b.state(t, sound).LastRun.Status)
	require.Equal(t, "lost", b.state(t, sick).LastRun.Status)
	require.Zero(t, b.state(t, sick).FailureCount)
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM runs WHERE reason_code = 'internal_error'"))
	require.InDelta(t, 1, p.counter(t, "rubato_panics_total"), 0)
}

func TestAnEndpointThatCannotBeUsedIsPutAside(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	sick, sound := b.register(t, target, nil), b.register(t, target, nil)
	b.exec(t, `UPDATE endpoints SET spec = spec || '{"success": "often"}' WHERE id = $1`, [16]byte(sick.ID))
	p := b.work(t, nil)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE endpoint_id = $1", [16]byte(sound.ID))
	b.await(t, 1, "SELECT count(*) FROM schedules WHERE pause_reason LIKE 'quarantined: %'")
	p.stop(t)
	require.Len(t, target.Requests(), 1)
}

func TestAStartThatFailsSendsNothingAndIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	b.register(t, target, nil)
	var tries atomic.Int32
	p := b.work(t, b.with(&faultyExecutions{start: func(next func() ([]dispatch.Started, error)) ([]dispatch.Started, error) {
		if tries.Add(1) == 1 {
			return nil, errAway
		}
		return next()
	}}))
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	p.stop(t)
	require.Len(t, target.Requests(), 1)
}

// TestAStartWithUnknownCommitIsNotSent loses the response to the first commit. The fence refuses
// the retry, and the worker ends the run at once, because no request was sent.
func TestAStartWithUnknownCommitIsNotSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	e := b.register(t, target, nil)
	var tries, asked atomic.Int32
	h := &faultyExecutions{
		start: func(next func() ([]dispatch.Started, error)) ([]dispatch.Started, error) {
			started, err := next()
			if tries.Add(1) == 1 {
				return nil, errAway
			}
			return started, err
		},
		own: func(next func() ([]dispatch.Started, error)) ([]dispatch.Started, error) {
			if asked.Add(1) == 1 {
				return nil, errAway
			}
			return next()
		},
	}
	p := b.work(t, b.with(h))
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'skipped' AND reason_code = 'start_expired'")
	p.stop(t)
	require.EqualValues(t, 3, tries.Load(), "the start, its retry, and another because the database could not be asked what was live")
	require.Empty(t, target.Requests())
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM live_runs"))
	state := b.state(t, e)
	require.Zero(t, state.FailureCount)
	require.True(t, state.Due.At.After(e.State.Due.At), "the next due time is planned")
}

// TestADrainingWorkerEndsUnconfirmedStarts loses the response to a commit, and stops the worker
// before its retry.
func TestADrainingWorkerEndsUnconfirmedStarts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	b.register(t, target, nil)
	p := b.work(t, b.with(&faultyExecutions{start: func(next func() ([]dispatch.Started, error)) ([]dispatch.Started, error) {
		if _, err := next(); err != nil {
			return nil, err
		}
		return nil, errAway
	}}))
	b.await(t, 1, "SELECT count(*) FROM live_runs")
	p.stop(t)
	require.Empty(t, target.Requests())
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM live_runs"))
	require.Equal(t, 1, query[int](t, b, "SELECT count(*) FROM runs WHERE status = 'skipped' AND reason_code = 'start_expired'"))
}

// TestAClaimIsKeptWhileItsTargetCannotBeRead has a long database outage after the claim.
func TestAClaimIsKeptWhileItsTargetCannotBeRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	b.register(t, target, nil)
	var tries atomic.Int32
	p := b.work(t, b.with(&faultyExecutions{read: func() error {
		if tries.Add(1) <= 2 {
			return errAway
		}
		return nil
	}}))
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	p.stop(t)
	require.EqualValues(t, 3, tries.Load())
	require.Equal(t, 1, query[int](t, b, "SELECT claim_token::int FROM runs"), "it is the same claim all the time")
}

// failingRelease fails to give claims back for a while.
type failingRelease struct {
	claims.Store
	tries atomic.Int32
}

func (f *failingRelease) Release(ctx context.Context, worker [16]byte, list []claims.Claim) (int, error) {
	if f.tries.Add(1) <= 2 {
		return 0, errAway
	}
	return f.Store.Release(ctx, worker, list)
}

// TestAClaimIsGivenBackUntilItIsTaken has an outage at the release of a claim without a target.
func TestAClaimIsGivenBackUntilItIsTaken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.register(t, answering(t), nil)
	failing := &failingRelease{Store: b.claims}
	var hidden atomic.Bool
	p := b.work(t, func(cfg *dispatch.Config) {
		b.with(&faultyExecutions{targets: func(found map[[16]byte]*request.Target) {
			if hidden.CompareAndSwap(false, true) {
				clear(found)
			}
		}})(cfg)
		cfg.Claims = failing
	})
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	p.stop(t)
	require.GreaterOrEqual(t, failing.tries.Load(), int32(3))
	require.Equal(t, 3, query[int](t, b, "SELECT claim_token::int FROM runs"), "claimed, given back, and claimed again")
}

// TestAVersionRaisedByHandIsMended raises only the version of an endpoint, with SQL.
func TestAVersionRaisedByHandIsMended(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	e := b.register(t, target, nil)
	b.exec(t, "UPDATE endpoints SET version = version + 7")
	p := b.work(t, nil)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded'")
	p.stop(t)
	require.Equal(t, e.Version+7, query[int64](t, b, "SELECT version FROM schedules"))
	require.LessOrEqual(t, query[int](t, b, "SELECT claim_token::int FROM runs"), 4, "one claim that led to nothing, and one that ran")
}

// TestAStoppedProcessSendsNothingWhenItWakes suspends it for over a second after a start's commit.
func TestAStoppedProcessSendsNothingWhenItWakes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	e := b.register(t, target, nil)
	woken := make(chan struct{})
	p := b.work(t, b.with(&faultyExecutions{start: func(next func() ([]dispatch.Started, error)) ([]dispatch.Started, error) {
		started, err := next()
		<-woken
		return started, err
	}}))
	wake := sync.OnceFunc(func() { close(woken) })
	t.Cleanup(wake)
	b.await(t, 1, outlived)
	wake()
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'skipped' AND reason_code = 'start_expired'")
	p.stop(t)
	require.Empty(t, target.Requests())
	require.Zero(t, b.state(t, e).FailureCount)
}

func TestAnExecutionEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := egresstest.Start(t, egresstest.Hold(""))
	e := b.register(t, target, func(s *endpoints.Spec) { s.MaxExecutionTime, s.Timeout = time.Second, time.Second })
	p := b.work(t, nil)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'timed_out' AND reason_code = 'timeout'")
	p.stop(t)
	require.Equal(t, 1, b.state(t, e).FailureCount)
}

// releasing signals the first release.
type releasing struct {
	claims.Store
	released chan struct{}
}

func (r *releasing) Release(ctx context.Context, worker [16]byte, list []claims.Claim) (int, error) {
	n, err := r.Store.Release(ctx, worker, list)
	select {
	case r.released <- struct{}{}:
	default:
	}
	return n, err
}

// TestClaimsKeptDuringDrainAreReleased delays a finish that keeps a claim until the worker has
// released the others. The kept claim is released at once, not at the end of the drain, which
// another request delays.
func TestClaimsKeptDuringDrainAreReleased(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target, slow := answering(t), startGated(t)
	hangs := b.register(t, slow.Target, func(s *endpoints.Spec) { s.Timeout = s.MaxExecutionTime })
	claimed := func() int {
		return query[int](t, b, "SELECT count(*) FROM schedules WHERE claimed_by IS NOT NULL AND endpoint_id <> $1", [16]byte(hangs.ID))
	}
	finished, proceed, released := make(chan dispatch.Keep, 10), make(chan struct{}), make(chan struct{}, 10)
	p := b.work(t, func(cfg *dispatch.Config) {
		b.with(&faultyExecutions{finish: func(f dispatch.Finish, next func(dispatch.Finish) (dispatch.Finished, error)) (dispatch.Finished, error) {
			done, err := next(f)
			finished <- f.Keep
			<-proceed
			return done, err
		}})(cfg)
		cfg.Claims = &releasing{Store: b.claims, released: released}
		cfg.Grace = 2 * patience // Its end gives back everything.
	})
	waittest.Receive(t, slow.arrived)
	b.register(t, target, func(s *endpoints.Spec) { s.BaselineInterval = 8 * time.Second })
	b.register(t, target, func(s *endpoints.Spec) { s.StartAt = time.Now().Add(9 * time.Second) })
	require.NotZero(t, waittest.Receive(t, finished))
	waittest.Until(t, func() bool { return claimed() == 2 }, "one was kept, the other waits")
	p.cancel()
	waittest.Receive(t, released)
	require.Equal(t, 1, claimed())
	close(proceed)
	waittest.Receive(t, released)
	require.Zero(t, claimed(), "the drain goes on")
	slow.letGo <- struct{}{}
	require.Zero(t, waittest.Receive(t, finished), "a worker that drains keeps nothing more")
	p.wait(t)
	require.Zero(t, claimed())
}

// counting counts the claims that ask for nothing.
type counting struct {
	claims.Store
	empty chan struct{}
}

func (c *counting) ClaimDue(ctx context.Context, r claims.Request) ([]claims.Claim, time.Time, error) {
	list, now, err := c.Store.ClaimDue(ctx, r)
	if r.Limit == 0 && err == nil {
		c.empty <- struct{}{}
	}
	return list, now, err
}

// TestAWorkerWithoutAFreeSlotIsReady keeps all slots taken for longer than the limit of claims.
func TestAWorkerWithoutAFreeSlotIsReady(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := startGated(t)
	b.register(t, target.Target, nil)
	asked := &counting{Store: b.claims, empty: make(chan struct{}, 1000)}
	p := b.work(t, func(cfg *dispatch.Config) { cfg.Slots, cfg.Claims = 1, asked })
	waittest.Receive(t, target.arrived)
	for begin := time.Now(); time.Since(begin) < 3*50*time.Millisecond+1200*time.Millisecond; {
		waittest.Receive(t, asked.empty)
		require.NoError(t, p.Ready(t.Context()))
	}
	target.letGo <- struct{}{}
	p.stop(t)
}

// staleClaimStore hands out a claim that was revoked together with the one that revoked it, as a
// worker has them when an endpoint is edited while it waits.
type staleClaimStore struct {
	claims.Store
	stale claims.Claim
}

func (s *staleClaimStore) ClaimDue(ctx context.Context, r claims.Request) ([]claims.Claim, time.Time, error) {
	list, now, err := s.Store.ClaimDue(ctx, r)
	if len(list) == 1 && s.stale.Token == 0 {
		s.stale = list[0]
		s.stale.Token--
		s.stale.Slot = s.stale.Slot.Add(time.Millisecond) // The stale plan was a later one.
		s.stale.PlannedAt = s.stale.Slot
		list = append(list, s.stale)
	}
	return list, now, err
}

func TestARevokedClaimInTheQueueDoesNotStandInForTheNewOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	e := b.register(t, target, nil)
	b.exec(t, "UPDATE schedules SET claim_token = 6")
	p := b.work(t, func(cfg *dispatch.Config) { cfg.Claims = &staleClaimStore{Store: b.claims} })
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded' AND claim_token = 7")
	p.stop(t)
	require.Len(t, target.Requests(), 1)
	require.Equal(t, "7", target.Requests()[0].Header.Get("Rubato-Fence"))
	require.Equal(t, e.State.Due.Slot, b.state(t, e).LastSlot)
	require.InDelta(t, 1, p.counter(t, "rubato_runs_duplicates_prevented_total"), 0)
}

// claimedTwice registers an endpoint that is due in a moment and lets a worker claim it a second
// time for the same due time, as after an edit that does not move it. Both claims wait when it
// returns.
func (b *bundle) claimedTwice(t *testing.T, target *egresstest.Target, edit func(*dispatch.Config)) *process {
	t.Helper()
	e := b.register(t, target, func(s *endpoints.Spec) { s.StartAt = time.Now().Add(2 * time.Second) })
	p := b.work(t, edit)
	b.await(t, 1, "SELECT coalesce(max(claim_token), 0)::int FROM schedules WHERE claimed_by IS NOT NULL")
	changed, err := b.service.ResetFailures(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.Equal(t, e.State.Due.Slot, changed.State.Due.Slot)
	b.await(t, 3, "SELECT coalesce(max(claim_token), 0)::int FROM schedules WHERE claimed_by IS NOT NULL")
	return p
}

// TestARevokedClaimToTheSameRunGivesItsSlotBack has two claims of one run in a batch.
func TestARevokedClaimToTheSameRunGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	p := b.claimedTwice(t, target, nil)
	b.await(t, 1, "SELECT count(*) FROM runs WHERE status = 'succeeded' AND claim_token = 3")
	p.stop(t)
	require.Len(t, target.Requests(), 1)
	require.Zero(t, query[int](t, b, "SELECT busy FROM workers"), "as its goodbye says")
	require.InDelta(t, 1, p.counter(t, "rubato_runs_duplicates_prevented_total"), 0)
}

// TestAStartInDoubtIsEndedUnderItsOwnToken loses a start's reply while a revoked claim waits too.
func TestAStartInDoubtIsEndedUnderItsOwnToken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := answering(t)
	var tries atomic.Int32
	p := b.claimedTwice(t, target, b.with(&faultyExecutions{start: func(next func() ([]dispatch.Started, error)) ([]dispatch.Started, error) {
		started, err := next()
		if tries.Add(1) == 1 {
			return nil, errAway
		}
		return started, err
	}}))
	b.await(t, 1, "SELECT count(*) FROM runs WHERE reason_code = 'start_expired' AND claim_token = 3")
	p.stop(t)
	require.Empty(t, target.Requests())
	require.Zero(t, query[int](t, b, "SELECT count(*) FROM live_runs"))
	require.Zero(t, query[int](t, b, "SELECT busy FROM workers"))
}
