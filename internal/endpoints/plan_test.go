package endpoints_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
)

func TestARunCountsFromItsDueTimeUnlessItStartsLate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit   func(*endpoints.Spec)
		late   time.Duration
		finish func(*endpoints.Finished)
		want   time.Duration // the anchor, after the due time
	}{
		"OnTime":               {late: 0, want: 0},
		"ASecondLate":          {late: time.Second, want: 0},
		"MoreThanASecondLate":  {late: time.Second + time.Millisecond, want: time.Second + time.Millisecond},
		"WholeMilliseconds":    {late: 5*time.Second + 1500*time.Microsecond, want: 5*time.Second + time.Millisecond},
		"AnotherAttempt":       {late: time.Minute, finish: func(f *endpoints.Finished) { f.Attempt = 2 }, want: 0},
		"CatchingUpOnEveryOne": {edit: everyMinute(governor.CatchUpAll), late: time.Hour, want: 0},
		"CatchingUpOnce":       {edit: everyMinute(governor.CatchUpOnce), late: time.Hour, want: time.Hour},
		"OneThatWasSkipped":    {late: time.Hour, finish: func(f *endpoints.Finished) { f.Status = "skipped" }, want: 0},
		"JitterIsNotLateness":  {edit: func(s *endpoints.Spec) { s.BaselineInterval, s.Jitter = time.Hour, 30*time.Minute }, late: 0, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, tc.edit)
			due := b.endpoint().State.Due
			b.memory.now = due.At.Add(tc.late)
			b.run(t, tc.finish)
			require.Equal(t, due.Slot.Add(tc.want), b.endpoint().State.Anchor)
			require.Equal(t, due.Slot, b.endpoint().State.LastSlot)
		})
	}
}

func TestOnlyOccurrencesOfACronThatSkipsAreMissed(t *testing.T) {
	t.Parallel()
	const over = time.Minute + time.Millisecond
	spec := func(c governor.CatchUp) endpoints.Spec { s := endpoints.Defaults(); everyMinute(c)(&s); return s }
	for name, tc := range map[string]struct {
		spec   endpoints.Spec
		source governor.Source
		late   time.Duration
		want   bool
	}{
		"Late":              {spec(governor.CatchUpSkip), governor.SourceBaselineCron, over, true},
		"AfterAPause":       {spec(governor.CatchUpSkip), governor.SourcePaused, over, true},
		"AMinuteLate":       {spec(governor.CatchUpSkip), governor.SourceBaselineCron, time.Minute, false},
		"OnceForAll":        {spec(governor.CatchUpOnce), governor.SourceBaselineCron, over, false},
		"Each":              {spec(governor.CatchUpAll), governor.SourceBaselineCron, over, false},
		"AskedFor":          {spec(governor.CatchUpSkip), governor.SourceManual, over, false},
		"Hinted":            {spec(governor.CatchUpSkip), governor.SourceAIOneShot, over, false},
		"TheTargetAskedFor": {spec(governor.CatchUpSkip), governor.SourceRetryAfter, over, false},
		"ByAClamp":          {spec(governor.CatchUpSkip), governor.SourceClampedMax, over, false},
		"AnInterval": {
			func() endpoints.Spec { s := endpoints.Defaults(); s.CatchUp = governor.CatchUpSkip; return s }(), governor.SourcePaused, over, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.spec.Misses(tc.source, tc.late))
		})
	}
}

// TestNoDueTimeIsServedTwiceWhenTheClockIsSetBack requests a run after the database's clock was set
// back to before the end of a pause. The end of the pause had been served as a due time.
func TestNoDueTimeIsServedTwiceWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.run(t, nil)
	paused := b.memory.now.Add(10 * time.Minute)
	_, err := b.Pause(t.Context(), actor, b.id, endpoints.PauseRequest{Until: paused})
	require.NoError(t, err)
	b.memory.now = paused
	b.run(t, nil)
	require.Equal(t, paused, b.endpoint().State.LastSlot)

	b.memory.now = paused.Add(-5 * time.Minute)
	_, err = b.RunNow(t.Context(), actor, b.id, endpoints.OneOffRequest{})
	require.NoError(t, err)
	b.run(t, nil)
	state := b.endpoint().State
	require.Equal(t, paused, state.LastSlot)
	require.True(t, state.Due.Slot.After(paused), "%s was served", state.Due.Slot)
}

