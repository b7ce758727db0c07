package governor_test

import (
	"math"
	"testing"
	"time"

	"rubato/internal/governor"
)

const (
	second = time.Second
	minute = time.Minute
	hour   = time.Hour
	day    = 24 * time.Hour
)

// year is the longest interval that can be registered.
const year = 366 * day

// longAgo leaves room for the longest duration before the end of time.
var longAgo = T.AddDate(-400, 0, 0)

func rules(names ...governor.Rule) []governor.Rule { return names }

func TestBaselineRule(t *testing.T) {
	t.Parallel()
	bi, bc := governor.SourceBaselineInterval, governor.SourceBaselineCron
	runCases(t, []ruleCase{
		{
			name: "OneFailureDoubles", wantAt: at(2 * minute), wantSource: bi,
			in:        governor.Input{Now: T, Anchor: T, Baseline: every(minute), Failures: 1},
			wantRules: rules(governor.RuleBaselineInterval),
		},
		{
			name: "FiveFailuresAreTheCap", wantAt: at(32 * minute), wantSource: bi,
			in: governor.Input{Now: T, Anchor: T, Baseline: every(minute), Failures: 5},
		},
		{
			name: "SixFailuresStayAtTheCap", wantAt: at(32 * minute), wantSource: bi,
			in: governor.Input{Now: T, Anchor: T, Baseline: every(minute), Failures: 6},
		},
		{
			name: "NegativeFailuresCountAsNone", wantAt: at(minute), wantSource: bi,
			in: governor.Input{Now: T, Anchor: T, Baseline: every(minute), Failures: math.MinInt},
		},
		{
			name: "ZeroIntervalIsOneSecond", wantAt: at(second), wantSource: bi,
			in: governor.Input{Now: T, Anchor: T},
		},
		{
			name: "NegativeIntervalIsOneSecond", wantAt: at(2 * second), wantSource: bi,
			in: governor.Input{Now: T, Anchor: T, Baseline: every(-hour), Failures: 1},
		},
		{
			name: "LongestIntervalAtTheCap", wantAt: at(32 * year), wantSource: bi,
			in: governor.Input{Now: T, Anchor: T, Baseline: every(year), Failures: 9},
		},
		{
			name: "LongestDurationStopsAtTheEnd", wantAt: governor.Indefinite, wantSource: bi,
			in: governor.Input{Now: T, Anchor: T, Baseline: every(math.MaxInt64), Failures: 9},
		},
		{
			name: "DoublingPastTheLongestDurationStopsThere", wantAt: longAgo.Add(math.MaxInt64), wantSource: bi,
			in: governor.Input{Now: longAgo, Anchor: longAgo, Baseline: every(1 << 62), Failures: 1},
		},
		{
			name: "DoublingToJustBelowTheLongestDurationIsExact", wantAt: longAgo.Add(math.MaxInt64 - 1), wantSource: bi,
			in: governor.Input{Now: longAgo, Anchor: longAgo, Baseline: every(math.MaxInt64 / 2), Failures: 1},
		},
		{
			name: "AnchorInTheFutureCounts", wantAt: at(hour + minute), wantSource: bi,
			in: governor.Input{Now: T, Anchor: at(hour), Baseline: every(minute)},
		},
		{
			name: "StartAtIsIgnoredOnceItHasRun", wantAt: at(minute), wantSource: bi,
			in: governor.Input{Now: T, Anchor: T, StartAt: at(hour), Baseline: every(minute)},
		},
		{
			name: "CronStrictlyAfterTheAnchor", wantAt: at(hour), wantSource: bc,
			in:        governor.Input{Now: T, Anchor: T, Baseline: on(grid(hour))},
			wantRules: rules(governor.RuleBaselineCron),
		},
		{
			name: "CronKnowsNoBackoff", wantAt: at(hour), wantSource: bc,
			in: governor.Input{Now: T, Anchor: T, Baseline: on(grid(hour)), Failures: 5},
		},
		{
			name: "CronWinsOverAnIntervalBesideIt", wantAt: at(hour), wantSource: bc,
			in: governor.Input{Now: T, Anchor: T, Baseline: governor.Baseline{Cron: grid(hour), Interval: minute}},
		},
		{
			name: "CronThatIsOver", wantAt: governor.Indefinite, wantSource: bc,
			in:        governor.Input{Now: T, Anchor: T, Baseline: on(listed{T})},
			wantRules: rules(governor.RuleBaselineCron),
		},
		{
			name: "CronPastTheEnd", wantAt: governor.Indefinite, wantSource: bc,
			in: governor.Input{Now: T, Anchor: T, Baseline: on(listed{at(200 * year)})},
		},
	})
}

