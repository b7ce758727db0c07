package notices_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/notices"
	"rubato/internal/runs"
	noticestore "rubato/internal/store/notices"
	"rubato/internal/store/storetest"
	"rubato/internal/zombie"
)

// room is for so many notices, whosever they are.
func room(n int) notices.Capacity { return notices.Capacity{Limit: n, PerRule: n, PerTenant: n} }

// failOne runs the endpoint that is due until its due time has failed, and moves the clock to its
// next.
func (b *bundle) failOne(t *testing.T, id endpoints.ID) {
	t.Helper()
	b.At(b.Get(t, id).State.Due.At)
	c, s := b.StartOne(t, storetest.Worker{1})
	b.Finish(t, storetest.Worker{1}, 0, storetest.Fail(storetest.Worker{1}, c, s))
	b.At(b.Get(t, id).State.Due.At)
}

// passOne is failOne of a run that succeeds.
func (b *bundle) passOne(t *testing.T, id endpoints.ID) {
	t.Helper()
	b.At(b.Get(t, id).State.Due.At)
	b.RunOne(t, storetest.Worker{1})
	b.At(b.Get(t, id).State.Due.At)
}

func TestEpisodeNotifiesOpeningAndEndOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	b.PutRule(t, "failing", nil)
	e := b.Register(t, nil)

	b.failOne(t, e.ID)
	require.Empty(t, b.NoticeKinds(t), "one failure is not two")
	for range 4 {
		b.failOne(t, e.ID)
	}
	require.Equal(t, []string{"opened"}, b.NoticeKinds(t))
	require.Equal(t, 2, storetest.Query[int](t, b.Bundle, "SELECT (detail->>'failures')::int FROM notice_episodes"))
	for range 2 {
		b.passOne(t, e.ID)
	}
	require.Equal(t, []string{"opened", "recovered"}, b.NoticeKinds(t))
	b.failOne(t, e.ID)
	b.failOne(t, e.ID)
	require.Equal(t, []string{"opened", "recovered", "opened"}, b.NoticeKinds(t), "another episode")
}

// TestAFinishWithoutARuleAsksForNothing counts statements: the one of a finish that no rule is
// about must not grow.
func TestAFinishWithoutARuleAsksForNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	b.PutRule(t, "other", func(s *notices.Spec) { s.Scope.Labels = map[string]string{"team": "other"} })
	b.Exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''a finish wrote of notices''; END'`)
	for _, table := range []string{"notices", "notice_episodes"} {
		b.Exec(t, "CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON "+table+" FOR EACH STATEMENT EXECUTE FUNCTION refuse()")
	}
	e := b.Register(t, nil)
	for range 3 {
		b.failOne(t, e.ID)
	}
	b.passOne(t, e.ID)
	require.Equal(t, 0, b.Get(t, e.ID).State.FailureCount)
}

func TestARuleCoversItsScopeAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	mine := b.Register(t, func(s *endpoints.Spec) { s.Labels = map[string]string{"team": "shop", "x": "y"} })
	other := b.Register(t, func(s *endpoints.Spec) { s.Labels = map[string]string{"team": "bank"} })
	b.PutRule(t, "label", func(s *notices.Spec) { s.Failures, s.Scope.Labels = 1, map[string]string{"team": "shop"} })
	b.PutRule(t, "one", func(s *notices.Spec) { s.Failures, s.Scope.EndpointID = 1, other.ID })
	b.PutRule(t, "off", func(s *notices.Spec) { s.Failures, s.Enabled = 1, false })
	for _, c := range b.Claim(t, storetest.Worker{1}, time.Hour) {
		for _, s := range b.Start(t, storetest.Worker{1}, c) {
			b.Finish(t, storetest.Worker{1}, 0, storetest.Fail(storetest.Worker{1}, c, s))
		}
	}
	require.Equal(t, "label one", storetest.Query[string](t, b.Bundle, "SELECT string_agg(rule, ' ' ORDER BY rule) FROM notice_episodes"))
	require.Equal(t, mine.ID, endpoints.ID(storetest.Query[[16]byte](t, b.Bundle, "SELECT endpoint_id FROM notice_episodes WHERE rule = 'label'")))
}

