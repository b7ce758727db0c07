package items_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/store/storetest"
)

func TestABatchOfFinishesIsOneTransaction(t *testing.T) {
	t.Parallel()
	const size = 200
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Fill(t, size, now.Add(-size*time.Second))
	me := storetest.Worker{1}
	list := b.Claim(t, me, storetest.Horizon)
	require.Len(t, list, size)
	started := b.Start(t, me, list...)
	require.Len(t, started, size)
	byEndpoint := map[[16]byte]claims.Claim{}
	for _, c := range list {
		byEndpoint[c.EndpointID] = c
	}
	finished := make([]runs.Run, size)
	for i, s := range started {
		finished[i] = storetest.Succeed(me, byEndpoint[s.EndpointID], s)
	}

	// The last one is poison: nothing of the batch is written.
	finished[size-1].Outcome.Reason = ""
	_, err := b.Executions.Finish(t.Context(), dispatch.Finish{Worker: me, Runs: finished, LockTTL: time.Minute})
	require.Equal(t, errs.Invalid, errs.CodeOf(err))
	require.Equal(t, size, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM live_runs"))
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM runs"))

	finished[size-1].Outcome.Reason = runs.HTTPStatus
	done := b.Finish(t, me, 0, finished...)
	require.Empty(t, done.Late)
	require.Len(t, done.Decided, size)
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM live_runs"))
	require.Equal(t, size, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM runs WHERE status = 'succeeded'"))
	require.Equal(t, size, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM run_bodies"))
	require.Equal(t, size, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules WHERE claimed_by IS NULL AND claim_token = 2 AND last_status = 'succeeded'"))
}

// TestAKeptClaimStaysWithItsHolder runs an endpoint that is due every second: the finish hands the
// next claim back.
func TestAKeptClaimStaysWithItsHolder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Register(t, func(s *endpoints.Spec) { s.BaselineInterval, s.MaxExecutionTime = time.Second, 10*time.Second })
	me, other := storetest.Worker{1}, storetest.Worker{2}
	c, s := b.StartOne(t, me)
	for round := range 5 {
		done := b.Finish(t, me, storetest.Horizon, storetest.Succeed(me, c, s))
		require.Len(t, done.Kept, 1)
		kept := done.Kept[0]
		want := claims.Claim{
			EndpointID: c.EndpointID, Token: c.Token + 1, Slot: c.Slot.Add(time.Second), PlannedAt: c.Slot.Add(time.Second), Attempt: 1,
			Source: "baseline-interval", Version: 1, LockedUntil: c.Slot.Add(time.Second + 15*time.Second), CTID: kept.CTID,
		}
		require.Empty(t, cmp.Diff(want, kept), "round %d", round)
		require.Empty(t, b.Claim(t, other, storetest.Horizon), "what is kept is nobody else's")
		b.At(now.Add(time.Duration(round+1) * time.Second))
		require.Empty(t, b.Start(t, me, c), "the token of the finished run is void")
		started := b.Start(t, me, kept)
		require.Len(t, started, 1)
		c, s = kept, started[0]
	}
	require.Empty(t, b.Finish(t, me, 0, storetest.Succeed(me, c, s)).Kept, "nobody keeps what they did not ask for")
	require.Len(t, b.Claim(t, other, storetest.Horizon), 1)
}

func TestAClaimIsKeptOnlyWithinTheHorizon(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.BaselineInterval = 10 * time.Second })
	c, s := b.StartOne(t, storetest.Worker{1})
	require.Empty(t, b.Finish(t, storetest.Worker{1}, storetest.Horizon, storetest.Succeed(storetest.Worker{1}, c, s)).Kept, "exactly the horizon is not within it")
	require.Equal(t, c.Slot.Add(10*time.Second), b.Get(t, e.ID).State.Due.At)
}

func TestAKeptClaimIsRevokedByAChange(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.BaselineInterval = time.Second })
	c, s := b.StartOne(t, storetest.Worker{1})
	kept := b.Finish(t, storetest.Worker{1}, storetest.Horizon, storetest.Succeed(storetest.Worker{1}, c, s)).Kept
	require.Len(t, kept, 1)
	storetest.Changes["Pause"](b.Bundle, t, e.ID)
	require.Empty(t, b.Start(t, storetest.Worker{1}, kept...))
}

// TestAnOneShotIsConsumedByTheRunItAskedFor follows a one-shot through the run that it brought
// forward.
func TestAnOneShotIsConsumedByTheRunItAskedFor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.BaselineInterval = time.Hour })
	b.RunOne(t, storetest.Worker{1})
	storetest.Changes["OneShotHint"](b.Bundle, t, e.ID)
	_, _, err := b.Service.SetIntervalHint(t.Context(), storetest.Tenant, e.ID, endpoints.HintRequest{Interval: 10 * time.Minute, TTL: new(time.Hour)})
	require.NoError(t, err)
	b.At(now.Add(5 * time.Second))
	run := b.RunOne(t, storetest.Worker{1})
	require.Equal(t, "ai-oneshot", run.Source)
	after := b.Get(t, e.ID).State
	require.Nil(t, after.OneShotHint)
	require.NotNil(t, after.IntervalHint, "the other hint has its own life")
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM hints WHERE kind = 'one-shot' AND ended_at IS NOT NULL"))
	require.Equal(t, governor.SourceAIInterval, after.Due.Source)
}