func everyMinute(c governor.CatchUp) func(*endpoints.Spec) {
	return func(s *endpoints.Spec) { s.BaselineInterval, s.BaselineCron, s.CatchUp = 0, "* * * * *", c }
}

// TestAFixedRateDoesNotDrift has runs of some length. The grid stays.
func TestAFixedRateDoesNotDrift(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for n := range 10 {
		require.Equal(t, start.Add(time.Duration(n)*time.Minute), b.endpoint().State.Due.At)
		due := b.endpoint().State.Due
		b.memory.now = due.At.Add(20 * time.Second)
		b.run(t, func(f *endpoints.Finished) { f.StartedAt = due.At.Add(300 * time.Millisecond) })
	}
}

func TestVerdictsMoveTheFailureCount(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for i, tc := range []struct {
		verdict endpoints.Verdict
		want    int
	}{
		{endpoints.Failure, 1},
		{endpoints.Failure, 2},
		{endpoints.Neutral, 2},
		{endpoints.Failure, 3},
		{endpoints.Success, 0},
		{endpoints.Neutral, 0},
		{endpoints.Failure, 1},
	} {
		b.run(t, func(f *endpoints.Finished) { f.Verdict = tc.verdict })
		require.Equal(t, tc.want, b.endpoint().State.FailureCount, "step %d", i)
	}
	require.Equal(t, b.endpoint().State.Anchor.Add(2*time.Minute), b.endpoint().State.Due.At, "one failure doubles the interval")
}

func TestRetryAfterHoldsForOneDecision(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	wait := start.Add(10 * time.Minute)
	decided := b.run(t, func(f *endpoints.Finished) { failed(f); f.RetryAfter = wait })
	require.Equal(t, governor.SourceRetryAfter, decided.Due.Source)
	require.Equal(t, wait, b.endpoint().State.Due.At)
	b.run(t, nil)
	require.Zero(t, b.endpoint().State.RetryAfter)
	require.Equal(t, wait.Add(time.Minute), b.endpoint().State.Due.At)
}

// TestRetryAfterHoldsUntilNextAnswer: a Retry-After stays in force after a requested run without an
// answer, because it was lost or no connection was made.
func TestRetryAfterHoldsUntilNextAnswer(t *testing.T) {
	t.Parallel()
	for name, finish := range map[string]func(*endpoints.Finished){
		"Lost":         func(f *endpoints.Finished) { f.Status, f.Verdict, f.Unanswered = "lost", endpoints.Neutral, true },
		"NoConnection": func(f *endpoints.Finished) { failed(f); f.Unanswered = true },
	} {
		for _, attempts := range []int{1, 3} {
			b := setup(t, func(s *endpoints.Spec) { s.Retry.MaxAttempts = attempts })
			wait := start.Add(time.Hour)
			b.run(t, func(f *endpoints.Finished) { failed(f); f.Retryable, f.RetryAfter = false, wait })
			b.pass(time.Second)
			_, err := b.RunNow(t.Context(), actor, b.id, endpoints.OneOffRequest{})
			require.NoError(t, err)
			b.run(t, finish)
			require.Equal(t, wait, b.endpoint().State.Due.At, name)
			require.Equal(t, governor.SourceRetryAfter, b.endpoint().State.Due.Source, name)
			b.run(t, nil)
			require.Zero(t, b.endpoint().State.RetryAfter, name)
		}
	}
}

// TestRetryAfterIsDroppedWithNewOrigin edits the URL while a Retry-After is in force.
func TestRetryAfterIsDroppedWithNewOrigin(t *testing.T) {
	t.Parallel()
	const before = "https://Target.example/a?b=c"
	wait := start.Add(10 * time.Minute)
	for url, forgotten := range map[string]bool{
		before:                             false,
		"https://target.example/other":     false,
		"https://target.example:443?b=d":   false,
		"https://target.example":           false,
		"https://other.example/a?b=c":      true,
		"https://target.example:8443/a":    true,
		"http://target.example/a?b=c":      true,
		"http://target.example:443/a?b=c":  true,
		"https://target.example.org/a?b=c": true,
	} {
		b := setup(t, func(s *endpoints.Spec) { s.URL = before })
		b.run(t, func(f *endpoints.Finished) { failed(f); f.RetryAfter = wait })
		e, _, err := b.Edit(t.Context(), actor, b.id, 0, func(s endpoints.Spec) (endpoints.Spec, error) { s.URL = url; return s, nil })
		require.NoError(t, err)
		require.Equal(t, forgotten, e.State.RetryAfter.IsZero(), url)
		require.Equal(t, !forgotten, e.State.Due.At.Equal(wait), url)
		require.Equal(t, 1, e.State.FailureCount, "failures are about the endpoint")
	}
}