// TestRolledBackFinishNotifiesNothing makes the transaction fail after the notice was written.
func TestRolledBackFinishNotifiesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	b.PutRule(t, "failing", func(s *notices.Spec) { s.Failures = 1 })
	b.Register(t, nil)
	c, s := b.StartOne(t, storetest.Worker{1})
	b.Exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no''; END'`)
	b.Exec(t, "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON notices DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()")
	run := storetest.Fail(storetest.Worker{1}, c, s)
	_, err := b.Executions.Finish(t.Context(), dispatch.Finish{Worker: storetest.Worker{1}, Runs: []runs.Run{run}, LockTTL: time.Minute})
	require.Error(t, err)
	require.Empty(t, b.NoticeKinds(t))
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM runs"))

	b.Exec(t, "DROP TRIGGER refuse ON notices")
	b.Finish(t, storetest.Worker{1}, 0, run)
	require.Equal(t, []string{"opened"}, b.NoticeKinds(t))
}

// TestABookThatIsTooOldMissesNothing has a process finish runs by rules that it does not know yet.
func TestABookThatIsTooOldMissesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	e := b.Register(t, nil)
	keeper := noticestore.NewStore(b.DB, &b.States.Rules)
	_, _, err := keeper.PutRule(t.Context(), storetest.Tenant, "failing", storetest.Rule(nil), endpoints.Condition{})
	require.NoError(t, err)
	for range 3 {
		b.failOne(t, e.ID) // The book was never refreshed.
	}
	require.Empty(t, b.NoticeKinds(t))
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened"}, b.NoticeKinds(t), "who looks after episodes finds what was so before")
	require.NoError(t, keeper.Watch(t.Context()))
	b.passOne(t, e.ID)
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened", "recovered"}, b.NoticeKinds(t))
}

// TestConcurrentReportsOpenOneEpisode lets finishes and lookers-on find the same at once.
func TestConcurrentReportsOpenOneEpisode(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	keeper := b.PutRule(t, "failing", func(s *notices.Spec) { s.Failures = 1 })
	const size = 20
	for range size {
		b.Register(t, nil)
	}
	b.At(storetest.Noon().Add(time.Hour))
	list := b.Claim(t, storetest.Worker{1}, time.Hour)
	require.Len(t, list, size)
	finished := make([]runs.Run, 0, size)
	for _, c := range list {
		for _, s := range b.Start(t, storetest.Worker{1}, c) {
			finished = append(finished, storetest.Fail(storetest.Worker{1}, c, s))
		}
	}
	done := make(chan error, 4)
	go func() {
		_, err := b.Executions.Finish(t.Context(), dispatch.Finish{Worker: storetest.Worker{1}, Runs: finished, LockTTL: time.Minute})
		done <- err
	}()
	for range 3 {
		go func() { done <- keeper.Watch(t.Context()) }()
	}
	for range 4 {
		require.NoError(t, <-done)
	}
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, size, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM notice_episodes"))
	require.Equal(t, size, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM notices WHERE kind = 'opened'"))
}

func TestLateStartOpensEpisodeAndPromptStartEndsIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	keeper := b.PutRule(t, "late", func(s *notices.Spec) { s.Event, s.Failures, s.Late = notices.Late, 0, 10*time.Second })
	e := b.Register(t, nil)
	b.At(now.Add(5 * time.Second))
	b.RunOne(t, storetest.Worker{1})
	require.Empty(t, b.NoticeKinds(t))
	due := b.Get(t, e.ID).State.Due.At
	b.At(due.Add(11 * time.Second))
	b.RunOne(t, storetest.Worker{1})
	require.Equal(t, []string{"opened"}, b.NoticeKinds(t))
	require.NoError(t, keeper.Refresh(t.Context()))
	b.passOne(t, e.ID)
	require.Equal(t, []string{"opened", "recovered"}, b.NoticeKinds(t))
}

