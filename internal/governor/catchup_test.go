package governor_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/governor"
)

func TestCatchUpPolicies(t *testing.T) {
	t.Parallel()
	bc, overran := governor.SourceBaselineCron, rules(governor.RuleBaselineCron, governor.RuleOverrun)
	five := on(grid(5 * minute))
	in := func(policy governor.CatchUp, now time.Duration) governor.Input {
		return governor.Input{Now: at(now), Anchor: T, Baseline: five, CatchUp: policy}
	}
	replan := in(governor.CatchUpSkip, 17*minute)
	replan.Cause = governor.CauseReplan
	runCases(t, []ruleCase{
		{name: "OnceIsTheDefault", in: in("", 17*minute), wantAt: at(17 * minute), wantSlot: at(15 * minute), wantSource: bc, wantRules: overran},
		{name: "OnceStandsForTheLast", in: in(governor.CatchUpOnce, 17*minute), wantAt: at(17 * minute), wantSlot: at(15 * minute), wantSource: bc, wantRules: overran},
		{name: "UnknownIsOnce", in: in("often", 17*minute), wantAt: at(17 * minute), wantSlot: at(15 * minute), wantSource: bc},
		{name: "OnceAtAnOccurrenceStandsForIt", in: in(governor.CatchUpOnce, 15*minute), wantAt: at(15 * minute), wantSource: bc},
		{name: "OnceAfterOneOccurrence", in: in(governor.CatchUpOnce, 5*minute+1), wantAt: at(5*minute + 1), wantSlot: at(5 * minute), wantSource: bc},
		{
			name: "OnceStandsForNothingOnRecord", wantAt: at(17 * minute), wantSource: bc,
			in: governor.Input{Now: at(17 * minute), Anchor: T, Baseline: five, OnRecord: at(15 * minute)},
		},
		{
			name: "OnceOfAnIrregularCron", wantAt: at(hour), wantSlot: at(33 * minute), wantSource: bc,
			in: governor.Input{Now: at(hour), Anchor: T, Baseline: on(listed{at(minute), at(31 * minute), at(33*minute - 1), at(33 * minute), at(2 * hour)})},
		},
		{
			name: "OnceUnderAPauseStandsForTheNext", wantAt: at(30 * minute), wantSource: governor.SourcePaused,
			in: governor.Input{Now: at(17 * minute), Anchor: T, Baseline: five, PausedUntil: at(28 * minute)},
		},
		{
			name: "OnceWaitsForTheMinimum", wantAt: at(18 * minute), wantSlot: at(15 * minute), wantSource: governor.SourceClampedMin,
			in: governor.Input{Now: at(17 * minute), Anchor: T, LastStart: at(16 * minute), Baseline: five, Min: 2 * minute},
		},
		{
			name: "PassedRetryAfterStandsForTheLast", wantAt: at(17 * minute), wantSlot: at(15 * minute), wantSource: governor.SourceRetryAfter,
			in: governor.Input{Now: at(17 * minute), Anchor: T, Baseline: five, RetryAfter: at(6 * minute)},
		},
		{name: "SkipWaitsForTheGrid", in: in(governor.CatchUpSkip, 17*minute), wantAt: at(20 * minute), wantSource: bc, wantRules: overran},
		{name: "SkipTakesAnOccurrenceThatIsNow", in: in(governor.CatchUpSkip, 15*minute), wantAt: at(15 * minute), wantSource: bc},
		{name: "SkipHoldsInAReplan", in: replan, wantAt: at(20 * minute), wantSource: bc},
		{name: "AllStandsForTheOldest", in: in(governor.CatchUpAll, 17*minute), wantAt: at(17 * minute), wantSlot: at(5 * minute), wantSource: bc, wantRules: overran},
		{name: "AllLeavesWhatIsNotOverdue", in: in(governor.CatchUpAll, 5*minute), wantAt: at(5 * minute), wantSource: bc, wantRules: rules(governor.RuleBaselineCron)},
		{
			name: "SkipOfACronThatIsOver", wantAt: governor.Indefinite, wantSource: bc,
			in: governor.Input{Now: at(hour), Anchor: T, Baseline: on(listed{at(minute)}), CatchUp: governor.CatchUpSkip},
		},
		{
			name: "AllOfACronThatIsOverStillRunsWhatItMissed", wantAt: at(hour), wantSlot: at(minute), wantSource: bc,
			in: governor.Input{Now: at(hour), Anchor: T, Baseline: on(listed{at(minute)}), CatchUp: governor.CatchUpAll},
		},
		{
			name: "OneShotsKnowNoCatchUp", wantAt: at(17 * minute), wantSource: governor.SourceAIOneShot,
			in: governor.Input{
				Now: at(17 * minute), Anchor: T, LastSlot: T, Baseline: five, CatchUp: governor.CatchUpAll, OneShot: hintOnce(minute, hour),
			},
		},
		{
			name: "ClampKeepsTheSlot", wantAt: at(18 * minute), wantSlot: at(5 * minute), wantSource: governor.SourceClampedMin,
			in: governor.Input{Now: at(17 * minute), Anchor: T, Baseline: five, CatchUp: governor.CatchUpAll, Min: 18 * minute},
		},
		{
			name: "PauseLeavesTheBacklog", wantAt: at(30 * minute), wantSource: governor.SourcePaused,
			in: governor.Input{
				Now: at(17 * minute), Anchor: T, Baseline: five, CatchUp: governor.CatchUpAll, PausedUntil: at(28 * minute),
			},
		},
		{
			name: "PassedRetryAfterCatchesUpToo", wantAt: at(17 * minute), wantSlot: at(5 * minute), wantSource: governor.SourceRetryAfter,
			in: governor.Input{
				Now: at(17 * minute), Anchor: T, Baseline: five, CatchUp: governor.CatchUpAll, RetryAfter: at(6 * minute),
			},
		},
	})
}