func TestOneShotHintIsClearedByTheRunThatServesIt(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.run(t, nil)
	_, _, err := b.SetOneShotHint(t.Context(), actor, b.id, endpoints.HintRequest{In: new(10 * time.Second), TTL: new(time.Hour)})
	require.NoError(t, err)
	require.Equal(t, governor.SourceAIOneShot, b.endpoint().State.Due.Source)
	b.run(t, nil)
	require.Nil(t, b.endpoint().State.OneShotHint)

	_, _, err = b.SetOneShotHint(t.Context(), actor, b.id, endpoints.HintRequest{In: new(5 * time.Minute), TTL: new(time.Hour)})
	require.NoError(t, err)
	b.run(t, nil)
	require.NotNil(t, b.endpoint().State.OneShotHint, "a run before its time does not serve it")
	require.Equal(t, governor.SourceBaselineInterval, b.endpoint().State.Due.Source)
}

func TestFinishKeepsTheSummaryOfTheRun(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.endpoint().State.Running = &endpoints.Running{Slot: start, Attempt: 1, StartedAt: start}
	b.run(t, func(f *endpoints.Finished) { f.FinishedAt = start.Add(time.Second); f.Status = "timed_out" })
	require.Nil(t, b.endpoint().State.Running)
	require.Equal(t, &endpoints.LastRun{Slot: start, Attempt: 1, Status: "timed_out", StartedAt: start, FinishedAt: start.Add(time.Second)}, b.endpoint().State.LastRun)
}

func TestADecisionNamesItsInput(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) { s.MinInterval, s.MaxInterval, s.Jitter = time.Second, time.Hour, time.Second })
	decided := b.run(t, failed)
	require.Equal(t, endpoints.CauseFinish, decided.Cause)
	require.Equal(t, 1, decided.Input.Failures)
	require.Equal(t, start, decided.Input.Anchor.Truncate(time.Second))
	require.Equal(t, time.Second, decided.Input.Min)
	require.Equal(t, time.Hour, decided.Input.Max)
	replayed := governor.Decide(decided.Input)
	require.Equal(t, replayed, decided.Decision, "the ledger replays")
}

func TestAnUnusableBaselineIsAnError(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.endpoint().Spec.BaselineCron = "61 * * * *"
	_, err := b.endpoint().Replan(start)
	require.ErrorContains(t, err, b.id.String())
	quarantined := b.endpoint().Quarantine(start, err)
	state := b.endpoint().State
	require.Equal(t, governor.Indefinite, state.Due.At)
	require.Equal(t, governor.Indefinite, state.PausedUntil)
	require.Contains(t, state.PauseReason, "quarantined: ")
	require.Equal(t, state.Due, quarantined.Due)
	require.Equal(t, endpoints.CauseQuarantine, quarantined.Cause)
	require.Contains(t, quarantined.Decision.Steps[0].Why, "cannot be used")
}

// retrying returns an endpoint with a retry policy, changed by edit.
func retrying(t *testing.T, edit func(*endpoints.Spec)) *bundle {
	t.Helper()
	return setup(t, func(s *endpoints.Spec) {
		s.BaselineInterval = time.Hour
		s.Retry = endpoints.Retry{MaxAttempts: 3, Backoff: 10 * time.Second, MaxBackoff: time.Minute}
		if edit != nil {
			edit(s)
		}
	})
}