// TestOverdueEndpointIsNotified has no worker at all.
func TestOverdueEndpointIsNotified(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	keeper := b.PutRule(t, "late", func(s *notices.Spec) { s.Event, s.Failures, s.Late = notices.Late, 0, 30*time.Second })
	e := b.Register(t, nil)
	paused := b.Register(t, nil)
	_, err := b.Service.Pause(t.Context(), storetest.Tenant, paused.ID, endpoints.PauseRequest{})
	require.NoError(t, err)
	b.At(now.Add(20 * time.Second))
	require.NoError(t, keeper.Watch(t.Context()))
	require.Empty(t, b.NoticeKinds(t))
	b.At(now.Add(31 * time.Second))
	for range 3 {
		require.NoError(t, keeper.Watch(t.Context()))
	}
	require.Equal(t, []string{"opened"}, b.NoticeKinds(t))
	require.NoError(t, keeper.Refresh(t.Context()))
	b.At(now.Add(40 * time.Second))
	b.RunOne(t, storetest.Worker{1})
	require.Equal(t, []string{"opened"}, b.NoticeKinds(t), "it runs at last, and late it was")
	b.passOne(t, e.ID)
	require.Equal(t, []string{"opened", "recovered"}, b.NoticeKinds(t))
}

// TestSettlementNotifiesLostRun lets the sweeper find it.
func TestSettlementNotifiesLostRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	keeper := b.PutRule(t, "lost", func(s *notices.Spec) { s.Event, s.Failures = notices.Lost, 0 })
	e := b.Register(t, nil)
	b.StartOne(t, storetest.Worker{1})
	b.At(now.Add(time.Hour))
	lost, err := b.Sweeps.ListLost(t.Context(), zombie.Search{ByDeadline: true, Signal: zombie.Signal{StaleAfter: time.Minute}, Limit: 10})
	require.NoError(t, err)
	require.Len(t, lost, 1)
	run := lost[0].Run
	run.Outcome = runs.Outcome{Status: runs.Lost, Reason: runs.WorkerLost, Error: "gone"}
	settled, err := b.Sweeps.Settle(t.Context(), zombie.Signal{StaleAfter: time.Minute}, run)
	require.NoError(t, err)
	require.True(t, settled)
	require.Equal(t, []string{"opened"}, b.NoticeKinds(t))
	require.Equal(t, "worker_lost", storetest.Query[string](t, b.Bundle, "SELECT detail->>'reasonCode' FROM notice_episodes"))
	require.NoError(t, keeper.Refresh(t.Context()))
	b.passOne(t, e.ID)
	require.Equal(t, []string{"opened", "recovered"}, b.NoticeKinds(t))
}

// TestPauseByTargetIsNotifiedAndPauseByUserIsNot pauses in both ways.
func TestPauseByTargetIsNotifiedAndPauseByUserIsNot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	keeper := b.PutRule(t, "paused", func(s *notices.Spec) { s.Event, s.Failures = notices.Paused, 0 })
	e := b.Register(t, nil)
	_, err := b.Service.Pause(t.Context(), storetest.Tenant, e.ID, endpoints.PauseRequest{})
	require.NoError(t, err)
	require.NoError(t, keeper.Watch(t.Context()))
	require.Empty(t, b.NoticeKinds(t))
	_, err = b.Service.Resume(t.Context(), storetest.Tenant, e.ID)
	require.NoError(t, err)

	b.At(b.Get(t, e.ID).State.Due.At)
	c, s := b.StartOne(t, storetest.Worker{1})
	run := storetest.Succeed(storetest.Worker{1}, c, s)
	run.Outcome.Stop = "no more, please"
	b.Finish(t, storetest.Worker{1}, 0, run)
	require.Equal(t, []string{"opened"}, b.NoticeKinds(t))
	require.Equal(t, "no more, please", storetest.Query[string](t, b.Bundle, "SELECT detail->>'reason' FROM notice_episodes"))
	_, err = b.Service.Resume(t.Context(), storetest.Tenant, e.ID)
	require.NoError(t, err)
	require.NoError(t, keeper.Watch(t.Context()))
	require.Equal(t, []string{"opened", "recovered"}, b.NoticeKinds(t))
}

