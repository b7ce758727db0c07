package tempo_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/runs"
	"rubato/internal/tempo"
)

var epoch = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// hourly are terms with a budget of 360 runs an hour.
var hourly = tempo.Terms{
	Budget:   tempo.Budget{Runs: 360, Per: time.Hour},
	Shortest: time.Second,
	Longest:  time.Minute,
}

// poll runs an endpoint for a time against changes at a rate, and returns its runs of each hour.
func poll(s *tempo.State, terms tempo.Terms, hours int, rate func(hour float64) float64) []int {
	random := rand.New(rand.NewPCG(1, 2))
	counts := make([]int, hours)
	var digest uint64 = 1
	for at := 0.0; at < float64(hours)*3600; {
		counts[int(at/3600)]++
		s.After(tempo.Look{
			At:       epoch.Add(time.Duration(at * 1e9)),
			Answered: true,
			Digest:   digest,
		}, terms)
		at += s.Wait.Seconds()
		if random.Float64() > math.Exp(-rate(at/3600)*s.Wait.Seconds()) {
			digest++
		}
	}
	return counts
}

func constant(rate float64) func(float64) float64 { return func(float64) float64 { return rate } }

// TestOwnBudgetHoldsEveryHour lets the answers change at constant rates. No hour has more runs than
// the budget. The first hour may leave more of it, because the first price is a guess.
func TestOwnBudgetHoldsEveryHour(t *testing.T) {
	t.Parallel()
	terms := hourly
	terms.Longest = time.Hour // The longest interval wins over the budget.
	for _, rate := range []float64{1.0 / 5, 1.0 / 30, 1.0 / 300} {
		s := tempo.NewState()
		for hour, runs := range poll(&s, terms, 24, constant(rate)) {
			require.LessOrEqual(t, runs, 360, "hour %d at rate %g", hour, rate)
			if hour > 0 {
				require.GreaterOrEqual(t, runs, 306, "hour %d at rate %g", hour, rate)
			}
		}
	}
}

// TestImpliedBudgetMovesRunsFromNightToDay compares day with night for an endpoint with a baseline
// of 10 s.
func TestImpliedBudgetMovesRunsFromNightToDay(t *testing.T) {
	t.Parallel()
	terms := hourly
	terms.Budget = tempo.Budget{Runs: 1, Per: 10 * time.Second, Implied: true}
	s := tempo.NewState()
	counts := poll(&s, terms, 72, func(hour float64) float64 {
		if hour = math.Mod(hour, 24); hour >= 9 && hour < 17 {
			return 0.1
		}
		return 0.0005
	})
	var sum int
	for _, n := range counts[48:] {
		sum += n
	}
	require.Greater(t, counts[48+12], 8*counts[48+3])
	require.InEpsilon(t, 8640, sum, 0.25, "runs of the third day")
}

// TestImpliedBudgetWithoutMinimumOnlySlowsDown keeps the baseline as the shortest interval.
func TestImpliedBudgetWithoutMinimumOnlySlowsDown(t *testing.T) {
	t.Parallel()
	terms := tempo.Terms{
		Budget:   tempo.Budget{Runs: 1, Per: 10 * time.Second, Implied: true},
		Shortest: 10 * time.Second,
		Longest:  80 * time.Second,
	}
	s := tempo.NewState()
	counts := poll(&s, terms, 72, constant(1.0/3600))
	require.Less(t, counts[71], 360)
	require.Zero(t, s.Surplus, "unused runs are no reason to spend them")
}

// TestWaitReachesItsBound has the law's wait grow from less than a fifth below the longest wait to
// that wait, which hysteresis alone would ignore.
func TestWaitReachesItsBound(t *testing.T) {
	t.Parallel()
	terms := tempo.Terms{Shared: 1, Shortest: time.Second, Longest: 24 * time.Hour}
	s := tempo.NewState()
	poll(&s, terms, 2, constant(1.0/60))
	terms.Longest = s.Wait + s.Wait/10
	terms.Shared = 100
	s.After(tempo.Look{At: s.RanAt.Add(s.Wait), Answered: true, Digest: s.Digest}, terms)
	require.Equal(t, terms.Longest, s.Wait)
}

// TestHysteresisKeepsTheTempoStill counts the moves at a constant rate.
func TestHysteresisKeepsTheTempoStill(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1.0 / 5, 1.0 / 30, 1.0 / 300} {
		s := tempo.NewState()
		poll(&s, hourly, 2, constant(rate))
		random := rand.New(rand.NewPCG(3, 4))
		moves, before, digest := 0, s.Wait, s.Digest
		for at := s.RanAt; at.Before(epoch.Add(26 * time.Hour)); {
			at = at.Add(s.Wait)
			if random.Float64() > math.Exp(-rate*s.Wait.Seconds()) {
				digest++
			}
			s.After(tempo.Look{At: at, Answered: true, Digest: digest}, hourly)
			if s.Wait != before {
				moves++
			}
			before = s.Wait
		}
		require.LessOrEqual(t, moves/24, 6, "moves an hour at rate %g", rate)
	}
}