func TestNeverRun(t *testing.T) {
	t.Parallel()
	bi, bc := governor.SourceBaselineInterval, governor.SourceBaselineCron
	runCases(t, []ruleCase{
		{
			name: "IntervalAtStartAt", wantAt: at(hour), wantSource: bi,
			in: governor.Input{Now: T, StartAt: at(hour), Baseline: every(minute)},
		},
		{
			name: "IntervalWithStartAtPastTheEnd", wantAt: governor.Indefinite, wantSource: bi,
			in: governor.Input{Now: T, StartAt: governor.Indefinite.Add(hour), Baseline: every(minute)},
		},
		{
			name: "StartAtInAnotherZone", wantAt: at(hour), wantSource: bi,
			in: governor.Input{Now: T, StartAt: at(hour).In(time.FixedZone("x", 3600)), Baseline: every(minute)},
		},
		{
			name: "IntervalWithStartAtInThePast", wantAt: T, wantSource: bi,
			in: governor.Input{Now: T, StartAt: at(-hour), Baseline: every(minute)},
		},
		{
			name: "FailuresDoNotDelayIt", wantAt: T, wantSource: bi,
			in: governor.Input{Now: T, Baseline: every(minute), Failures: 4},
		},
		{
			name: "FinishIsNoOverrun", wantAt: T, wantSource: bi,
			in:        governor.Input{Now: T, Cause: governor.CauseFinish, Baseline: every(minute)},
			wantRules: rules(governor.RuleBaselineInterval),
		},
		{
			name: "CronStrictlyAfterNow", wantAt: at(hour), wantSource: bc,
			in: governor.Input{Now: T, Baseline: on(grid(hour))},
		},
		{
			name: "CronFromStartAt", wantAt: at(3 * hour), wantSource: bc,
			in: governor.Input{Now: T, StartAt: at(3 * hour), Baseline: on(grid(hour))},
		},
		{
			name: "CronAfterStartAtOffTheGrid", wantAt: at(4 * hour), wantSource: bc,
			in: governor.Input{Now: T, StartAt: at(3*hour + 1), Baseline: on(grid(hour))},
		},
		{
			name: "CronWithStartAtNow", wantAt: at(hour), wantSource: bc,
			in: governor.Input{Now: T, StartAt: T, Baseline: on(grid(hour))},
		},
		{
			name: "CronWhoseFirstOccurrenceHasPassed", wantAt: T, wantSource: bc,
			in:        governor.Input{Now: T, Accounted: at(-90 * minute), Baseline: on(grid(hour))},
			wantRules: rules(governor.RuleBaselineCron, governor.RuleOverrun),
		},
		{
			name: "CronWhoseFirstOccurrenceHasPassedAndIsSkipped", wantAt: at(hour), wantSource: bc,
			in: governor.Input{Now: at(second), Accounted: at(-90 * minute), Baseline: on(grid(hour)), CatchUp: governor.CatchUpSkip},
		},
		{
			name: "CronThatIsAccountedForUpToItsFirstOccurrenceToCome", wantAt: at(hour), wantSource: bc,
			in:        governor.Input{Now: at(minute), Accounted: T, Baseline: on(grid(hour))},
			wantRules: rules(governor.RuleBaselineCron),
		},
		{
			name: "CronOwesNothingFromBeforeStartAt", wantAt: at(hour), wantSource: bc,
			in: governor.Input{Now: at(minute), Accounted: at(-3 * hour), StartAt: at(second), Baseline: on(grid(hour))},
		},
		{name: "IntervalHintIsDueAtOnce", in: governor.Input{Now: T, Baseline: on(grid(hour)), IntervalHint: hintEvery(minute, hour)}, wantAt: T, wantSource: governor.SourceAIInterval},
		{name: "IntervalHintWaitsForStartAt", in: governor.Input{Now: T, StartAt: at(minute), Baseline: every(hour), IntervalHint: hintEvery(minute, hour)}, wantAt: at(minute), wantSource: governor.SourceAIInterval},
		{name: "OneShotBeforeStartAt", in: governor.Input{Now: T, StartAt: at(hour), Baseline: every(hour), OneShot: hintOnce(minute, hour)}, wantAt: at(minute), wantSource: governor.SourceAIOneShot},
		{name: "OverdueOneShotBecomesNow", in: governor.Input{Now: T, Baseline: on(grid(hour)), OneShot: hintOnce(-minute, hour)}, wantAt: T, wantSource: governor.SourceAIOneShot},
		{name: "RetryAfterApplies", in: governor.Input{Now: T, Baseline: every(minute), RetryAfter: at(hour)}, wantAt: at(hour), wantSource: governor.SourceRetryAfter},
		{name: "PauseApplies", in: governor.Input{Now: T, Baseline: every(minute), PausedUntil: at(hour)}, wantAt: at(hour), wantSource: governor.SourcePaused},
		{
			name: "ClampsHaveNothingToCountFrom", wantAt: at(hour), wantSource: bi,
			in: governor.Input{Now: T, StartAt: at(hour), Baseline: every(minute), Min: 2 * hour, Max: second},
		},
	})
}