func TestRemindersComeWhileTheEpisodeGoesOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	keeper := b.PutRule(t, "failing", func(s *notices.Spec) { s.Failures, s.Remind = 1, time.Hour })
	e := b.Register(t, nil)
	b.failOne(t, e.ID)
	watch := func(at time.Time) {
		b.At(at)
		require.NoError(t, keeper.Watch(t.Context()))
		require.NoError(t, keeper.Watch(t.Context()))
	}
	watch(now.Add(61 * time.Minute))
	require.Equal(t, []string{"opened"}, b.NoticeKinds(t), "the first is not out yet")
	b.Exec(t, "UPDATE notices SET state = 'delivered', ended_at = now()")
	watch(now.Add(62 * time.Minute))
	require.Equal(t, []string{"opened", "reminder"}, b.NoticeKinds(t))
	b.Exec(t, "UPDATE notices SET state = 'delivered', ended_at = now() WHERE state = 'waiting'")
	watch(now.Add(121 * time.Minute))
	require.Equal(t, []string{"opened", "reminder"}, b.NoticeKinds(t))
	watch(now.Add(123 * time.Minute))
	require.Equal(t, []string{"opened", "reminder", "reminder"}, b.NoticeKinds(t))
	require.Equal(t, []int32{0, 1, 2}, storetest.Query[[]int32](t, b.Bundle, "SELECT array_agg(number ORDER BY number) FROM notices"))
}

// TestAClaimOfANoticeIsFenced lets a courier stand still while another one takes over.
func TestAClaimOfANoticeIsFenced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	keeper := b.PutRule(t, "failing", func(s *notices.Spec) { s.Failures = 1 })
	e := b.Register(t, nil)
	b.failOne(t, e.ID)
	now := b.At(storetest.Noon().Add(time.Hour))
	first, err := keeper.Claim(t.Context(), room(10), time.Minute)
	require.NoError(t, err)
	require.Len(t, first, 1)
	none, err := keeper.Claim(t.Context(), room(10), time.Minute)
	require.NoError(t, err)
	require.Empty(t, none, "it is claimed")
	b.At(now.Add(61 * time.Second))
	second, err := keeper.Claim(t.Context(), room(10), time.Minute)
	require.NoError(t, err)
	require.Len(t, second, 1)
	require.Equal(t, first[0].ID, second[0].ID, "receivers know it by the same id")

	done, err := keeper.End(t.Context(), first[0], notices.Delivered, notices.Result{})
	require.NoError(t, err)
	require.False(t, done)
	done, err = keeper.Postpone(t.Context(), first[0], time.Hour, false, notices.Result{Error: "x"})
	require.NoError(t, err)
	require.False(t, done)
	done, err = keeper.End(t.Context(), second[0], notices.Delivered, notices.Result{StatusCode: 204})
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, "delivered", storetest.Query[string](t, b.Bundle, "SELECT state FROM notices"))
}

// TestEpisodeEndFollowsItsOpening claims while the first notice waits to be sent again.
func TestEpisodeEndFollowsItsOpening(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	keeper := b.PutRule(t, "failing", func(s *notices.Spec) { s.Failures = 1 })
	e := b.Register(t, nil)
	b.failOne(t, e.ID)
	claimed, err := keeper.Claim(t.Context(), room(10), time.Minute)
	require.NoError(t, err)
	_, err = keeper.Postpone(t.Context(), claimed[0], 24*time.Hour, false, notices.Result{Error: "away"})
	require.NoError(t, err)
	b.passOne(t, e.ID)
	require.Equal(t, []string{"opened", "recovered"}, b.NoticeKinds(t))
	claimed, err = keeper.Claim(t.Context(), room(10), time.Minute)
	require.NoError(t, err)
	require.Empty(t, claimed)
	b.At(storetest.Noon().Add(26 * time.Hour))
	claimed, err = keeper.Claim(t.Context(), room(10), time.Minute)
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	require.Equal(t, notices.Opened, claimed[0].Kind)
}