// TestNotModifiedKeepsTheDigest mixes status 304 with repeated answers: nothing changed.
func TestNotModifiedKeepsTheDigest(t *testing.T) {
	t.Parallel()
	same, marked := tempo.NewState(), tempo.NewState()
	for n := range 50 {
		at := epoch.Add(time.Duration(n) * 10 * time.Second)
		same.After(tempo.Look{At: at, Answered: true, Digest: 7}, hourly)
		look := tempo.Look{At: at, Answered: true, Digest: 7}
		if n%3 > 0 {
			look.Unchanged, look.Digest = true, 0
		}
		marked.After(look, hourly)
	}
	require.Equal(t, same, marked)
}

// TestFailedRunsCountAgainstTheBudgetOnly has a target that answers nothing for a while.
func TestFailedRunsCountAgainstTheBudgetOnly(t *testing.T) {
	t.Parallel()
	s := tempo.NewState()
	s.After(tempo.Look{At: epoch, Answered: true, Digest: 1}, hourly)
	before := s
	s.After(tempo.Look{At: epoch.Add(time.Second)}, hourly)
	require.Equal(t, before.Filter, s.Filter)
	require.Equal(t, before.LookedAt, s.LookedAt)
	require.Greater(t, s.Surplus, before.Surplus)
}

func TestStoredStateIsTheStateInMemory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := tempo.NewState()
		at := epoch
		for range rapid.IntRange(0, 30).Draw(t, "runs") {
			at = at.Add(time.Duration(rapid.Int64Range(-1e6, 3600e6).Draw(t, "gap")) * time.Microsecond)
			look := tempo.Look{
				At:        at,
				Answered:  rapid.Bool().Draw(t, "answered"),
				Unchanged: rapid.Bool().Draw(t, "unchanged"),
				Digest:    rapid.Uint64().Draw(t, "digest"),
			}
			s.After(look, hourly)
			stored := s.Encode()
			require.LessOrEqual(t, len(stored), 1024)
			again, err := tempo.Decode(stored)
			require.NoError(t, err)
			require.Equal(t, s, again)
		}
	})
	_, err := tempo.Decode(nil)
	require.ErrorIs(t, err, tempo.ErrUnknownState)
}

// TestSharedPriceHoldsABudget steps the price of a fleet by the runs of each ten seconds.
func TestSharedPriceHoldsABudget(t *testing.T) {
	t.Parallel()
	const fleet = 12
	budget := tempo.Budget{Runs: 3600, Per: time.Hour}
	random := rand.New(rand.NewPCG(5, 6))
	states, due := [fleet]tempo.State{}, [fleet]float64{}
	for i := range states {
		states[i], due[i] = tempo.NewState(), random.Float64()*10
	}
	digests := [fleet]uint64{}
	price, used, hours := budget.FirstPrice(), int64(0), [24]int{}
	for now := range 24 * 3600 {
		for i := range states {
			if due[i] > float64(now) {
				continue
			}
			rate := 1 / math.Pow(3, float64(i%6+1)) // a change every 3 s to every 12 min
			if random.Float64() > math.Exp(-rate*max(states[i].Wait.Seconds(), 1)) {
				digests[i]++
			}
			used++
			hours[now/3600]++
			states[i].After(tempo.Look{
				At:       epoch.Add(time.Duration(due[i] * 1e9)),
				Answered: true,
				Digest:   digests[i],
			}, tempo.Terms{Shared: price, Shortest: time.Second, Longest: 10 * time.Minute})
			due[i] += states[i].Wait.Seconds()
		}
		if now%10 == 9 {
			price, used = budget.Next(price, used, 10*time.Second), 0
		}
	}
	for hour, runs := range hours[1:] {
		require.InEpsilon(t, 3600, runs, 0.03, "hour %d", hour+1)
	}
}

// TestAnotherFormOfTheDigestIsNoChange has the compared members change between two looks.
func TestAnotherFormOfTheDigestIsNoChange(t *testing.T) {
	t.Parallel()
	s := tempo.NewState()
	look := func(minute int, digest uint64) tempo.Filter {
		s.After(tempo.Look{At: epoch.Add(time.Duration(minute) * time.Minute), Answered: true, Digest: digest}, hourly)
		return s.Filter
	}
	look(0, runs.Tagged(1, 0))
	before := look(1, runs.Tagged(1, 0))
	require.Equal(t, before, look(2, runs.Tagged(2, 7)), "neither changed nor unchanged")
	unchanged := look(3, runs.Tagged(2, 7))
	require.Less(t, unchanged.Rate(), before.Rate())
	changed := look(4, runs.Tagged(3, 7))
	require.Greater(t, changed.Rate(), unchanged.Rate())
}
