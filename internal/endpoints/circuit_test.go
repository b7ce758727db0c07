package endpoints_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
)

// held makes a finished run one that the breaker of its host held back for a time.
func held(wait time.Duration) func(*endpoints.Finished) {
	return func(f *endpoints.Finished) {
		f.Status, f.Reason, f.Verdict, f.Retryable, f.MaybeSent, f.Unanswered = "skipped", "circuit_open", endpoints.Neutral, false, false, true
		f.OpenUntil = f.FinishedAt.Add(wait)
	}
}

// TestShortIntervalWaitsForItsHost moves the due times of a window, whatever the maximum says.
func TestShortIntervalWaitsForItsHost(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) { s.BaselineInterval, s.MaxInterval = time.Second, 2*time.Second })
	decided := b.run(t, held(33*time.Second))
	require.Equal(t, governor.SourceCircuitOpen, decided.Due.Source)
	require.Equal(t, b.memory.now.Add(33*time.Second), decided.Due.At)
	require.Equal(t, decided.Due.At, decided.Due.Slot)
	require.Zero(t, b.endpoint().State.FailureCount)
	b.pass(33 * time.Second)
	decided = b.run(t, nil)
	require.Empty(t, b.endpoint().Unrecorded, "the due times of the window have moved")
	require.Equal(t, b.memory.now.Add(time.Second).Truncate(time.Second), decided.Due.At.Truncate(time.Second))
}

// TestLongIntervalTriesTheSameDueTimeAgain has a host that stays open for many windows.
func TestLongIntervalTriesTheSameDueTimeAgain(t *testing.T) {
	t.Parallel()
	b := hourly(t, func(s *endpoints.Spec) { s.Method, s.BaselineInterval = "POST", 24*time.Hour })
	slot := b.endpoint().State.Due.Slot
	for n := range 10 {
		decided := b.run(t, held(time.Minute))
		require.Equal(t, slot, decided.Due.Slot)
		require.Equal(t, n+1, decided.Due.InfraAttempt)
		require.Equal(t, b.memory.now.Add(time.Minute), decided.Due.At)
		require.Contains(t, decided.Decision.Steps[len(decided.Decision.Steps)-1].Why, "to find the circuit of the host closed")
		b.pass(time.Minute)
	}
	decided := b.run(t, held(time.Minute))
	require.Zero(t, decided.Due.InfraAttempt, "the attempts are used up")
	require.Equal(t, slot.Add(24*time.Hour), decided.Due.Slot)
}