func TestHintRule(t *testing.T) {
	t.Parallel()
	bi, ai, once := governor.SourceBaselineInterval, governor.SourceAIInterval, governor.SourceAIOneShot
	with := func(interval *governor.IntervalHint, shot *governor.OneShotHint, lastSlot time.Time) governor.Input {
		return governor.Input{Now: T, Anchor: T, LastSlot: lastSlot, Baseline: every(10 * minute), IntervalHint: interval, OneShot: shot}
	}
	fresh := time.Duration(1)
	runCases(t, []ruleCase{
		{
			name: "IntervalHintExpiringNowIsExpired", wantAt: at(10 * minute), wantSource: bi,
			in:        with(hintEvery(minute, 0), nil, T),
			wantRules: rules(governor.RuleBaselineInterval),
		},
		{
			name: "IntervalHintExpiringJustAfterNowCounts", wantAt: at(minute), wantSource: ai,
			in:        with(hintEvery(minute, fresh), nil, T),
			wantRules: rules(governor.RuleBaselineInterval, governor.RuleAIInterval),
		},
		{
			name: "IntervalHintMayBeLongerThanTheBaseline", wantAt: at(hour), wantSource: ai,
			in: with(hintEvery(hour, fresh), nil, T),
		},
		{
			name: "IntervalHintOfNothingIsIgnored", wantAt: at(10 * minute), wantSource: bi,
			in: with(hintEvery(0, hour), nil, T),
		},
		{
			name: "NegativeIntervalHintIsIgnored", wantAt: at(10 * minute), wantSource: bi,
			in: with(hintEvery(-minute, hour), nil, T),
		},
		{
			name: "IntervalHintReplacesACron", wantAt: at(minute), wantSource: ai,
			in: governor.Input{Now: T, Anchor: T, Baseline: on(grid(hour)), IntervalHint: hintEvery(minute, hour)},
		},
		{
			name: "LongestIntervalHintStopsAtTheEnd", wantAt: governor.Indefinite, wantSource: ai,
			in: with(hintEvery(math.MaxInt64, hour), nil, T),
		},
		{
			name: "OneShotExpiringNowIsExpired", wantAt: at(10 * minute), wantSource: bi,
			in: with(nil, hintOnce(minute, 0), T),
		},
		{
			name: "OneShotExpiringJustAfterNowCounts", wantAt: at(minute), wantSource: once,
			in:        with(nil, hintOnce(minute, fresh), T),
			wantRules: rules(governor.RuleBaselineInterval, governor.RuleAIOneShot),
		},
		{
			name: "OneShotOnATieLoses", wantAt: at(10 * minute), wantSource: bi,
			in: with(nil, hintOnce(10*minute, hour), T),
		},
		{
			name: "OneShotJustBeforeWins", wantAt: at(10*minute - 1), wantSource: once,
			in: with(nil, hintOnce(10*minute-1, hour), T),
		},
		{
			name: "OneShotLaterNeverHoldsBack", wantAt: at(10 * minute), wantSource: bi,
			in: with(nil, hintOnce(11*minute, hour), T),
		},
		{
			name: "OneShotLaterThanTheIntervalHintLoses", wantAt: at(minute), wantSource: ai,
			in: with(hintEvery(minute, hour), hintOnce(2*minute, hour), T),
		},
		{
			name: "OneShotEarlierThanALongerIntervalHintWinsWithoutTheBaseline", wantAt: at(30 * minute), wantSource: once,
			in: with(hintEvery(hour, hour), hintOnce(30*minute, hour), T),
		},
		{
			name: "OneShotAtTheLastSlotIsUsed", wantAt: at(10 * minute), wantSource: bi,
			in: with(nil, hintOnce(0, hour), T),
		},
		{
			name: "OneShotJustAfterTheLastSlotCounts", wantAt: at(1), wantSource: once,
			in: with(nil, hintOnce(1, hour), T),
		},
		{
			name: "WithoutALastSlotNoOneShotIsUsed", wantAt: T, wantSource: once,
			in: with(nil, hintOnce(-minute, hour), time.Time{}),
		},
		{
			name: "OneShotBeatsACron", wantAt: at(minute), wantSource: once,
			in: governor.Input{Now: T, Anchor: T, LastSlot: T, Baseline: on(grid(hour)), OneShot: hintOnce(minute, hour)},
		},
		{
			name: "OneShotBeatsACronThatIsOver", wantAt: at(minute), wantSource: once,
			in: governor.Input{Now: T, Anchor: T, LastSlot: T, Baseline: on(listed{T}), OneShot: hintOnce(minute, hour)},
		},
		{
			name: "ExpiredIntervalHintDoesNotHideAOneShot", wantAt: at(5 * minute), wantSource: once,
			in: with(hintEvery(minute, -hour), hintOnce(5*minute, hour), T),
		},
	})
}
