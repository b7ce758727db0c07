package items_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/calls"
	"rubato/internal/deadletters"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/notices"
	"rubato/internal/runs"
	"rubato/internal/secrets"
	callstore "rubato/internal/store/calls"
	letterstore "rubato/internal/store/deadletters"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/storetest"
	"rubato/internal/zombie"
)

// office returns the operations on dead letters, whose requests it can read.
func (b *bundle) office(t *testing.T) *deadletters.Service {
	t.Helper()
	keyring, err := secrets.NewKeyring([]secrets.Key{{ID: "k1", Bytes: secrets.NewText(strings.Repeat("k", secrets.KeySize))}})
	require.NoError(t, err)
	b.States.Keyring = keyring
	return b.letters(keyring)
}

// letters returns the operations on dead letters with a keyring.
func (b *bundle) letters(keyring *secrets.Keyring) *deadletters.Service {
	single := calls.NewService(callstore.New(b.DB), storetest.AnyTarget{})
	return deadletters.NewService(letterstore.New(b.DB, b.Endpoints), b.Service, single, keyring)
}

func (b *bundle) deadLetters(t *testing.T) int {
	t.Helper()
	return storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM dead_letters")
}

// failNext claims, starts and fails the run that is due.
func (b *bundle) failNext(t *testing.T, me storetest.Worker) runs.Run {
	t.Helper()
	c, s := b.StartOne(t, me)
	run := storetest.Fail(me, c, s)
	run.Outcome.Body, run.Outcome.ContentType = []byte("closed"), "text/plain"
	require.Empty(t, b.Finish(t, me, 0, run).Late)
	return run
}

// asked registers an endpoint that is due in an hour and queues a one-off run with a body.
func (b *bundle) asked(t *testing.T, edit func(*endpoints.Spec)) *endpoints.Endpoint {
	t.Helper()
	e := b.Register(t, func(s *endpoints.Spec) {
		s.Method, s.Body, s.Idempotent, s.StartAt = "POST", "plain", true, time.Now().Add(time.Hour)
		if edit != nil {
			edit(s)
		}
	})
	b.At(time.Now().UTC().Add(time.Second))
	b.ask(t, e.ID, endpoints.OneOffRequest{Override: endpoints.Override{Body: new("order 7")}})
	return e
}

// TestTheLastAttemptOfAOneOffRunLeavesADeadLetter fails both attempts of a one-off run, and changes
// the endpoint before the second one.
func TestTheLastAttemptOfAOneOffRunLeavesADeadLetter(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	office := b.office(t)
	e := b.asked(t, func(s *endpoints.Spec) { s.Retry.MaxAttempts, s.Retry.Backoff = 2, time.Millisecond })
	first := b.failNext(t, me)
	require.Zero(t, b.deadLetters(t), "another attempt follows")
	b.At(b.Get(t, e.ID).State.Due.At)
	b.Edit(t, e.ID, func(s *endpoints.Spec) { s.URL = "http://target.example/moved" })
	last := b.failNext(t, me)

	l, content, err := office.Get(t.Context(), storetest.Tenant, deadletters.ID(last.ID))
	require.NoError(t, err)
	require.Equal(t, deadletters.Open, l.State)
	require.Equal(t, 2, l.Attempt)
	require.Equal(t, runs.HTTPStatus, l.Reason)
	require.Equal(t, "closed", string(l.Body))
	require.Equal(t, "k1", l.Sealed.KeyID)
	require.NotContains(t, string(l.Sealed.Data), "order 7")
	require.Equal(t, "order 7", content.Request.Body)
	require.Equal(t, "http://target.example/moved", content.Request.URL)
	require.Equal(t, first.ID.String(), content.Key)
	require.EqualValues(t, 2, content.Version)
	require.Equal(t, 1, b.deadLetters(t))
}

