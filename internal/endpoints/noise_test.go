package endpoints_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
)

// TestCloseLooksAreOneShotsWithinTheClamps asks for a close look after each of three answers.
func TestCloseLooksAreOneShotsWithinTheClamps(t *testing.T) {
	t.Parallel()
	again := func(f *endpoints.Finished) { f.LookAgain = true }
	for name, tc := range map[string]struct {
		least, gap time.Duration
		source     governor.Source
	}{
		"NoMinimum":  {0, time.Second, governor.SourceAIOneShot},
		"OneSecond":  {time.Second, time.Second, governor.SourceAIOneShot},
		"TenSeconds": {10 * time.Second, 10 * time.Second, governor.SourceClampedMin},
	} {
		b := setup(t, func(s *endpoints.Spec) { s.MinInterval, s.Planner = tc.least, endpoints.PlannerAct })
		for range 3 {
			decided := b.run(t, again)
			require.Equal(t, b.memory.now.Add(tc.gap), decided.Due.At, name)
			require.Equal(t, tc.source, decided.Due.Source, name)
			require.Equal(t, endpoints.NoiseAuthor, b.endpoint().State.OneShotHint.Author)
		}
		b.run(t, nil)
		require.Nil(t, b.endpoint().State.OneShotHint, "the last look has used it")
	}
}

// TestCloseLooksYield: no close look is planned if the planner may not act, the user has set a
// one-shot hint, or the target names the next run.
func TestCloseLooksYield(t *testing.T) {
	t.Parallel()
	act := func(s *endpoints.Spec) { s.Planner = endpoints.PlannerAct }
	b := setup(t, func(s *endpoints.Spec) { s.Planner = endpoints.PlannerSuggest })
	b.run(t, func(f *endpoints.Finished) { f.LookAgain = true })
	require.Nil(t, b.endpoint().State.OneShotHint, "suggest may not act")

	b = setup(t, act)
	in := 30 * time.Second
	_, _, err := b.SetOneShotHint(t.Context(), actor, b.id, endpoints.HintRequest{In: &in, TTL: new(time.Hour)})
	require.NoError(t, err)
	b.memory.now = b.memory.now.Add(time.Second)
	decided := b.run(t, func(f *endpoints.Finished) { f.LookAgain = true })
	require.Equal(t, actor.Name, b.endpoint().State.OneShotHint.Author, "%v", decided.Decision.Steps)

	b = setup(t, act)
	b.run(t, func(f *endpoints.Finished) { f.LookAgain, f.TargetNext = true, f.FinishedAt.Add(45*time.Second) })
	require.Equal(t, governor.SourceTarget, b.endpoint().State.Due.Source, "the target holds it back")
}
