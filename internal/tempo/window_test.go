package tempo_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/tempo"
)

// TestNoPeriodHasMoreRunsThanTheBudget polls bursts, days and constant rates with several budgets,
// and counts the runs in the period before each of them.
func TestNoPeriodHasMoreRunsThanTheBudget(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		terms := tempo.Terms{
			Budget: tempo.Budget{
				Runs: rapid.Int64Range(1, 600).Draw(t, "runs"),
				Per:  rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "per"),
			},
			Shortest: time.Second,
			Longest:  30 * 24 * time.Hour,
		}
		period, most := terms.Budget.Per, terms.Budget.Runs
		if period < time.Hour {
			period, most = time.Hour, most*60
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		s := tempo.NewState()
		var starts []time.Time
		var digest uint64 = 1
		for at, end := epoch, epoch.Add(3*period); at.Before(end); at = at.Add(s.Wait) {
			starts = append(starts, at)
			if random.IntN(200) == 0 || digest%3 > 0 { // Bursts of a few changes.
				digest += uint64(random.IntN(2))
			}
			s.After(tempo.Look{At: at, Answered: random.IntN(10) > 0, Digest: digest}, terms)
			first := slices.IndexFunc(starts, func(start time.Time) bool { return start.After(at.Add(-period)) })
			require.LessOrEqual(t, int64(len(starts)-first), most, "runs in the %s before %s", period, at)
		}
	})
}

// TestBudgetIsUsedUp has all 100 runs of its budget in the first minutes of an hour, and waits
// until the first of them are out of the hour. The period is that of the budget in force.
func TestBudgetIsUsedUp(t *testing.T) {
	t.Parallel()
	terms := tempo.Terms{
		Budget:   tempo.Budget{Runs: 100, Per: time.Hour},
		Shortest: time.Second,
		Longest:  24 * time.Hour,
	}
	s := tempo.NewState()
	at := epoch
	for n := range 100 {
		at = epoch.Add(time.Duration(n) * time.Second)
		s.After(tempo.Look{At: at, Answered: true, Digest: uint64(n + 1)}, terms)
		require.Equal(t, n == 99, s.UsedUp, "run %d", n)
	}
	require.Equal(t, epoch.Add(time.Hour+10*time.Second), at.Add(s.Wait), "the runs of the first ten seconds are out of the hour")
	require.InDelta(t, 0.5, s.Reserve, 1e-6, "an hour's wait is the largest reserve")

	clamped := s
	terms.Longest = time.Minute
	clamped.After(tempo.Look{At: at.Add(time.Second), Answered: true, Digest: 9}, terms)
	require.Equal(t, time.Minute, clamped.Wait, "the clamp holds")

	terms.Longest = 24 * time.Hour
	terms.Budget.Per = 24 * time.Hour
	edited := s
	edited.After(tempo.Look{At: at.Add(time.Second), Answered: true, Digest: 9}, terms)
	require.False(t, edited.UsedUp, "the runs of the day count from the edit on")

	terms.Budget = tempo.Budget{Runs: 1, Per: time.Hour, Implied: true}
	s.After(tempo.Look{At: at.Add(time.Second), Answered: true, Digest: 9}, terms)
	require.False(t, s.UsedUp, "no user set the budget of a baseline")
	require.Zero(t, s.Past)
	require.Zero(t, s.Reserve)
}

// TestReserveLeavesRunsForBursts compares the runs of an hour between its bursts with those of the
// budget.
func TestReserveLeavesRunsForBursts(t *testing.T) {
	t.Parallel()
	s := tempo.NewState()
	burst := func(hour float64) float64 {
		if minute := hour * 60; int(minute)%27 < 2 {
			return 0.5
		}
		return 0
	}
	poll(&s, hourly, 48, burst)
	require.Greater(t, s.Reserve, 0.02)
	before := s.Reserve
	at := s.RanAt.Add(96 * time.Hour)
	s.After(tempo.Look{At: at, Answered: true, Digest: s.Digest}, hourly)
	require.Less(t, s.Reserve, before/4)
}