func TestRetriesFollowThePolicy(t *testing.T) {
	t.Parallel()
	post := func(s *endpoints.Spec) { s.Method = "POST" }
	unsent := func(f *endpoints.Finished) { failed(f); f.MaybeSent = false }
	for name, tc := range map[string]struct {
		edit   func(*endpoints.Spec)
		finish func(*endpoints.Finished)
		state  func(*endpoints.State)
		want   bool
	}{
		"AFailureThatMayPass":      {finish: failed, want: true},
		"ASuccess":                 {},
		"AFailureThatStays":        {finish: func(f *endpoints.Finished) { failed(f); f.Retryable = false }},
		"TheLastAttempt":           {finish: func(f *endpoints.Finished) { failed(f); f.Attempt = 3 }},
		"TheLastButOne":            {finish: func(f *endpoints.Finished) { failed(f); f.Attempt = 2 }, want: true},
		"NoPolicy":                 {edit: func(s *endpoints.Spec) { s.Retry.MaxAttempts = 1 }, finish: failed},
		"APOSTThatMayHaveArrived":  {edit: post, finish: failed},
		"APOSTThatDidNotLeave":     {edit: post, finish: unsent, want: true},
		"APOSTThatBearsIt":         {edit: func(s *endpoints.Spec) { s.Method, s.Idempotent = "POST", true }, finish: failed, want: true},
		"APATCHThatMayHaveArrived": {edit: func(s *endpoints.Spec) { s.Method = "PATCH" }, finish: failed},
		"APUTThatMayHaveArrived":   {edit: func(s *endpoints.Spec) { s.Method = "PUT" }, finish: failed, want: true},
		"ALostGET":                 {finish: func(f *endpoints.Finished) { failed(f); f.Verdict = endpoints.Neutral }, want: true},
		"PausedMeanwhile":          {finish: failed, state: func(s *endpoints.State) { s.PausedUntil = start.Add(time.Second) }},
		"PauseThatIsOver":          {finish: failed, state: func(s *endpoints.State) { s.PausedUntil = start }, want: true},
		"NotPastTheNextDueTime":    {edit: func(s *endpoints.Spec) { s.BaselineInterval = time.Second }, finish: func(f *endpoints.Finished) { failed(f); f.RetryAfter = start.Add(30 * time.Second) }},
		"TheTargetAskedToWait":     {finish: func(f *endpoints.Finished) { failed(f); f.RetryAfter = start.Add(20 * time.Minute) }, want: true},
		"TheMinimumLeavesNoRoom":   {edit: func(s *endpoints.Spec) { s.MinInterval = 2 * time.Hour }, finish: failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := retrying(t, tc.edit)
			if tc.state != nil {
				tc.state(&b.endpoint().State)
			}
			slot := b.endpoint().State.Due.Slot
			decided := b.run(t, tc.finish)
			due := b.endpoint().State.Due
			require.Equal(t, due, decided.Due)
			require.Equal(t, due.At, decided.Decision.At)
			require.Equal(t, due.At, decided.Decision.Steps[len(decided.Decision.Steps)-1].At)
			require.Equal(t, tc.want, due.Attempt > 1)
			if tc.want {
				require.Equal(t, slot, due.Slot)
				require.Zero(t, b.endpoint().State.FailureCount, "a due time has failed when its last attempt has")
				require.Equal(t, endpoints.RuleRetry, decided.Decision.Steps[len(decided.Decision.Steps)-1].Rule)
			}
		})
	}
}

// TestAttemptsKeepTheSourceOfTheirDueTime fails runs of due times with different sources.
func TestAttemptsKeepTheSourceOfTheirDueTime(t *testing.T) {
	t.Parallel()
	for want, set := range map[governor.Source]func(*testing.T, *bundle){
		governor.SourceBaselineInterval: func(*testing.T, *bundle) {},
		governor.SourceAIOneShot: func(t *testing.T, b *bundle) {
			t.Helper()
			_, _, err := b.SetOneShotHint(t.Context(), actor, b.id, endpoints.HintRequest{In: new(time.Second), TTL: new(time.Hour)})
			require.NoError(t, err)
		},
		governor.SourceAIInterval: func(t *testing.T, b *bundle) {
			t.Helper()
			_, _, err := b.SetIntervalHint(t.Context(), actor, b.id, endpoints.HintRequest{Interval: 10 * time.Minute, TTL: new(time.Hour)})
			require.NoError(t, err)
		},
		governor.SourceManual: func(t *testing.T, b *bundle) {
			t.Helper()
			_, err := b.RunNow(t.Context(), actor, b.id, endpoints.OneOffRequest{})
			require.NoError(t, err)
		},
	} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			b := retrying(t, nil)
			b.run(t, nil)
			set(t, b)
			require.Equal(t, want, b.endpoint().State.Due.Source)
			for attempt := 2; attempt <= 3; attempt++ {
				decided := b.run(t, failed)
				require.Equal(t, attempt, decided.Due.Attempt)
				require.Equal(t, want, decided.Due.Source)
				require.Equal(t, want, decided.Decision.Source)
			}
		})
	}
}

