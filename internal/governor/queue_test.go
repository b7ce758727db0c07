package governor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/governor"
)

func TestQueueRule(t *testing.T) {
	t.Parallel()
	bi, bc, minutely := governor.SourceBaselineInterval, governor.SourceBaselineCron, every(minute)
	now := at(3*minute + 10*second) // three due times of a minute passed under the run of T
	in := func(change func(*governor.Input)) governor.Input {
		in := governor.Input{Now: now, Anchor: T, Baseline: minutely, QueuedUntil: now}
		change(&in)
		return in
	}
	lined := rules(governor.RuleBaselineInterval, governor.RuleQueued)
	runCases(t, []ruleCase{
		{name: "OldestFirst", in: in(func(*governor.Input) {}), wantAt: now, wantSlot: at(minute), wantSource: bi, wantRules: lined},
		{
			name: "NoneIsQueuedWithoutThePolicy", in: in(func(in *governor.Input) { in.QueuedUntil = time.Time{} }),
			wantAt: now.Add(minute), wantSource: bi, wantRules: rules(governor.RuleBaselineInterval, governor.RuleOverrun),
		},
		{
			name: "CronToo", in: in(func(in *governor.Input) { in.Baseline = on(grid(minute)) }),
			wantAt: now, wantSlot: at(minute), wantSource: bc, wantRules: rules(governor.RuleBaselineCron, governor.RuleQueued),
		},
		{
			name: "CatchUpIsForTimesWithoutARun", in: in(func(in *governor.Input) { in.Baseline, in.CatchUp = on(grid(minute)), governor.CatchUpSkip }),
			wantAt: now, wantSlot: at(minute), wantSource: bc,
		},
		{name: "LastOfThem", in: in(func(in *governor.Input) { in.Anchor = at(2 * minute) }), wantAt: now, wantSlot: at(3 * minute), wantSource: bi},
		{name: "EmptyQueue", in: in(func(in *governor.Input) { in.Anchor = at(3 * minute) }), wantAt: at(4 * minute), wantSource: bi},
		{
			name: "DueTimeOfTheDecision", in: in(func(in *governor.Input) { in.Now, in.QueuedUntil = at(minute), at(minute) }),
			wantAt: at(minute), wantSource: bi, wantRules: lined,
		},
		{
			name: "ChangeKeepsIt", in: in(func(in *governor.Input) { in.Cause, in.QueuedUntil = governor.CauseReplan, at(2*minute) }),
			wantAt: now, wantSlot: at(minute), wantSource: bi, wantRules: lined,
		},
		{
			name: "PassedAfterTheRun", in: in(func(in *governor.Input) { in.Cause, in.QueuedUntil = governor.CauseReplan, at(minute-1) }),
			wantAt: now, wantSource: bi, wantRules: rules(governor.RuleBaselineInterval, governor.RuleOverrun),
		},
		{name: "RecordedIsNotRun", in: in(func(in *governor.Input) { in.Accounted = at(minute) }), wantAt: now, wantSlot: at(2 * minute), wantSource: bi},
		{
			name: "BackoffWidensTheGrid", in: in(func(in *governor.Input) { in.Failures = 1 }),
			wantAt: now, wantSlot: at(2 * minute), wantSource: bi,
		},
		{
			name: "HintSetsTheGrid", in: in(func(in *governor.Input) { in.IntervalHint = hintEvery(90*second, hour) }),
			wantAt: now, wantSlot: at(90 * second), wantSource: governor.SourceAIInterval,
		},
		{
			name: "OneShotInItsTurn", in: in(func(in *governor.Input) { in.OneShot = hintOnce(30*second, hour) }),
			wantAt: now, wantSlot: at(30 * second), wantSource: governor.SourceAIOneShot,
		},
		{
			name: "OneShotAfterTheGridOfTheMaximum", wantAt: now, wantSlot: at(minute), wantSource: governor.SourceClampedMax,
			in: in(func(in *governor.Input) {
				in.Baseline, in.Max, in.OneShot = every(hour), minute, hintOnce(90*second, hour)
			}),
		},
		{
			name: "MinimumWidensTheGrid", in: in(func(in *governor.Input) { in.Min = 2 * minute }),
			wantAt: now, wantSlot: at(2 * minute), wantSource: bi,
		},
		{
			name: "MaximumNarrowsTheGrid", in: in(func(in *governor.Input) { in.Baseline, in.Max = every(hour), 2*minute }),
			wantAt: now, wantSlot: at(2 * minute), wantSource: governor.SourceClampedMax,
		},
		{
			name: "MinimumAfterTheLastStart", in: in(func(in *governor.Input) { in.Min, in.LastStart = minute, at(3*minute) }),
			wantAt: at(4 * minute), wantSlot: at(minute), wantSource: governor.SourceClampedMin,
		},
		{
			name: "RetryAfterKeepsTheTurn", in: in(func(in *governor.Input) { in.RetryAfter = at(10 * minute) }),
			wantAt: at(10 * minute), wantSlot: at(minute), wantSource: governor.SourceRetryAfter,
			wantRules: rules(governor.RuleBaselineInterval, governor.RuleQueued, governor.RuleRetryAfter),
		},
		{
			name: "TargetHoldsItBack", in: in(func(in *governor.Input) { in.TargetNext = at(5 * minute) }),
			wantAt: at(5 * minute), wantSlot: at(minute), wantSource: governor.SourceTarget,
		},
		{name: "TargetAskedEarlier", in: in(func(in *governor.Input) { in.TargetNext = at(2 * minute) }), wantAt: now, wantSlot: at(minute), wantSource: bi},
		{
			name: "RateOfChangeSetsTheGrid", in: in(func(in *governor.Input) { in.ChangeRate = &governor.ChangeRate{Wait: 2 * minute} }),
			wantAt: now, wantSlot: at(2 * minute), wantSource: governor.SourceChangeRate,
		},
		{name: "NoJitter", in: in(func(in *governor.Input) { in.Jitter = hour }), wantAt: now, wantSlot: at(minute), wantSource: bi, wantRules: lined},
		{
			name: "PauseEndsIt", in: in(func(in *governor.Input) { in.PausedUntil = at(hour) }),
			wantAt: at(hour), wantSource: governor.SourcePaused,
		},
	})
}

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	in := func(now time.Duration, b governor.Baseline) governor.Input {
		return governor.Input{Now: at(now), Anchor: T, Baseline: b, QueuedUntil: at(now)}
	}
	bi, bc := governor.SourceBaselineInterval, governor.SourceBaselineCron
	replan := in(200*minute, every(minute))
	replan.QueuedUntil, replan.Cause = at(150*minute), governor.CauseReplan
	runCases(t, []ruleCase{
		{name: "OneHundredAreAllRun", in: in(100*minute+1, every(minute)), wantAt: at(100*minute + 1), wantSlot: at(minute), wantSource: bi},
		{name: "OfOneHundredAndOneTheOldestIsLeftOut", in: in(101*minute+1, every(minute)), wantAt: at(101*minute + 1), wantSlot: at(2 * minute), wantSource: bi},
		{name: "TheSameOfACron", in: in(101*minute+1, on(grid(minute))), wantAt: at(101*minute + 1), wantSlot: at(2 * minute), wantSource: bc},
		{name: "OnlyQueuedOnesCount", in: replan, wantAt: at(200 * minute), wantSlot: at(51 * minute), wantSource: bi},
		{name: "TwentyFourHoursAgoIsWithinReach", in: in(25*hour, every(hour)), wantAt: at(25 * hour), wantSlot: at(hour), wantSource: bi},
		{name: "JustOverIsNot", in: in(25*hour+1, every(hour)), wantAt: at(25*hour + 1), wantSlot: at(2 * hour), wantSource: bi},
		{name: "TooOldAreNotRun", in: in(50*hour, every(25*hour)), wantAt: at(50 * hour), wantSource: bi},
	})
}

