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

// TestRetryAfterIsBounded has a target name an instant years ahead.
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
