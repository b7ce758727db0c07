package endpoints_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
)

// lost makes a run lost: its worker died during the request.
func lost(f *endpoints.Finished) {
	f.Status, f.Reason, f.Verdict, f.Interrupted, f.Retryable, f.MaybeSent, f.Unanswered = "lost", "worker_lost", endpoints.Neutral, true, true, true, true
}

// hourly returns an hourly endpoint with default settings, changed by edit.
func hourly(t *testing.T, edit func(*endpoints.Spec)) *bundle {
	t.Helper()
	return setup(t, func(s *endpoints.Spec) {
		s.BaselineInterval = time.Hour
		if edit != nil {
			edit(s)
		}
	})
}

func TestLostRunIsRetriedIfItsMethodIsSafe(t *testing.T) {
	t.Parallel()
	method := func(name string) func(*endpoints.Spec) { return func(s *endpoints.Spec) { s.Method = name } }
	unsent := func(f *endpoints.Finished) { lost(f); f.MaybeSent = false }
	expired := func(f *endpoints.Finished) {
		unsent(f)
		f.Status, f.Reason, f.Retryable = "skipped", "start_expired", false
	}
	for name, tc := range map[string]struct {
		edit   func(*endpoints.Spec)
		finish func(*endpoints.Finished)
		state  func(*endpoints.State)
		want   bool
	}{
		"GET":              {want: true},
		"HEAD":             {edit: method("HEAD"), want: true},
		"OPTIONS":          {edit: method("OPTIONS"), want: true},
		"POST":             {edit: method("POST")},
		"PUT":              {edit: method("PUT")},
		"DELETE":           {edit: method("DELETE")},
		"IdempotentPOST":   {edit: func(s *endpoints.Spec) { s.Method, s.Idempotent = "POST", true }, want: true},
		"UnsentPOST":       {edit: method("POST"), finish: unsent, want: true},
		"StartExpired":     {edit: method("POST"), finish: expired, want: true},
		"TheTargetFailed":  {finish: failed},
		"LastOfTheBudget":  {finish: func(f *endpoints.Finished) { lost(f); f.InfraAttempt = endpoints.InfraBudget - 1 }, want: true},
		"BudgetUsedUp":     {finish: func(f *endpoints.Finished) { lost(f); f.InfraAttempt = endpoints.InfraBudget }},
		"Paused":           {state: func(s *endpoints.State) { s.PausedUntil = start.Add(time.Second) }},
		"TargetAskedFor":   {state: func(s *endpoints.State) { s.RetryAfter = start.Add(20 * time.Minute) }, want: true},
		"WaitPastNext":     {edit: func(s *endpoints.Spec) { s.BaselineInterval = time.Second }},
		"MinimumUpToNext":  {edit: func(s *endpoints.Spec) { s.MinInterval = time.Hour }},
		"MinimumUnsent":    {edit: func(s *endpoints.Spec) { s.MinInterval = time.Hour }, finish: expired, want: true},
		"MinimumLeavesGap": {edit: func(s *endpoints.Spec) { s.MinInterval = 10 * time.Minute }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := hourly(t, tc.edit)
			if tc.state != nil {
				tc.state(&b.endpoint().State)
			}
			asked := b.endpoint().State.RetryAfter
			run, finish := endpoints.Finished{}, tc.finish
			if finish == nil {
				finish = lost
			}
			decided := b.run(t, func(f *endpoints.Finished) { finish(f); run = *f })
			due := b.endpoint().State.Due
			require.Equal(t, due, decided.Due)
			require.Equal(t, tc.want, due.Slot.Equal(run.Slot))
			require.Equal(t, 1, due.Attempt, "the retry policy allows one attempt")
			if !tc.want {
				require.Zero(t, due.InfraAttempt)
				return
			}
			require.Equal(t, run.InfraAttempt+1, due.InfraAttempt)
			require.Equal(t, run.Source, due.Source)
			require.False(t, due.At.Before(asked))
			require.Zero(t, b.endpoint().State.FailureCount)
			step := decided.Decision.Steps[len(decided.Decision.Steps)-1]
			why := fmt.Sprintf("infrastructure attempt %d of 3 after %s", due.InfraAttempt, run.Reason)
			require.Equal(t, governor.Step{Rule: endpoints.RuleInfraRetry, At: due.At, Why: why}, step)
		})
	}
}

// TestInfrastructureAttemptsHaveTheirOwnBudget: infrastructure attempts have a budget of their own.
// All runs of a due time are lost: three infrastructure attempts with growing waits come first, and
// then the attempts of the retry policy.
func TestInfrastructureAttemptsHaveTheirOwnBudget(t *testing.T) {
	t.Parallel()
	b := retrying(t, nil)
	slot := b.endpoint().State.Due.Slot
	for n, want := range []struct{ attempt, infra int }{{1, 0}, {1, 1}, {1, 2}, {1, 3}, {2, 3}, {3, 3}} {
		due := b.endpoint().State.Due
		require.Equal(t, slot, due.Slot)
		require.Equal(t, want.attempt, due.Attempt, "run %d", n)
		require.Equal(t, want.infra, due.InfraAttempt, "run %d", n)
		if 1 <= n && n <= 3 {
			wait, bounds := due.At.Sub(b.memory.now), [][2]float64{{1, 2}, {4, 8}, {16, 30}}[n-1]
			require.GreaterOrEqual(t, wait.Seconds(), bounds[0])
			require.LessOrEqual(t, wait.Seconds(), bounds[1])
		}
		b.run(t, lost)
	}
	state := b.endpoint().State
	require.Equal(t, slot.Add(time.Hour), state.Due.Slot, "the schedule goes on where it was")
	require.Zero(t, state.Due.InfraAttempt, "each due time has a budget of its own")
	require.Zero(t, state.FailureCount)
}