// TestRunsThatLeaveNoDeadLetter ends one-off runs well or by a user, and fails a recurring run with
// and without deadLetter.
func TestRunsThatLeaveNoDeadLetter(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		keep    bool
		outcome runs.Outcome
		oneOff  bool
		want    int
	}{
		"OneOffSucceeded":  {oneOff: true, outcome: runs.Outcome{Status: runs.Succeeded, Reason: runs.HTTPStatus, StatusCode: 200}},
		"OneOffCanceled":   {oneOff: true, outcome: runs.Outcome{Status: runs.Canceled, Reason: runs.CanceledByUser}},
		"OneOffTooLate":    {oneOff: true, outcome: runs.Outcome{Status: runs.Skipped, Reason: runs.DeadlinePassed}, want: 1},
		"OneOffTimedOut":   {oneOff: true, outcome: runs.Outcome{Status: runs.TimedOut, Reason: runs.Timeout}, want: 1},
		"RecurringDropped": {outcome: runs.Outcome{Status: runs.Failed, Reason: runs.ConnectError}},
		"RecurringKept":    {keep: true, outcome: runs.Outcome{Status: runs.Failed, Reason: runs.ConnectError}, want: 1},
		"RecurringSkipped": {keep: true, outcome: runs.Outcome{Status: runs.Skipped, Reason: runs.SecretsUnavailable}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, me := setup(t), storetest.Worker{1}
			now := b.At(time.Now().UTC().Add(time.Second))
			e := b.Register(t, func(s *endpoints.Spec) {
				s.DeadLetter = tc.keep
				if tc.oneOff {
					s.StartAt = now.Add(time.Hour)
				}
			})
			if tc.oneOff {
				b.ask(t, e.ID, endpoints.OneOffRequest{})
			}
			c, s := b.StartOne(t, me)
			run := storetest.Succeed(me, c, s)
			run.Outcome = tc.outcome
			b.Finish(t, me, 0, run)
			require.Equal(t, tc.want, b.deadLetters(t))
			require.Equal(t, tc.want, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM dead_letters WHERE sealed_under = ''"))
		})
	}
}

// TestALostOneOffRunLeavesADeadLetter lets the sweeper settle a run that must not be sent twice.
func TestALostOneOffRunLeavesADeadLetter(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	b.asked(t, func(s *endpoints.Spec) { s.Idempotent = false })
	_, s := b.StartOne(t, me)
	b.At(s.StartedAt.Add(66 * time.Second))
	b.SettleLost(t, 1)
	require.Equal(t, "lost", storetest.Query[string](t, b.Bundle, "SELECT status FROM dead_letters"))
}

// TestAFailingInsertOfADeadLetterKeepsTheRunAlive makes the table refuse rows while a finish and
// then a sweep end a run. The run stays in flight, and ends with its dead letter afterwards.
func TestAFailingInsertOfADeadLetterKeepsTheRunAlive(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	b.asked(t, func(s *endpoints.Spec) { s.Idempotent = false })
	c, s := b.StartOne(t, me)
	b.Exec(t, "ALTER TABLE dead_letters ADD CONSTRAINT broken CHECK (false) NOT VALID")
	run := storetest.Fail(me, c, s)
	_, err := b.Executions.Finish(t.Context(), b.FinishOf(t, me, 0, run))
	require.Error(t, err)
	require.Equal(t, s.RunID, b.live(t).ID)
	b.At(s.StartedAt.Add(66 * time.Second))
	_, err = b.Sweeps.Settle(t.Context(), zombie.Signal{TrustSilence: true}, b.live(t))
	require.Error(t, err)
	require.Equal(t, s.RunID, b.live(t).ID)
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM runs"))
	require.Equal(t, 1, b.waiting(t))

	b.Exec(t, "ALTER TABLE dead_letters DROP CONSTRAINT broken")
	b.Finish(t, me, 0, run)
	require.Equal(t, 1, b.deadLetters(t))
	require.Zero(t, b.waiting(t))
}

// TestFiftyReplaysAtOnceMakeOneRun replays one dead letter by many callers, and then discards it.
// replayFifty replays a dead letter fifty times at once, and requires that one of them does it.
func replayFifty(t *testing.T, office *deadletters.Service, id deadletters.ID) {
	t.Helper()
	var group sync.WaitGroup
	results := make(chan error, 50)
	for range cap(results) {
		group.Go(func() {
			_, _, err := office.Replay(context.WithoutCancel(t.Context()), storetest.Tenant, id, deadletters.Replay{})
			results <- err
		})
	}
	group.Wait()
	close(results)
	made := 0
	for err := range results {
		refused, is := errors.AsType[*errs.Error](err)
		if err == nil {
			made++
		} else {
			require.True(t, is, err)
			require.Equal(t, "dead_letter_handled", refused.Reason)
		}
	}
	require.Equal(t, 1, made)
}