// TestWindowHoldsCoveredNotices: a window holds notices back, and afterwards those of open episodes
// are sent.
func TestWindowHoldsCoveredNotices(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	keeper := b.PutRule(t, "failing", func(s *notices.Spec) { s.Failures = 1 })
	_, created, err := keeper.PutWindow(t.Context(), storetest.Tenant, "upgrade", notices.WindowSpec{
		Scope: notices.Scope{Labels: map[string]string{"team": "shop"}}, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour),
	}, endpoints.Condition{})
	require.NoError(t, err)
	require.True(t, created)
	e := b.Register(t, func(s *endpoints.Spec) { s.Labels = map[string]string{"team": "shop"} })
	b.failOne(t, e.ID)
	claimed, err := keeper.Claim(t.Context(), room(10), time.Minute)
	require.NoError(t, err)
	require.Equal(t, now.Add(time.Hour), claimed[0].HeldUntil)
	verdict, _ := claimed[0].Judge()
	require.Equal(t, notices.Postpone, verdict)
	_, err = keeper.Postpone(t.Context(), claimed[0], time.Hour, true, notices.Result{})
	require.NoError(t, err)

	require.NoError(t, keeper.DeleteWindow(t.Context(), storetest.Tenant, "upgrade"))
	claimed, err = keeper.Claim(t.Context(), room(10), time.Minute)
	require.NoError(t, err)
	require.Len(t, claimed, 1, "what it held is looked at again")
	verdict, _ = claimed[0].Judge()
	require.Equal(t, notices.Send, verdict)
	b.passOne(t, e.ID)
	b.At(storetest.Noon().Add(2 * time.Hour))
	claimed, err = keeper.Claim(t.Context(), room(10), time.Minute)
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	verdict, why := claimed[0].Judge()
	require.Equal(t, notices.Mute, verdict, "it is over, and nobody was told of its begin")
	require.NotEmpty(t, why)
	_, err = keeper.End(t.Context(), claimed[0], notices.Muted, notices.Result{Error: why})
	require.NoError(t, err)
	claimed, err = keeper.Claim(t.Context(), room(10), time.Minute)
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	require.Equal(t, notices.Recovered, claimed[0].Kind)
	verdict, why = claimed[0].Judge()
	require.Equal(t, notices.Mute, verdict, "nor of its end")
	require.NotEmpty(t, why)
}

// TestWindowDoesNotHoldEndOfKnownEpisode lets an episode begin before a window and end in it.
func TestWindowDoesNotHoldEndOfKnownEpisode(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	keeper := b.PutRule(t, "failing", func(s *notices.Spec) { s.Failures = 1 })
	e := b.Register(t, nil)
	b.failOne(t, e.ID)
	claimed, err := keeper.Claim(t.Context(), room(10), time.Minute)
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	_, err = keeper.End(t.Context(), claimed[0], notices.Delivered, notices.Result{StatusCode: 200})
	require.NoError(t, err)

	end := now.Add(3 * time.Hour)
	_, _, err = keeper.PutWindow(t.Context(), storetest.Tenant, "upgrade", notices.WindowSpec{StartsAt: now, EndsAt: end}, endpoints.Condition{})
	require.NoError(t, err)
	b.passOne(t, e.ID)
	claimed, err = keeper.Claim(t.Context(), room(10), time.Minute)
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	verdict, _ := claimed[0].Judge()
	require.Equal(t, notices.Postpone, verdict)
	_, err = keeper.Postpone(t.Context(), claimed[0], claimed[0].Hold(), true, notices.Result{})
	require.NoError(t, err)
	b.At(end.Add(time.Second))
	claimed, err = keeper.Claim(t.Context(), room(10), time.Minute)
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	require.Equal(t, notices.Recovered, claimed[0].Kind)
	verdict, _ = claimed[0].Judge()
	require.Equal(t, notices.Send, verdict)
}