func TestTheLastAttemptCountsAsOneFailure(t *testing.T) {
	t.Parallel()
	b := retrying(t, nil)
	for attempt := 1; attempt <= 3; attempt++ {
		require.Equal(t, attempt, b.endpoint().State.Due.Attempt)
		require.Equal(t, start, b.endpoint().State.Due.Slot)
		b.run(t, failed)
	}
	require.Equal(t, 1, b.endpoint().State.FailureCount)
	require.Equal(t, start.Add(2*time.Hour), b.endpoint().State.Due.At)
	b.run(t, failed)
	b.run(t, nil)
	require.Zero(t, b.endpoint().State.FailureCount, "a second attempt that succeeds clears the count")
}

// TestRetriesKeepTheirBounds draws retry policies and failures.
func TestRetriesKeepTheirBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		duration := func(name string, from, to time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(from.Milliseconds(), to.Milliseconds()).Draw(rt, name)) * time.Millisecond
		}
		e := endpoints.Endpoint{ID: endpoints.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "id")), Spec: valid()}
		s := &e.Spec
		s.Method = rapid.SampledFrom([]string{"GET", "POST", "PATCH", "PUT"}).Draw(rt, "method")
		s.Idempotent = rapid.Bool().Draw(rt, "idempotent")
		s.BaselineInterval = duration("interval", time.Second, 24*time.Hour)
		if rapid.Bool().Draw(rt, "min?") {
			s.MinInterval = duration("min", time.Second, time.Hour)
		}
		s.Retry.MaxBackoff = duration("maxBackoff", time.Millisecond, 24*time.Hour)
		s.Retry.Backoff = duration("backoff", time.Millisecond, min(s.Retry.MaxBackoff, time.Hour))
		s.Retry.MaxAttempts = rapid.IntRange(1, 10).Draw(rt, "attempts")
		f := endpoints.Finished{
			Slot: start, Attempt: rapid.IntRange(1, 10).Draw(rt, "attempt"), StartedAt: start.Add(duration("late", 0, time.Hour)),
			Verdict: endpoints.Failure, Retryable: true, MaybeSent: rapid.Bool().Draw(rt, "sent"),
		}
		now := f.StartedAt.Add(duration("took", 0, time.Minute))
		twin, without := e, e
		without.Spec.Retry.MaxAttempts = 1
		decided, err := e.AfterRun(now, f)
		again, twinErr := twin.AfterRun(now, f)
		next, nextErr := without.AfterRun(now, f)
		if err != nil || twinErr != nil || nextErr != nil {
			rt.Fatal(err, twinErr, nextErr)
		}
		if !decided.Due.At.Equal(again.Due.At) {
			rt.Fatal("the same failure is tried again at another time")
		}
		if decided.Due.Attempt == 1 {
			return
		}
		bound := min(s.Retry.Backoff<<min(f.Attempt-1, 20), s.Retry.MaxBackoff)
		latest := now.Add(bound)
		if lowest := f.StartedAt.Add(s.MinInterval); lowest.After(latest) {
			latest = lowest
		}
		switch due := decided.Due; {
		case due.Attempt != f.Attempt+1 || due.Attempt > s.Retry.MaxAttempts:
			rt.Fatalf("attempt %d after %d of %d", due.Attempt, f.Attempt, s.Retry.MaxAttempts)
		case f.MaybeSent && !s.IdempotentMethod() && !s.Idempotent:
			rt.Fatal("a request that may have arrived is sent again")
		case !due.At.Before(next.Due.At):
			rt.Fatalf("at %v, past the next due time %v", due.At, next.Due.At)
		case due.At.Before(now) || due.At.After(latest):
			rt.Fatalf("at %v, not between %v and %v", due.At, now, latest)
		case s.MinInterval > 0 && due.At.Before(f.StartedAt.Add(s.MinInterval)):
			rt.Fatalf("at %v, %v after the last start", due.At, due.At.Sub(f.StartedAt))
		}
	})
}