func TestFiftyReplaysAtOnceMakeOneRun(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	office := b.office(t)
	b.asked(t, nil)
	run := b.failNext(t, me)
	id := deadletters.ID(run.ID)

	replayFifty(t, office, id)
	require.Equal(t, 1, b.waiting(t))
	_, err := office.Discard(t.Context(), storetest.Tenant, id, "no longer needed")
	require.ErrorContains(t, err, "replayed by tester")

	l, _, err := office.Get(t.Context(), storetest.Tenant, id)
	require.NoError(t, err)
	c := b.ClaimOne(t, me)
	require.Equal(t, l.ReplayID(), runs.NewID(c.Slot, c.EndpointID, 1, 0))
	target := b.target(t, c)
	require.Equal(t, "order 7", target.Spec.Body)
	require.Equal(t, run.ID.String(), target.SentKey, "the target can see that it is the same request")
	again := storetest.Fail(me, c, b.Start(t, me, c)[0])
	b.Finish(t, me, 0, again)
	require.Equal(t, 2, b.deadLetters(t), "a replay that fails leaves a dead letter of its own")
	_, content, err := office.Get(t.Context(), storetest.Tenant, deadletters.ID(again.ID))
	require.NoError(t, err)
	require.Equal(t, run.ID.String(), content.Key)
}

// TestReplaysByFilterStartAtARate replays three of four dead letters, oldest first, one a second. A
// recurring run that is due meanwhile does not wait for them.
func TestReplaysByFilterStartAtARate(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	office := b.office(t)
	e := b.asked(t, nil)
	var bodies []string
	for n := range 4 {
		if n > 0 {
			b.ask(t, e.ID, endpoints.OneOffRequest{Override: endpoints.Override{Body: new(strings.Repeat("x", n))}})
		}
		b.failNext(t, me)
	}
	done, err := office.ReplayAll(t.Context(), storetest.Tenant, deadletters.ReplayAll{Filter: deadletters.Filter{Reason: "http_status", Limit: 3}, PerMinute: 60})
	require.NoError(t, err)
	require.NotZero(t, done.Next)
	require.Equal(t, deadletters.Replays{Replayed: 3, Remaining: true, Next: done.Next}, done)
	require.Equal(t, 3, b.waiting(t))

	began := b.Get(t, e.ID).State.Due.At
	for n := range 3 {
		due := b.Get(t, e.ID).State.Due
		require.Equal(t, "manual", string(due.Source))
		require.WithinDuration(t, began.Add(time.Duration(n)*time.Second), due.At, 100*time.Millisecond)
		b.At(due.At)
		c := b.ClaimOne(t, me)
		bodies = append(bodies, b.target(t, c).Spec.Body)
		b.Finish(t, me, 0, storetest.Succeed(me, c, b.Start(t, me, c)[0]))
	}
	require.Equal(t, []string{"order 7", "x", "xx"}, bodies)
	done, err = office.ReplayAll(t.Context(), storetest.Tenant, deadletters.ReplayAll{Filter: deadletters.Filter{Limit: 3}})
	require.NoError(t, err)
	require.Equal(t, deadletters.Replays{Replayed: 1}, done)
}

// TestRefusedReplaysDoNotKeepLaterOnes has dead letters of an archived endpoint, which are refused,
// before and after one of another endpoint.
func TestRefusedReplaysDoNotKeepLaterOnes(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	office := b.office(t)
	fail := func() deadletters.ID { return deadletters.ID(b.failNext(t, me).ID) }
	gone := b.asked(t, nil)
	first := fail()
	b.ask(t, gone.ID, endpoints.OneOffRequest{})
	second := fail()
	b.asked(t, nil)
	good := fail()
	b.At(time.Now().UTC().Add(time.Minute))
	b.ask(t, gone.ID, endpoints.OneOffRequest{})
	last := fail()
	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, gone.ID, gone.Version))
	all := func(limit int, after deadletters.ID) (replayed int, refused []deadletters.ID, done deadletters.Replays) {
		done, err := office.ReplayAll(t.Context(), storetest.Tenant, deadletters.ReplayAll{Filter: deadletters.Filter{Limit: limit, After: after}})
		require.NoError(t, err)
		for _, r := range done.Refused {
			require.Equal(t, "endpoint_archived", r.Why.Reason)
			refused = append(refused, r.ID)
		}
		return done.Replayed, refused, done
	}

	replayed, refused, done := all(1, deadletters.ID{})
	require.Equal(t, 1, replayed)
	require.Equal(t, []deadletters.ID{first, second}, refused)
	require.True(t, done.Remaining)
	require.Equal(t, good, done.Next)

	replayed, refused, done = all(1, done.Next)
	require.Zero(t, replayed)
	require.Equal(t, []deadletters.ID{last}, refused)
	require.False(t, done.Remaining, "only refused ones are left")
	require.Zero(t, done.Next)

	_, refused, done = all(1, deadletters.ID{})
	require.Equal(t, []deadletters.ID{first, second, last}, refused)
	require.False(t, done.Remaining)
}