// TestQueueOfAClampedCronIsInMilliseconds has more due times than may wait, between occurrences.
func TestQueueOfAClampedCronIsInMilliseconds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := at(time.Duration(rapid.Int64Range(int64(2*hour), int64(30*hour)).Draw(t, "now")))
		got := governor.Decide(governor.Input{
			Now: now, Anchor: T, Baseline: on(grid(5 * minute)), QueuedUntil: now,
			Min: time.Duration(rapid.IntRange(0, 40).Draw(t, "min")) * second, Max: 40 * second,
		})
		require.True(t, got.Slot.Before(now))
		require.Equal(t, got.Slot.Truncate(time.Millisecond), got.Slot)
	})
}

// TestQueueServesEachDueTimeOnce follows an endpoint with executions of any length: every due time
// has its run, in order, until the backlog reaches its bounds.
func TestQueueServesEachDueTimeOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		period := time.Duration(rapid.SampledFrom([]int{1, 2, 5, 12, 30, 60}).Draw(t, "period")) * second
		in := governor.Input{Anchor: T, Baseline: every(period)}
		if rapid.Bool().Draw(t, "is a cron") {
			in.Baseline = on(grid(period))
		}
		if rapid.Bool().Draw(t, "has min") {
			in.Min = period
		}
		execution := rapid.Int64Range(0, int64(3*period))
		start := T
		for n := range 40 {
			now := start.Add(time.Duration(execution.Draw(t, "execution")))
			in.Now, in.QueuedUntil, in.LastStart = now, now, governor.LastStart(start, in.Anchor, in.Min)
			got := governor.Decide(in)
			require.Equal(t, T.Add(time.Duration(n+1)*period), got.Slot, "%v", got.Steps)
			in.Anchor, in.LastSlot, start = got.Slot, got.Slot, got.At
		}
	})
}

// TestQueueAsksLittle bounds the work after a run of a year with a cron of every nanosecond.
func TestQueueAsksLittle(t *testing.T) {
	t.Parallel()
	for period, limit := range map[time.Duration]int{1: 5000, time.Millisecond: 3000, second: 1500, minute: 700, hour: 50} {
		c := &counted{Cron: grid(period)}
		got := governor.Decide(governor.Input{Now: at(year + 1), Anchor: T, Baseline: on(c), QueuedUntil: at(year + 1), Min: time.Nanosecond, Max: year})
		require.Equal(t, at(year+1), got.At)
		require.Equal(t, max(at(year+1).Truncate(period).Add(-99*period).UnixNano(), at(year+1-day).Add(period-1).Truncate(period).UnixNano()), got.Slot.UnixNano(), "period %v", period)
		require.Less(t, c.asked, limit, "period %v", period)
	}
}
