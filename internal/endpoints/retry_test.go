package endpoints_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
)

// TestAChangeKeepsTheAttemptThatWaits changes an endpoint between two attempts of one due time.
func TestAChangeKeepsTheAttemptThatWaits(t *testing.T) {
	t.Parallel()
	edit := func(change func(*endpoints.Spec)) func(*testing.T, *bundle) {
		return func(t *testing.T, b *bundle) {
			t.Helper()
			_, _, err := b.Edit(t.Context(), actor, b.id, 0, func(s endpoints.Spec) (endpoints.Spec, error) { change(&s); return s, nil })
			require.NoError(t, err)
		}
	}
	hint := func(interval time.Duration) func(*testing.T, *bundle) {
		return func(t *testing.T, b *bundle) {
			t.Helper()
			_, _, err := b.SetIntervalHint(t.Context(), actor, b.id, endpoints.HintRequest{Interval: interval, TTL: new(time.Hour)})
			require.NoError(t, err)
		}
	}
	for name, tc := range map[string]struct {
		spec   func(*endpoints.Spec)
		finish func(*endpoints.Finished)
		change func(*testing.T, *bundle)
		want   bool
	}{
		"Description": {change: edit(func(s *endpoints.Spec) { s.Description = "anew" }), want: true},
		"Hint":        {change: hint(10 * time.Minute), want: true},
		"HintThatComesNext": {change: func(t *testing.T, b *bundle) {
			t.Helper()
			b.pass(10 * time.Second) // After the attempt, however long its wait is.
			hint(time.Second)(t, b)
		}},
		"ResetFailures": {change: func(t *testing.T, b *bundle) {
			t.Helper()
			_, err := b.ResetFailures(t.Context(), actor, b.id)
			require.NoError(t, err)
		}, want: true},
		"ResetFailuresWhenTheNextDueTimeComesFirst": {change: func(t *testing.T, b *bundle) {
			t.Helper()
			b.pass(3 * b.endpoint().Spec.BaselineInterval)
			_, err := b.ResetFailures(t.Context(), actor, b.id)
			require.NoError(t, err)
		}},
		"Pause": {change: func(t *testing.T, b *bundle) {
			t.Helper()
			_, err := b.Pause(t.Context(), actor, b.id, endpoints.PauseRequest{})
			require.NoError(t, err)
		}},
		"RunNow": {change: func(t *testing.T, b *bundle) {
			t.Helper()
			_, err := b.RunNow(t.Context(), actor, b.id, endpoints.OneOffRequest{})
			require.NoError(t, err)
		}},
		"FewerAttempts": {change: edit(func(s *endpoints.Spec) { s.Retry.MaxAttempts = 1 })},
		"NoRepetition":  {change: edit(func(s *endpoints.Spec) { s.Method = "POST" })},
		"APOSTThatNeverLeft": {
			spec:   func(s *endpoints.Spec) { s.Method = "POST" },
			finish: func(f *endpoints.Finished) { failed(f); f.MaybeSent = false },
			change: edit(func(s *endpoints.Spec) { s.Description = "anew" }), want: true,
		},
		"ALostRun": {
			finish: func(f *endpoints.Finished) { failed(f); f.Status, f.Verdict = "lost", endpoints.Neutral },
			change: edit(func(s *endpoints.Spec) { s.Description = "anew" }), want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := retrying(t, tc.spec)
			finish := tc.finish
			if finish == nil {
				finish = failed
			}
			b.run(t, finish)
			waiting := b.endpoint().State.Due
			require.Equal(t, 2, waiting.Attempt)
			tc.change(t, b)
			due := b.endpoint().State.Due
			if !tc.want {
				require.Equal(t, 1, due.Attempt)
				failures := 1
				if name == "Pause" || strings.HasPrefix(name, "ResetFailures") {
					failures = 0
				}
				require.Equal(t, failures, b.endpoint().State.FailureCount, "a due time fails with its last attempt, and a pause withdraws that")
				return
			}
			require.Equal(t, waiting, due)
			require.Zero(t, b.endpoint().State.FailureCount, "a due time has failed when its last attempt has")
			recorded := b.memory.ledger[len(b.memory.ledger)-1]
			require.Equal(t, due, recorded.Due)
			require.Equal(t, endpoints.RuleRetry, recorded.Decision.Steps[len(recorded.Decision.Steps)-1].Rule)
		})
	}
}