// TestAttemptsAfterALossFollowTheRetryPolicy has a due time with one lost run. Its later attempts
// fail and follow the retry policy.
func TestAttemptsAfterALossFollowTheRetryPolicy(t *testing.T) {
	t.Parallel()
	b := retrying(t, nil)
	b.run(t, lost)
	for attempt := 1; attempt <= 3; attempt++ {
		require.Equal(t, attempt, b.endpoint().State.Due.Attempt)
		require.Equal(t, 1, b.endpoint().State.Due.InfraAttempt)
		b.run(t, failed)
	}
	require.Equal(t, 1, b.endpoint().State.FailureCount)
	require.Equal(t, 1, b.endpoint().State.Due.Attempt)
	require.Zero(t, b.endpoint().State.Due.InfraAttempt)
}

// TestInfrastructureAttemptsStayWithinBounds draws losses of random endpoints and compares the plan
// with the rules.
func TestInfrastructureAttemptsStayWithinBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		duration := func(label string, low, high time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(low.Milliseconds(), high.Milliseconds()).Draw(rt, label)) * time.Millisecond
		}
		e := endpoints.Endpoint{ID: endpoints.NewID(), Spec: valid(), CreatedAt: start}
		s := &e.Spec
		s.Method = rapid.SampledFrom([]string{"GET", "HEAD", "OPTIONS", "POST", "PATCH", "PUT", "DELETE"}).Draw(rt, "method")
		s.Idempotent = rapid.Bool().Draw(rt, "idempotent")
		s.BaselineInterval = duration("interval", time.Second, 24*time.Hour)
		if rapid.Bool().Draw(rt, "min?") {
			s.MinInterval = duration("min", time.Second, time.Hour)
		}
		f := endpoints.Finished{
			Slot: start, Attempt: 1, InfraAttempt: rapid.IntRange(0, 4).Draw(rt, "infra"), StartedAt: start.Add(duration("late", 0, time.Hour)),
			Interrupted: true, MaybeSent: rapid.Bool().Draw(rt, "sent"), Unanswered: true, Status: "lost", Reason: "shutdown",
		}
		now := f.StartedAt.Add(duration("took", 0, time.Minute))
		without := e
		plain := f
		plain.Interrupted = false
		decided, err := e.AfterRun(now, f)
		next, nextErr := without.AfterRun(now, plain)
		if err != nil || nextErr != nil {
			rt.Fatal(err, nextErr)
		}
		safe := s.Method == "GET" || s.Method == "HEAD" || s.Method == "OPTIONS" || s.Idempotent || !f.MaybeSent
		latest := now.Add(30 * time.Second)
		if lowest := f.StartedAt.Add(s.MinInterval); s.MinInterval > 0 && lowest.After(latest) {
			latest = lowest
		}
		due := decided.Due
		if due.InfraAttempt == 0 {
			if safe && f.InfraAttempt < 3 && latest.Before(next.Due.At) {
				rt.Fatalf("not tried again before %v", next.Due.At)
			}
			return
		}
		switch {
		case !safe:
			rt.Fatalf("a %s that may have arrived is sent again", s.Method)
		case due.InfraAttempt != f.InfraAttempt+1 || due.InfraAttempt > 3 || due.Attempt != 1 || !due.Slot.Equal(start):
			rt.Fatalf("%+v after infrastructure attempt %d", due, f.InfraAttempt)
		case !due.At.Before(next.Due.At) || due.At.Before(now.Add(time.Second)) || due.At.After(latest):
			rt.Fatalf("at %v, not in [%v, %v] and before %v", due.At, now.Add(time.Second), latest, next.Due.At)
		case s.MinInterval > 0 && due.At.Before(f.StartedAt.Add(s.MinInterval)):
			rt.Fatalf("at %v, %v after the last start", due.At, due.At.Sub(f.StartedAt))
		case e.State.FailureCount != 0:
			rt.Fatal("a loss counts as a failure")
		}
	})
}

// TestAChangeKeepsTheInfrastructureAttemptThatWaits changes an endpoint while an infrastructure
// attempt is planned.
func TestAChangeKeepsTheInfrastructureAttemptThatWaits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*endpoints.Spec)
		want   bool
	}{
		"Description": {change: func(s *endpoints.Spec) { s.Description = "anew" }, want: true},
		"UnsafeNow":   {change: func(s *endpoints.Spec) { s.Method = "PUT" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := hourly(t, nil)
			b.run(t, lost)
			waiting := b.endpoint().State.Due
			_, _, err := b.Edit(t.Context(), actor, b.id, 0, func(s endpoints.Spec) (endpoints.Spec, error) { tc.change(&s); return s, nil })
			require.NoError(t, err)
			require.Equal(t, tc.want, b.endpoint().State.Due == waiting)
			recorded := b.memory.ledger[len(b.memory.ledger)-1]
			if tc.want {
				require.Equal(t, endpoints.RuleInfraRetry, recorded.Decision.Steps[len(recorded.Decision.Steps)-1].Rule)
			} else {
				require.Zero(t, recorded.Due.InfraAttempt)
			}
		})
	}
}

// TestInfrastructureAttemptKeepsTheGrid starts an infrastructure attempt late. The interval still
// counts from its due time, and no due time is recorded twice.
func TestInfrastructureAttemptKeepsTheGrid(t *testing.T) {
	t.Parallel()
	b := hourly(t, nil)
	slot := b.endpoint().State.Due.Slot
	b.run(t, lost)
	b.pass(time.Minute)
	b.run(t, nil)
	require.Equal(t, slot.Add(time.Hour), b.endpoint().State.Due.Slot)
	require.Empty(t, b.endpoint().Unrecorded)
}