// TestReplaysByFilterTryABoundedNumber has more refused dead letters than one request tries.
func TestReplaysByFilterTryABoundedNumber(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	office := b.office(t)
	gone := b.asked(t, nil)
	b.failNext(t, me)
	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, gone.ID, gone.Version))
	b.Exec(t, `INSERT INTO dead_letters (id, tenant_id, endpoint_id, scheduled_for, created_at, attempt, infra_attempt, status, reason_code, request, sealed_under, state)
		SELECT lpad(to_hex(n + 16), 32, '0')::uuid, tenant_id, endpoint_id, scheduled_for, created_at, 1, 0, status, reason_code, '{}', '', 'open'
		FROM dead_letters, generate_series(1, $1::int) n`, deadletters.MaxTried)
	done, err := office.ReplayAll(t.Context(), storetest.Tenant, deadletters.ReplayAll{Filter: deadletters.Filter{Limit: 1}})
	require.NoError(t, err)
	require.Len(t, done.Refused, deadletters.MaxTried)
	require.True(t, done.Remaining)
	require.Equal(t, done.Refused[deadletters.MaxTried-1].ID, done.Next)
	done, err = office.ReplayAll(t.Context(), storetest.Tenant, deadletters.ReplayAll{Filter: deadletters.Filter{Limit: 1, After: done.Next}})
	require.NoError(t, err)
	require.Len(t, done.Refused, 1)
	require.False(t, done.Remaining)
}

// TestRunOfAnArchivedEndpointLeavesItsDeadLetter archives endpoints while a run is under way.
func TestRunOfAnArchivedEndpointLeavesItsDeadLetter(t *testing.T) {
	t.Parallel()
	for want, asks := range []bool{false, true} {
		b, me := setup(t), storetest.Worker{1}
		office := b.office(t)
		b.At(storetest.Noon())
		e := b.Register(t, func(s *endpoints.Spec) { s.DeadLetter = asks })
		c, s := b.StartOne(t, me)
		require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, e.ID, e.Version))
		run := storetest.Fail(me, c, s)
		require.Empty(t, b.Finish(t, me, 0, run).Late)
		require.Equal(t, want, b.deadLetters(t))
		if asks {
			letter, content, err := office.Get(t.Context(), storetest.Tenant, deadletters.ID(run.ID))
			require.NoError(t, err)
			require.Equal(t, runs.HTTPStatus, letter.Reason)
			require.Equal(t, e.Spec.URL, content.Request.URL)
		}
	}
}

// TestOldDeadLettersAreForgotten keeps the newest of a tenant, open ones before handled ones, and
// none past the retention.
func TestOldDeadLettersAreForgotten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, nil)
	b.Exec(t, `INSERT INTO dead_letters (id, tenant_id, endpoint_id, scheduled_for, created_at, attempt, infra_attempt, status, reason_code, request,
		                          sealed_under, state, handled_at, handled_by)
		SELECT gen_random_uuid(), $1, $2, $3, $3::timestamptz - n * interval '1 second', 1, 0, 'failed', 'timeout', '{}', '',
		       CASE WHEN n <= 2 THEN 'discarded' ELSE 'open' END, CASE WHEN n <= 2 THEN now() END, CASE WHEN n <= 2 THEN 'x' END
		FROM generate_series(1, $4::int) n`, storetest.Tenant.TenantID, e.ID, now, deadletters.MaxPerTenant+1)
	keep := func(letters time.Duration) {
		_, err := b.Sweeps.KeepHistory(t.Context(), zombie.Retention{Runs: 24 * time.Hour, Bodies: 24 * time.Hour, Letters: letters})
		require.NoError(t, err)
	}
	keep(0)
	require.Equal(t, deadletters.MaxPerTenant, b.deadLetters(t), "zero is no retention")
	keep(24 * time.Hour)
	require.Equal(t, deadletters.MaxPerTenant, b.deadLetters(t))
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM dead_letters WHERE state = 'discarded'"))
	keep(time.Hour)
	require.Equal(t, 3600-1, b.deadLetters(t))
}