// TestAWindowThatGoesWhileItTakesHoldHoldsNothing deletes the window between the look at a notice
// and the record that it is held.
func TestAWindowThatGoesWhileItTakesHoldHoldsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	keeper := b.PutRule(t, "failing", func(s *notices.Spec) { s.Failures = 1 })
	_, _, err := keeper.PutWindow(t.Context(), storetest.Tenant, "upgrade", notices.WindowSpec{StartsAt: now, EndsAt: now.Add(300 * 24 * time.Hour)}, endpoints.Condition{})
	require.NoError(t, err)
	b.failOne(t, b.Register(t, nil).ID)
	claimed, err := keeper.Claim(t.Context(), room(10), time.Minute)
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	verdict, _ := claimed[0].Judge()
	require.Equal(t, notices.Postpone, verdict)
	require.NoError(t, keeper.DeleteWindow(t.Context(), storetest.Tenant, "upgrade"))
	held, err := keeper.Postpone(t.Context(), claimed[0], claimed[0].Hold(), true, notices.Result{})
	require.NoError(t, err)
	require.True(t, held)

	b.At(claimed[0].Now.Add(15*time.Minute + time.Second))
	claimed, err = keeper.Claim(t.Context(), room(10), time.Minute)
	require.NoError(t, err)
	require.Len(t, claimed, 1, "it is told within a quarter of an hour, not after the window that is gone")
	verdict, _ = claimed[0].Judge()
	require.Equal(t, notices.Send, verdict)
}

func TestARuleThatChangesEndsItsEpisodesWithoutAWord(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	keeper := b.PutRule(t, "failing", func(s *notices.Spec) { s.Failures = 1 })
	e := b.Register(t, nil)
	b.failOne(t, e.ID)
	b.PutRule(t, "failing", func(s *notices.Spec) { s.Failures, s.Remind = 1, time.Hour })
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM notice_episodes WHERE closed_at IS NULL"), "it is about the same")
	for range 2 { // The second changes nothing.
		b.PutRule(t, "failing", func(s *notices.Spec) { s.Failures = 5 })
	}
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM notice_episodes WHERE closed_at IS NULL"))
	require.Equal(t, "muted", storetest.Query[string](t, b.Bundle, "SELECT state FROM notices"))
	require.NoError(t, keeper.DeleteRule(t.Context(), storetest.Tenant, "failing", 0))
	require.Equal(t, errs.NotFound, errs.CodeOf(keeper.DeleteRule(t.Context(), storetest.Tenant, "failing", 0)))
	require.Equal(t, 4, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM audit_log WHERE object_kind = 'notice_rule'"), "every change is on record")
}

func TestADeadNoticeIsSentAgainUnderItsID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	keeper := b.PutRule(t, "failing", func(s *notices.Spec) { s.Failures = 1 })
	e := b.Register(t, nil)
	b.failOne(t, e.ID)
	claimed, err := keeper.Claim(t.Context(), room(1), time.Minute)
	require.NoError(t, err)
	_, err = keeper.RetryNotice(t.Context(), storetest.Tenant, claimed[0].ID)
	require.Equal(t, errs.Conflict, errs.CodeOf(err), "it is not dead")
	_, err = keeper.End(t.Context(), claimed[0], notices.Dead, notices.Result{Error: "gone", StatusCode: 410})
	require.NoError(t, err)
	list, err := keeper.ListNotices(t.Context(), notices.Filter{TenantID: storetest.Tenant.TenantID, State: notices.Dead, Limit: 10})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, 410, list[0].StatusCode)
	none, err := keeper.ListNotices(t.Context(), notices.Filter{TenantID: b.OtherTenant(t).TenantID, Limit: 10})
	require.NoError(t, err)
	require.Empty(t, none)
	again, err := keeper.RetryNotice(t.Context(), storetest.Tenant, claimed[0].ID)
	require.NoError(t, err)
	require.Equal(t, notices.Waiting, again.State)
	claimed, err = keeper.Claim(t.Context(), room(1), time.Minute)
	require.NoError(t, err)
	require.Equal(t, again.ID, claimed[0].ID)
	_, err = keeper.RetryNotice(t.Context(), endpoints.Actor{TenantID: [16]byte{9}}, again.ID)
	require.Equal(t, errs.NotFound, errs.CodeOf(err), "to another tenant it is not there")
}

