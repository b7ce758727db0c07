package endpoints_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
)

// TestRetryAfterIsBounded has a Retry-After years ahead.
func TestRetryAfterIsBounded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit func(*endpoints.Spec)
		wait time.Duration
	}{
		"AnHour":       {nil, time.Hour},
		"ManyTimes":    {func(s *endpoints.Spec) { s.BaselineInterval = 10 * time.Minute }, 320 * time.Minute},
		"Cron":         {func(s *endpoints.Spec) { s.BaselineInterval, s.BaselineCron = 0, "0 * * * *" }, 32 * time.Hour},
		"Maximum":      {func(s *endpoints.Spec) { s.MaxInterval = 2 * time.Hour }, 2 * time.Hour},
		"ShortMaximum": {func(s *endpoints.Spec) { s.MaxInterval = 5 * time.Minute }, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, tc.edit)
			var ended time.Time
			decided := b.run(t, func(f *endpoints.Finished) {
				failed(f)
				f.RetryAfter, ended = f.FinishedAt.Add(99_999_999*time.Second), f.FinishedAt
			})
			require.WithinDuration(t, ended.Add(tc.wait), decided.Due.At, time.Second)
			require.True(t, slices.ContainsFunc(decided.Decision.Steps, func(s governor.Step) bool {
				return s.Rule == governor.RuleRetryAfter && strings.Contains(s.Why, ", cut to ")
			}), "%v", decided.Decision.Steps)
		})
	}
	b := setup(t, nil)
	decided := b.run(t, func(f *endpoints.Finished) { failed(f); f.RetryAfter = f.FinishedAt.Add(time.Hour) })
	require.NotContains(t, decided.Decision.Steps[len(decided.Decision.Steps)-1].Why, "cut")
}

// TestTargetSetsTheNextRun has a target that asks for 45 s after each answer, for an endpoint with
// an interval of a second and one of ten minutes.
func TestTargetSetsTheNextRun(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{time.Second, 10 * time.Minute} {
		b := setup(t, func(s *endpoints.Spec) { s.BaselineInterval = interval })
		polls := 0
		for end := start.Add(1580 * time.Second); b.memory.now.Before(end); polls++ {
			decided := b.run(t, func(f *endpoints.Finished) { f.TargetNext = f.FinishedAt.Add(45 * time.Second) })
			require.Equal(t, governor.SourceTarget, decided.Due.Source)
			require.Equal(t, b.memory.now.Add(45*time.Second), decided.Due.At)
			b.pass(45 * time.Second)
		}
		require.Equal(t, 36, polls)
		decided := b.run(t, nil)
		require.Zero(t, b.endpoint().State.TargetNext, "the next answer asked for nothing")
		require.Equal(t, governor.SourceBaselineInterval, decided.Due.Source)
	}
}

// TestTargetHoldsBackRetries has an answer that names the next run and fails by a success rule.
func TestTargetHoldsBackRetries(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(*endpoints.Finished, time.Time){
		"Next":  func(f *endpoints.Finished, at time.Time) { f.TargetNext = at },
		"Fresh": func(f *endpoints.Finished, at time.Time) { f.FreshUntil = at },
	} {
		b := setup(t, func(s *endpoints.Spec) { s.BaselineInterval, s.Retry.MaxAttempts = time.Hour, 3 })
		var asked time.Time
		decided := b.run(t, func(f *endpoints.Finished) {
			failed(f)
			asked = f.FinishedAt.Add(45 * time.Second)
			ask(f, asked)
		})
		require.False(t, decided.Due.At.Before(asked), name)
		decided = b.run(t, func(f *endpoints.Finished) { f.Status, f.Verdict, f.Unanswered = "lost", endpoints.Neutral, true })
		require.NotEqual(t, governor.SourceTarget, decided.Due.Source, "it has been served")
	}
}

// TestRetryAfterEndsWithAChangeOfTarget edits the endpoint while a wait of its target is in force.
func TestRetryAfterEndsWithAChangeOfTarget(t *testing.T) {
	t.Parallel()
	wish := start.Add(time.Hour)
	for name, tc := range map[string]struct {
		edit        func(*endpoints.Spec)
		next, fresh time.Time
	}{
		"Name":      {func(s *endpoints.Spec) { s.Name = "other" }, wish, wish},
		"Origin":    {func(s *endpoints.Spec) { s.URL = "https://other.example/" }, time.Time{}, time.Time{}},
		"NextOff":   {func(s *endpoints.Spec) { s.FollowNext = false }, time.Time{}, wish},
		"MaxAgeOff": {func(s *endpoints.Spec) { s.FollowMaxAge = false }, wish, time.Time{}},
	} {
		e := endpoints.Endpoint{Spec: valid(), State: endpoints.State{TargetNext: wish, FreshUntil: wish}}
		e.Spec.FollowNext, e.Spec.FollowMaxAge = true, true
		spec := e.Spec
		tc.edit(&spec)
		e.Revise(spec, start)
		require.Equal(t, tc.next, e.State.TargetNext, name)
		require.Equal(t, tc.fresh, e.State.FreshUntil, name)
	}
}