// TestRekeySealsDeadLettersUnderTheNewestKey rekeys a dead letter, which a program with the new key
// alone then reads.
func TestRekeySealsDeadLettersUnderTheNewestKey(t *testing.T) {
	t.Parallel()
	b, me := setup(t), storetest.Worker{1}
	b.office(t)
	b.asked(t, nil)
	id := deadletters.ID(b.failNext(t, me).ID)
	fresh := secrets.Key{ID: "k2", Bytes: secrets.NewText(strings.Repeat("n", secrets.KeySize))}
	both, err := secrets.NewKeyring([]secrets.Key{fresh, {ID: "k1", Bytes: secrets.NewText(strings.Repeat("k", secrets.KeySize))}})
	require.NoError(t, err)
	pass, err := both.Rekey(t.Context(), keystore.NewSecrets(b.DB))
	require.NoError(t, err)
	require.Equal(t, 1, pass.Done)

	only, err := secrets.NewKeyring([]secrets.Key{fresh})
	require.NoError(t, err)
	_, content, err := b.letters(only).Get(t.Context(), storetest.Tenant, id)
	require.NoError(t, err)
	require.Equal(t, "order 7", content.Request.Body)
}

// TestADroppedAttemptEndsItsDueTime fails the first attempt of a due time, and changes the endpoint
// so that the second one is dropped. The first one was the last then.
func TestADroppedAttemptEndsItsDueTime(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*testing.T, *bundle, endpoints.ID)
		// withdrawn means that the due time ends without a failure.
		withdrawn bool
		// plain means that the endpoint has neither deadLetter nor startChains.
		plain bool
	}{
		"RunNow": {change: func(t *testing.T, b *bundle, id endpoints.ID) {
			t.Helper()
			b.ask(t, id, endpoints.OneOffRequest{})
		}},
		"RunNowOfAPlainEndpoint": {plain: true, change: func(t *testing.T, b *bundle, id endpoints.ID) {
			t.Helper()
			b.ask(t, id, endpoints.OneOffRequest{})
		}},
		"FewerAttempts": {change: func(t *testing.T, b *bundle, id endpoints.ID) {
			t.Helper()
			b.Edit(t, id, func(s *endpoints.Spec) { s.Retry.MaxAttempts = 1 })
		}},
		"FewerAttemptsByBulk": {change: func(t *testing.T, b *bundle, _ endpoints.ID) {
			t.Helper()
			spec := b.Get(t, storetest.Query[[16]byte](t, b.Bundle, "SELECT id FROM endpoints")).Spec
			spec.Retry.MaxAttempts = 1
			b.Upsert(t, endpoints.Mode{}, endpoints.Upsert{Key: spec.Key, Want: func(*endpoints.Endpoint) (endpoints.Spec, error) { return spec, nil }})
		}},
		"Pause": {withdrawn: true, change: func(t *testing.T, b *bundle, id endpoints.ID) {
			t.Helper()
			_, err := b.Service.Pause(t.Context(), storetest.Tenant, id, endpoints.PauseRequest{})
			require.NoError(t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, me := setup(t), storetest.Worker{1}
			office := b.office(t)
			now := b.At(storetest.Noon())
			b.PutRule(t, "failing", func(s *notices.Spec) { s.Event, s.Failures = notices.Failures, 1 })
			b.PutRule(t, "givenup", func(s *notices.Spec) { s.Event, s.Failures = notices.DeadLetter, 0 })
			e := b.Register(t, func(s *endpoints.Spec) {
				s.Key, s.MaxRuns, s.Retry.MaxAttempts, s.Retry.Backoff = "k", 5, 2, time.Minute
				if !tc.plain {
					s.DeadLetter, s.StartChains = true, []string{"failed=cleanup"}
				}
			})
			run := b.failNext(t, me)
			require.Equal(t, 2, b.Get(t, e.ID).State.Due.Attempt)
			b.At(now.Add(time.Millisecond))
			tc.change(t, b, e.ID)

			count, kept := 1, 1
			if tc.withdrawn {
				count, kept = 0, 0
			}
			if tc.plain {
				kept = 0
			}
			state := b.Get(t, e.ID).State
			require.Equal(t, count, state.FailureCount)
			require.Equal(t, count, state.RunsDone)
			require.Equal(t, kept, b.deadLetters(t))
			require.Equal(t, kept, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM chain_starts WHERE run_id = $1 AND chain = 'cleanup'", run.ID))
			require.Equal(t, count+kept, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM notices"), "about the failure, and about the dead letter")
			if kept == 0 {
				return
			}
			l, content, err := office.Get(t.Context(), storetest.Tenant, deadletters.ID(run.ID))
			require.NoError(t, err)
			require.Equal(t, "closed", string(l.Body))
			require.Equal(t, run.ID.String(), content.Key)
			require.EqualValues(t, 1, content.Version, "the request is that of the run, and not of the change")
		})
	}
}