// TestEveryResponseIsStorable records answers that a text column does not take as they are.
func TestEveryResponseIsStorable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	c, s := b.StartOne(t, storetest.Worker{1})
	run := storetest.Succeed(storetest.Worker{1}, c, s)
	run.Outcome.Error = "nul \x00 and \xff"
	run.Outcome.ContentType = "text/\x00\xfe"
	run.Outcome.Body = []byte{0, 0xff, 0xfe, '\n'}
	run.Outcome.Phases = runs.Phases{DNS: -time.Second, Wait: 400 * time.Hour, Transfer: 1500 * time.Nanosecond}
	run.Outcome.ResponseBytes, run.Outcome.Truncated = 1<<40, true
	run.Outcome.BodyDigest = 0xfedcba9876543210 // Beyond the positive range of the column's type.
	require.Empty(t, b.Finish(t, storetest.Worker{1}, 0, run).Late)

	stored := b.Run(t, run.ID)
	require.Equal(t, "nul \uFFFD and \uFFFD", stored.Outcome.Error)
	require.Equal(t, "text/\uFFFD\uFFFD", stored.Outcome.ContentType)
	require.Equal(t, run.Outcome.Body, stored.Outcome.Body)
	require.Zero(t, stored.Outcome.Phases.DNS)
	require.Equal(t, time.Duration(1<<31-1)*time.Microsecond, stored.Outcome.Phases.Wait)
	require.Equal(t, time.Microsecond, stored.Outcome.Phases.Transfer)
	require.Equal(t, int64(1<<40), stored.Outcome.ResponseBytes)
	require.Equal(t, uint64(0xfedcba9876543210), stored.Outcome.BodyDigest)
	require.True(t, stored.Outcome.Truncated)
}

func TestAFinishedRunIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	b.Register(t, func(s *endpoints.Spec) { s.MinInterval = 5 * time.Minute })
	c, s := b.StartOne(t, storetest.Worker{1})
	run := storetest.Fail(storetest.Worker{1}, c, s)
	run.Outcome.Error, run.Outcome.RetryAfter = "no", now.Add(90*time.Second)
	b.At(run.FinishedAt)
	b.Finish(t, storetest.Worker{1}, 0, run)
	stored := b.Run(t, run.ID)

	require.Equal(t, governor.SourceClampedMin, governor.Source(stored.Decision.Source))
	require.Contains(t, string(stored.Decision.Steps), "clamped-min")
	want := run
	want.ClaimedAt, want.Decision, want.Outcome.MaybeSent = now, stored.Decision, false // Whether it was sent follows from the reason.
	want.Outcome.RetryAfter = time.Time{}
	require.Empty(t, cmp.Diff(want, stored))
}

// TestAMissingDayOfHistoryIsMadeOnDemand finishes a run with a due time on a day without a
// partition.
func TestAMissingDayOfHistoryIsMadeOnDemand(t *testing.T) {
	t.Parallel()
	b := setup(t)
	day := storetest.Noon().AddDate(0, 0, 40)
	b.At(day)
	b.Register(t, nil)
	c, s := b.StartOne(t, storetest.Worker{1})
	run := storetest.Succeed(storetest.Worker{1}, c, s)
	require.Empty(t, b.Finish(t, storetest.Worker{1}, 0, run).Late)
	require.Equal(t, "ok", string(b.Run(t, run.ID).Outcome.Body))
	partition := "runs_" + day.Format("20060102")
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM "+partition))

	late := day.AddDate(0, 0, 40) // A late answer needs a day for its event.
	run.ScheduledFor, run.ID = late, runs.NewID(late, run.EndpointID, 1, 0)
	require.Len(t, b.Finish(t, storetest.Worker{1}, 0, run).Late, 1)
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM run_events_"+late.Format("20060102")))
}

// TestEveryAttemptIsARun lets a target fail until its attempts are used up.
func TestEveryAttemptIsARun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.Retry.MaxAttempts = 3 })
	slot := e.State.Due.Slot
	for attempt := 1; attempt <= 3; attempt++ {
		c, s := b.StartOne(t, storetest.Worker{1})
		require.Equal(t, attempt, c.Attempt)
		require.Equal(t, slot, c.Slot)
		b.Finish(t, storetest.Worker{1}, 0, storetest.Fail(storetest.Worker{1}, c, s))
		state := b.Get(t, e.ID).State
		require.Equal(t, attempt/3, state.FailureCount, "only the last attempt counts")
		b.At(state.Due.At)
	}
	require.Equal(t, 3, storetest.Query[int](t, b.Bundle, "SELECT count(DISTINCT attempt) FROM runs WHERE scheduled_for = $1", slot))
	require.Equal(t, slot.Add(2*time.Minute), b.Get(t, e.ID).State.Due.At, "then the backoff")
}