func TestRuleRefersOnlyToOwnTenant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keeper := noticestore.NewStore(b.DB, &b.States.Rules)
	spec := storetest.Rule(func(s *notices.Spec) {
		s.Scope.EndpointID = endpoints.ID{1}
		s.Channel = notices.Channel{Kind: notices.Slack, URLSecret: "slack-url"}
	})
	_, _, err := keeper.PutRule(t.Context(), storetest.Tenant, "x", spec, endpoints.Condition{})
	fields := errs.FieldsOf(err)
	unknown, err := keeper.Unknown(t.Context(), storetest.Tenant.TenantID, "mine", spec)
	require.NoError(t, err)
	require.Equal(t, fields, unknown)
	require.Len(t, fields, 2)
	require.Equal(t, "endpoint_unknown", fields[0].Code)
	require.Equal(t, "secret_unknown", fields[1].Code)
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM notice_rules"))

	spec.Channel = notices.Channel{Kind: notices.Webhook, URLSecret: "a\x00", TokenSecret: "b"}
	unknown, err = keeper.Unknown(t.Context(), storetest.Tenant.TenantID, "mine", spec)
	require.NoError(t, err, "what no secret can be called is unknown, and no fault of the database")
	require.Len(t, unknown, 3)
	require.Equal(t, []string{"endpointId", "channel.urlSecret", "channel.tokenSecret"}, []string{unknown[0].Field, unknown[1].Field, unknown[2].Field})
}

// TestAClaimOfNoticesTakesSomeOfEach has two rules with three notices each.
func TestAClaimOfNoticesTakesSomeOfEach(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	keeper := b.PutRule(t, "one", func(s *notices.Spec) { s.Failures = 1 })
	b.PutRule(t, "two", func(s *notices.Spec) { s.Failures = 1 })
	require.NoError(t, keeper.Refresh(t.Context()))
	for range 3 {
		b.Register(t, nil)
	}
	for _, c := range b.Claim(t, storetest.Worker{1}, time.Hour) {
		for _, s := range b.Start(t, storetest.Worker{1}, c) {
			b.Finish(t, storetest.Worker{1}, 0, storetest.Fail(storetest.Worker{1}, c, s))
		}
	}
	claim := func(r notices.Capacity) (rules []string, ids [][16]byte) {
		list, err := keeper.Claim(t.Context(), r, time.Minute)
		require.NoError(t, err)
		for _, p := range list {
			rules, ids = append(rules, p.Rule), append(ids, p.RuleID)
		}
		slices.Sort(rules)
		return rules, ids
	}
	tenants := [][16]byte{storetest.Tenant.TenantID}

	none, _ := claim(notices.Capacity{Limit: 10, PerRule: 10, PerTenant: 10, FullTenants: tenants})
	require.Empty(t, none, "the tenant is full")
	some, _ := claim(notices.Capacity{Limit: 10, PerRule: 10, PerTenant: 1})
	require.Len(t, some, 1)
	rest, ids := claim(notices.Capacity{Limit: 10, PerRule: 1, PerTenant: 10})
	require.Equal(t, []string{"one", "two"}, rest)
	last, _ := claim(notices.Capacity{Limit: 10, PerRule: 10, PerTenant: 10, FullRules: ids[:1]})
	require.NotEmpty(t, last)
	require.Len(t, slices.Compact(last), 1, "a rule is full")
}