func TestCatchUpAllIsBounded(t *testing.T) {
	t.Parallel()
	bc := governor.SourceBaselineCron
	in := func(now time.Time, c governor.Cron) governor.Input {
		return governor.Input{Now: now, Anchor: T, Baseline: on(c), CatchUp: governor.CatchUpAll}
	}
	burst := make(listed, 0, 150) // a clump, 13 hours before now, that no halving of the time alone would cut well
	for i := range 150 {
		burst = append(burst, at(hour+time.Duration(i)*second))
	}
	runCases(t, []ruleCase{
		{name: "OneHundredAreAllRun", in: in(at(100*minute+1), grid(minute)), wantAt: at(100*minute + 1), wantSlot: at(minute), wantSource: bc},
		{name: "OfOneHundredAndOneTheOldestIsLeftOut", in: in(at(101*minute), grid(minute)), wantAt: at(101 * minute), wantSlot: at(2 * minute), wantSource: bc},
		{name: "OfSixHundredTheLastHundredRemain", in: in(at(600*minute), grid(minute)), wantAt: at(600 * minute), wantSlot: at(501 * minute), wantSource: bc},
		{name: "ClumpIsCutInside", in: in(at(14*hour), burst), wantAt: at(14 * hour), wantSlot: at(hour + 50*second), wantSource: bc},
		{name: "TwentyFourHoursAgoIsWithinReach", in: in(at(25*hour), listed{at(hour), at(30 * hour)}), wantAt: at(25 * hour), wantSlot: at(hour), wantSource: bc},
		{name: "JustOverIsNot", in: in(at(25*hour+1), listed{at(hour), at(30 * hour)}), wantAt: at(30 * hour), wantSource: bc},
		{name: "TooOldAndOver", in: in(at(25*hour+1), listed{at(hour)}), wantAt: governor.Indefinite, wantSource: bc},
		{name: "OnlyTheOneThatIsNowIsWithinReach", in: in(at(25*hour+1), listed{at(hour), at(25*hour + 1)}), wantAt: at(25*hour + 1), wantSource: bc},
	})
}

// TestCatchUpAllAsksLittle bounds the work after an outage of a year with a cron of every
// nanosecond that a time can name.
func TestCatchUpAllAsksLittle(t *testing.T) {
	t.Parallel()
	for period, limit := range map[time.Duration]int{1: 5000, time.Millisecond: 3000, second: 1500, minute: 700, hour: 40} {
		c := &counted{Cron: grid(period)}
		got := governor.Decide(governor.Input{Now: at(year), Anchor: T, Baseline: on(c), CatchUp: governor.CatchUpAll})
		require.Equal(t, at(year), got.At)
		require.Equal(t, max(at(year-99*period).UnixNano(), at(year-day).UnixNano()), got.Slot.UnixNano())
		require.Less(t, c.asked, limit, "period %v", period)
	}
}