// TestAFinishOfAnArchivedEndpointIsHistory has no schedule to write to.
func TestAFinishOfAnArchivedEndpointIsHistory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	c, s := b.StartOne(t, storetest.Worker{1})
	storetest.Changes["Archive"](b.Bundle, t, e.ID)
	done := b.Finish(t, storetest.Worker{1}, storetest.Horizon, storetest.Succeed(storetest.Worker{1}, c, s))
	require.Empty(t, done.Kept)
	stored := b.Run(t, s.RunID)
	require.Equal(t, runs.Succeeded, stored.Outcome.Status)
	require.Zero(t, stored.Decision.NextRunAt)
}

func TestAnIDSortsLikeItsUUIDInTheDatabase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var texts []string
	for n := range 50 {
		var endpoint [16]byte
		binary.BigEndian.PutUint64(endpoint[:], uint64(n*7919))
		id := runs.NewID(storetest.Noon().Add(time.Duration(n)*time.Millisecond), endpoint, n%3+1, 0)
		texts = append(texts, fmt.Sprintf("'%s'", strings.TrimPrefix(id.String(), "run_")))
	}
	ordered := storetest.Query[bool](t, b.Bundle, "SELECT array_agg(u ORDER BY u) = array_agg(u ORDER BY n) FROM unnest(ARRAY["+
		strings.Join(texts, ",")+"]::uuid[]) WITH ORDINALITY AS x(u, n)")
	require.True(t, ordered)
}

// TestBackoffIsNotified: an interval stretched by failures is reported with the run and in the
// decision in force. A plain interval keeps no steps.
func TestBackoffIsNotified(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.BaselineInterval = time.Minute })
	me := storetest.Worker{1}

	b.RunOne(t, me)
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM runs WHERE next_steps IS NULL"), "nothing is kept of a plain one")

	b.At(b.Get(t, e.ID).State.Due.At)
	c, s := b.StartOne(t, me)
	b.Finish(t, me, 0, storetest.Fail(me, c, s))
	last, err := b.Service.Explain(t.Context(), storetest.Tenant, e.ID)
	require.NoError(t, err)
	require.Len(t, last.Decision.Steps, 1)
	require.Equal(t, "every 1m0s, backoff x2 after 1 failure", last.Decision.Steps[0].Why)
	require.Equal(t, governor.RuleBaselineInterval, last.Decision.Steps[0].Rule)
	require.True(t, last.Decision.Steps[0].At.Equal(last.Due.At))
}

// TestNoInstantOfARunLiesBeyondTheDatabasesClock has workers with slewed monotonic clocks: one
// reports a start and an end in the future, one an end before the start.
func TestNoInstantOfARunLiesBeyondTheDatabasesClock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	me := storetest.Worker{1}
	b.Register(t, func(s *endpoints.Spec) { s.BaselineInterval = time.Second })
	for _, tc := range []struct {
		started, finished         time.Duration // as reported, from the start of the run
		wantStarted, wantFinished time.Duration
	}{
		{started: 0, finished: 2 * time.Second, wantFinished: 2 * time.Second},
		{started: time.Second, finished: 3*time.Second - 1, wantStarted: time.Second, wantFinished: 3*time.Second - time.Microsecond},
		{started: 0, finished: 3100 * time.Millisecond, wantFinished: 3 * time.Second},
		{started: 3200 * time.Millisecond, finished: 3300 * time.Millisecond, wantStarted: 3 * time.Second, wantFinished: 3 * time.Second},
		{started: -time.Second, finished: -time.Second / 2},
	} {
		now = b.At(now.Add(time.Hour))
		claim, start := b.StartOne(t, me)
		now = b.At(now.Add(3 * time.Second))
		run := storetest.Succeed(me, claim, start)
		run.StartedAt, run.FinishedAt = start.StartedAt.Add(tc.started), start.StartedAt.Add(tc.finished)

		b.Finish(t, me, 0, run)

		ended := b.Get(t, claim.EndpointID).State.LastRun
		require.Equal(t, tc.wantStarted, ended.StartedAt.Sub(start.StartedAt), "%+v", tc)
		require.Equal(t, tc.wantFinished, ended.FinishedAt.Sub(start.StartedAt), "%+v", tc)
		require.Equal(t, ended.StartedAt, storetest.Query[time.Time](t, b.Bundle, "SELECT started_at FROM runs WHERE status = 'succeeded' ORDER BY scheduled_for DESC LIMIT 1").UTC())
		require.Equal(t, ended.FinishedAt, storetest.Query[time.Time](t, b.Bundle, "SELECT finished_at FROM runs WHERE status = 'succeeded' ORDER BY scheduled_for DESC LIMIT 1").UTC())
	}
}