func TestRetryWaitsHaveJitter(t *testing.T) {
	t.Parallel()
	waits := map[time.Duration]bool{}
	for range 50 {
		b := retrying(t, nil)
		b.run(t, failed)
		waits[b.endpoint().State.Due.At.Sub(start)] = true
	}
	require.Greater(t, len(waits), 40, "endpoints that fail together come back apart")
}

// TestAnAttemptThatWaitsKeepsTheMinimum raises the minimum interval while an attempt is planned,
// and lets one become overdue.
func TestAnAttemptThatWaitsKeepsTheMinimum(t *testing.T) {
	t.Parallel()
	b := retrying(t, nil)
	b.run(t, failed)
	_, _, err := b.Edit(t.Context(), actor, b.id, 0, func(s endpoints.Spec) (endpoints.Spec, error) {
		s.MinInterval = 20 * time.Minute
		return s, nil
	})
	require.NoError(t, err)
	due := b.endpoint().State.Due
	require.Equal(t, 2, due.Attempt)
	require.Equal(t, start.Add(20*time.Minute), due.At)

	overdue := b.pass(30 * time.Minute)
	_, err = b.Resume(t.Context(), actor, b.id)
	require.NoError(t, err)
	due = b.endpoint().State.Due
	require.Equal(t, 2, due.Attempt)
	require.Equal(t, overdue, due.At, "nothing is planned for the past")
	require.Equal(t, start, due.Slot)
}

// TestNoTwoStartsAreCloserThanTheMinimum covers starts that the grid alone would not keep apart:
// runs that catch up after an outage, for due times far back and close together, and a retry
// shortly before the next due time.
func TestNoTwoStartsAreCloserThanTheMinimum(t *testing.T) {
	t.Parallel()
	const minimum = 10 * time.Minute
	starts := func(t *testing.T, b *bundle, finish func(*endpoints.Finished)) {
		t.Helper()
		last := b.memory.now
		for range 5 {
			b.run(t, finish)
			require.GreaterOrEqual(t, b.memory.now.Sub(last), minimum)
			last = b.memory.now
			b.pass(time.Second) // A change takes a moment.
			_, err := b.Resume(t.Context(), actor, b.id)
			require.NoError(t, err)
		}
	}
	t.Run("CatchingUp", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(s *endpoints.Spec) { everyMinute(governor.CatchUpAll)(s); s.MinInterval = minimum })
		slot := b.run(t, nil).Due.Slot
		b.pass(50 * time.Minute)
		b.run(t, nil)
		starts(t, b, nil)
		require.Equal(t, slot.Add(5*time.Minute), b.endpoint().State.LastSlot, "oldest first, none left out")
	})
	t.Run("AfterAnEditThatEndsTheCatchingUp", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(s *endpoints.Spec) { everyMinute(governor.CatchUpAll)(s); s.MinInterval = minimum })
		b.run(t, nil)
		b.pass(50 * time.Minute)
		b.run(t, nil)
		_, _, err := b.Edit(t.Context(), actor, b.id, 0, func(s endpoints.Spec) (endpoints.Spec, error) {
			s.CatchUp = governor.CatchUpOnce
			return s, nil
		})
		require.NoError(t, err)
		starts(t, b, nil)
	})
	t.Run("ButOneThatWasSkippedIsNoStart", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(s *endpoints.Spec) { everyMinute(governor.CatchUpSkip)(s); s.MinInterval = minimum })
		b.run(t, nil)
		b.pass(50 * time.Minute)
		decided := b.run(t, func(f *endpoints.Finished) { f.Status = "skipped"; f.Verdict = endpoints.Neutral })
		require.LessOrEqual(t, decided.Due.At.Sub(b.memory.now), time.Minute)
	})
	t.Run("AfterAnotherAttempt", func(t *testing.T) {
		t.Parallel()
		b := retrying(t, func(s *endpoints.Spec) { s.BaselineInterval, s.MinInterval = 15*time.Minute, minimum })
		b.run(t, failed)
		require.Equal(t, 2, b.endpoint().State.Due.Attempt)
		starts(t, b, nil)
		require.Empty(t, b.endpoint().Unrecorded)
	})
}