// TestCatchUpAllDrainsOldestFirst follows the decisions of a backlog: every missed occurrence once,
// in order, then the grid.
func TestCatchUpAllDrainsOldestFirst(t *testing.T) {
	t.Parallel()
	in := governor.Input{Now: at(23 * minute), Anchor: T, Baseline: on(grid(5 * minute)), CatchUp: governor.CatchUpAll}
	slots := make([]time.Time, 0, 6)
	for range 6 {
		got := governor.Decide(in)
		slots = append(slots, got.Slot)
		in.Anchor, in.LastSlot = got.Slot, got.Slot
		in.Now = got.At.Add(second)
	}
	want := []time.Time{at(5 * minute), at(10 * minute), at(15 * minute), at(20 * minute), at(25 * minute), at(30 * minute)}
	require.Equal(t, want, slots)
}

// TestCatchUpAllFindsTheSameAsAWalk compares with the plain walk over every occurrence.
func TestCatchUpAllFindsTheSameAsAWalk(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		gaps := rapid.SliceOfN(rapid.Int64Range(1, int64(20*minute)), 1, 400).Draw(t, "gaps")
		scale := rapid.SampledFrom([]int64{1, 1000, 1_000_000}).Draw(t, "divided by")
		now := at(time.Duration(rapid.Int64Range(1, int64(60*hour)).Draw(t, "now")))
		c := make(listed, 0, len(gaps))
		last := now.Add(-30 * hour)
		for _, gap := range gaps {
			last = last.Add(time.Duration(gap/scale + 1))
			c = append(c, last)
		}
		anchor := now.Add(-time.Duration(rapid.Int64Range(1, int64(40*hour)).Draw(t, "anchor")))

		var missed []time.Time
		for _, o := range c {
			if o.After(anchor) && !o.After(now) && !o.Before(now.Add(-day)) {
				missed = append(missed, o)
			}
		}
		missed = missed[max(0, len(missed)-100):]
		first := slices.IndexFunc(c, func(o time.Time) bool { return o.After(anchor) })
		got := governor.Decide(governor.Input{Now: now, Anchor: anchor, Baseline: on(c), CatchUp: governor.CatchUpAll})
		if first >= 0 && c[first].Before(now) && len(missed) > 0 {
			require.Equal(t, missed[0], got.Slot)
			require.Equal(t, now, got.At)
			return
		}
		require.Equal(t, got.At, got.Slot)
	})
}

// TestBrokenCronsNeitherLoopNorReachBack gives crons that break their contract.
func TestBrokenCronsNeitherLoopNorReachBack(t *testing.T) {
	t.Parallel()
	crons := map[string]cronFunc{
		"Same":         func(after time.Time) time.Time { return after },
		"Earlier":      func(after time.Time) time.Time { return after.Add(-hour) },
		"Never":        func(time.Time) time.Time { return time.Time{} },
		"AlwaysOne":    func(time.Time) time.Time { return at(minute) },
		"Nanosecond":   func(after time.Time) time.Time { return after.Add(1) },
		"BackAndForth": func(after time.Time) time.Time { return after.Add(time.Duration(after.UnixNano()%7-3) * minute) },
		"FarAway":      func(time.Time) time.Time { return time.Unix(1<<62, 0) },
	}
	for name, c := range crons {
		for _, policy := range []governor.CatchUp{governor.CatchUpOnce, governor.CatchUpSkip, governor.CatchUpAll} {
			for _, now := range []time.Time{{}, T, at(hour), at(100 * day), governor.Indefinite} {
				for _, anchor := range []time.Time{{}, T.AddDate(-2000, 0, 0), T, at(hour)} {
					asked := &counted{Cron: c}
					in := governor.Input{Now: now, Anchor: anchor, Baseline: on(asked), CatchUp: policy, PausedUntil: at(90 * minute)}
					requireSound(t, in, governor.Decide(in))
					require.Less(t, asked.asked, 6000, "%s %s", name, policy)
				}
			}
		}
	}
}
