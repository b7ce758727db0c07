package governor_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/governor"
)

func TestRetryAfterRule(t *testing.T) {
	t.Parallel()
	bi, ra := governor.SourceBaselineInterval, governor.SourceRetryAfter
	runCases(t, []ruleCase{
		{
			name: "LaterThanTheCandidate", wantAt: at(minute + 1), wantSource: ra,
			in:        governor.Input{Now: T, Anchor: T, Baseline: every(minute), RetryAfter: at(minute + 1)},
			wantRules: rules(governor.RuleBaselineInterval, governor.RuleRetryAfter),
		},
		{
			name: "AtTheCandidate", wantAt: at(minute), wantSource: bi,
			in:        governor.Input{Now: T, Anchor: T, Baseline: every(minute), RetryAfter: at(minute)},
			wantRules: rules(governor.RuleBaselineInterval),
		},
		{
			name: "EarlierThanTheCandidate", wantAt: at(minute), wantSource: bi,
			in: governor.Input{Now: T, Anchor: T, Baseline: every(minute), RetryAfter: at(second)},
		},
		{
			name: "HoldsBackAOneShot", wantAt: at(2 * minute), wantSource: ra,
			in: governor.Input{Now: T, Anchor: T, LastSlot: T, Baseline: every(hour), OneShot: hintOnce(minute, hour), RetryAfter: at(2 * minute)},
		},
		{
			name: "HoldsBackAnIntervalHint", wantAt: at(2 * minute), wantSource: ra,
			in: governor.Input{Now: T, Anchor: T, Baseline: every(hour), IntervalHint: hintEvery(minute, hour), RetryAfter: at(2 * minute)},
		},
		{name: "MaximumClampsIt", in: governor.Input{Now: T, Anchor: T, Baseline: every(minute), RetryAfter: at(hour), Max: 2 * minute}, wantAt: at(2 * minute), wantSource: governor.SourceClampedMax},
		{
			name: "PassedDuringALongRun", wantAt: at(150 * second), wantSource: ra,
			in:        governor.Input{Now: at(90 * second), Anchor: T, Baseline: every(minute), RetryAfter: at(70 * second)},
			wantRules: rules(governor.RuleBaselineInterval, governor.RuleRetryAfter, governor.RuleOverrun),
		},
		{
			name: "FarBeyondTheEnd", wantAt: governor.Indefinite, wantSource: ra,
			in: governor.Input{Now: T, Anchor: T, Baseline: every(minute), RetryAfter: T.AddDate(1000, 0, 0)},
		},
	})
}

func TestTargetRule(t *testing.T) {
	t.Parallel()
	bi, tg := governor.SourceBaselineInterval, governor.SourceTarget
	runCases(t, []ruleCase{
		{
			name: "NextAtTheCandidateAddsNothing", wantAt: at(minute), wantSource: bi,
			in:        governor.Input{Now: T, Anchor: T, LastSlot: T, Baseline: every(minute), TargetNext: at(minute)},
			wantRules: rules(governor.RuleBaselineInterval),
		},
		{
			name: "ServedNextIsIgnored", wantAt: at(minute), wantSource: bi,
			in: governor.Input{Now: T, Anchor: T, LastSlot: at(45 * second), Baseline: every(minute), TargetNext: at(45 * second)},
		},
		{
			name: "NextHoldsBackAOneShot", wantAt: at(2 * minute), wantSource: tg,
			in:        governor.Input{Now: T, Anchor: T, LastSlot: T, Baseline: every(hour), OneShot: hintOnce(minute, hour), TargetNext: at(2 * minute)},
			wantRules: rules(governor.RuleBaselineInterval, governor.RuleAIOneShot, governor.RuleTarget),
		},
		{
			name: "NextWinsOverFreshness", wantAt: at(2 * minute), wantSource: tg,
			in: governor.Input{Now: T, Anchor: T, LastSlot: T, Baseline: every(hour), TargetNext: at(2 * minute), FreshUntil: at(3 * hour)},
		},
		{
			name: "FreshnessNeverAdvances", wantAt: at(minute), wantSource: bi,
			in: governor.Input{Now: T, Anchor: T, LastSlot: T, Baseline: every(minute), FreshUntil: at(second)},
		},
		{
			name: "RetryAfterHoldsItBack", wantAt: at(hour), wantSource: governor.SourceRetryAfter,
			in: governor.Input{Now: T, Anchor: T, LastSlot: T, Baseline: every(minute), TargetNext: at(2 * minute), RetryAfter: at(hour)},
		},
		{
			name: "MinimumClampsIt", wantAt: at(30 * second), wantSource: governor.SourceClampedMin,
			in: governor.Input{Now: T, Anchor: T, LastSlot: T, Baseline: every(minute), TargetNext: at(second), Min: 30 * second},
		},
		{
			name: "MaximumClampsIt", wantAt: at(2 * minute), wantSource: governor.SourceClampedMax,
			in: governor.Input{Now: T, Anchor: T, LastSlot: T, Baseline: every(minute), TargetNext: at(hour), Max: 2 * minute},
		},
		{
			name: "PassedNextIsDueAtOnce", wantAt: at(30 * second), wantSource: tg,
			in:        governor.Input{Now: at(30 * second), Anchor: T, LastSlot: T, Baseline: every(minute), TargetNext: at(20 * second)},
			wantRules: rules(governor.RuleBaselineInterval, governor.RuleTarget, governor.RuleOverrun),
		},
		{
			name: "AdvancesACron", wantAt: at(minute), wantSource: tg,
			in: governor.Input{Now: T, Anchor: T, LastSlot: T, Baseline: on(grid(hour)), TargetNext: at(minute)},
		},
	})
}

func TestTargetWaitHasBounds(t *testing.T) {
	t.Parallel()
	for asked, want := range map[time.Duration]time.Duration{
		math.MinInt64: second, 0: second, second: second, 45 * second: 45 * second, day: day, day + 1: day, math.MaxInt64: day,
	} {
		require.Equal(t, want, governor.TargetWait(asked))
	}
}

func TestOverrunRule(t *testing.T) {
	t.Parallel()
	bi, ai := governor.SourceBaselineInterval, governor.SourceAIInterval
	overran := rules(governor.RuleBaselineInterval, governor.RuleOverrun)
	runCases(t, []ruleCase{
		{
			name: "EndingExactlyWhenDueIsNoOverrun", wantAt: at(minute), wantSource: bi,
			in:        governor.Input{Now: at(minute), Anchor: T, Baseline: every(minute)},
			wantRules: rules(governor.RuleBaselineInterval),
		},
		{
			name: "EndingJustAfterIsOne", wantAt: at(2*minute + 1), wantSource: bi,
			in:        governor.Input{Now: at(minute + 1), Anchor: T, Baseline: every(minute)},
			wantRules: overran,
		},
		{
			name: "FinishByName", wantAt: at(150 * second), wantSource: bi,
			in: governor.Input{Now: at(90 * second), Cause: governor.CauseFinish, Anchor: T, Baseline: every(minute)},
		},
		{
			name: "BackoffCountsInTheFloor", wantAt: at(9 * minute), wantSource: bi,
			in: governor.Input{Now: at(5 * minute), Anchor: T, Baseline: every(minute), Failures: 2},
		},
		{
			name: "HintCountsInTheFloor", wantAt: at(7 * minute), wantSource: ai,
			in: governor.Input{Now: at(5 * minute), Anchor: T, Baseline: every(hour), Failures: 2, IntervalHint: hintEvery(2*minute, hour)},
		},
		{
			name: "HintOverACronOverrunsAsAnInterval", wantAt: at(7 * minute), wantSource: ai,
			in: governor.Input{Now: at(5 * minute), Anchor: T, Baseline: on(grid(hour)), IntervalHint: hintEvery(2*minute, hour)},
		},
		{
			name: "ReplanActsAtOnce", wantAt: at(90 * second), wantSource: bi,
			in:        governor.Input{Now: at(90 * second), Cause: governor.CauseReplan, Anchor: T, Baseline: every(minute)},
			wantRules: overran,
		},
		{
			name: "ReplanLeavesWhatIsNotOverdue", wantAt: at(minute), wantSource: bi,
			in: governor.Input{Now: at(second), Cause: governor.CauseReplan, Anchor: T, Baseline: every(minute)},
		},
		{name: "OverdueOneShotBecomesNowAtAFinish", in: governor.Input{Now: at(minute), Anchor: T, LastSlot: T, Baseline: every(hour), OneShot: hintOnce(second, hour)}, wantAt: at(minute), wantSource: governor.SourceAIOneShot},
		{
			name: "FloorStopsAtTheEnd", wantAt: governor.Indefinite, wantSource: bi,
			in: governor.Input{Now: at(minute), Anchor: at(-292 * 365 * day), Baseline: every(200 * 365 * day)},
		},
		{name: "MaximumWinsOverTheFloor", in: governor.Input{Now: at(90 * second), Anchor: T, Baseline: every(minute), Max: 2 * minute}, wantAt: at(2 * minute), wantSource: governor.SourceClampedMax},
	})
}

func TestClampRule(t *testing.T) {
	t.Parallel()
	bi, cmin, cmax := governor.SourceBaselineInterval, governor.SourceClampedMin, governor.SourceClampedMax
	with := func(baseline, lowest, highest time.Duration) governor.Input {
		return governor.Input{Now: T, Anchor: T, Baseline: every(baseline), Min: lowest, Max: highest}
	}
	runCases(t, []ruleCase{
		{
			name: "AtTheMinimumStays", wantAt: at(minute), wantSource: bi,
			in: with(minute, minute, 0),
		},
		{
			name: "JustBelowTheMinimumMoves", wantAt: at(minute), wantSource: cmin,
			in:        with(minute-1, minute, 0),
			wantRules: rules(governor.RuleBaselineInterval, governor.RuleClampedMin),
		},
		{
			name: "AtTheMaximumStays", wantAt: at(minute), wantSource: bi,
			in: with(minute, 0, minute),
		},
		{
			name: "JustAboveTheMaximumMoves", wantAt: at(minute), wantSource: cmax,
			in:        with(minute+1, 0, minute),
			wantRules: rules(governor.RuleBaselineInterval, governor.RuleClampedMax),
		},
		{
			name: "MaximumComesLast", wantAt: at(minute), wantSource: cmax,
			in:        with(second, hour, minute),
			wantRules: rules(governor.RuleBaselineInterval, governor.RuleClampedMin, governor.RuleClampedMax),
		},
		{
			name: "NoMinimumLeavesWhatIsBeforeAFutureAnchor", wantAt: at(minute), wantSource: governor.SourceAIOneShot,
			in: governor.Input{Now: T, Anchor: at(hour), Baseline: every(hour), OneShot: hintOnce(minute, hour)},
		},
		{
			name: "NegativeClampsAreNone", wantAt: at(minute), wantSource: bi,
			in: with(minute, -hour, -hour),
		},
		{
			name: "LongestClampsStopAtTheEnd", wantAt: governor.Indefinite, wantSource: cmin,
			in: with(minute, math.MaxInt64, math.MaxInt64),
		},
		{
			name: "MaximumClampsBackoff", wantAt: at(3 * minute), wantSource: cmax,
			in: governor.Input{Now: T, Anchor: T, Baseline: every(minute), Failures: 5, Max: 3 * minute},
		},
		{
			name: "MinimumClampsAnIntervalHint", wantAt: at(minute), wantSource: cmin,
			in: governor.Input{Now: T, Anchor: T, Baseline: every(hour), IntervalHint: hintEvery(second, hour), Min: minute},
		},
		{
			name: "MinimumClampsAOneShot", wantAt: at(minute), wantSource: cmin,
			in: governor.Input{Now: T, Anchor: T, LastSlot: T, Baseline: every(hour), OneShot: hintOnce(second, hour), Min: minute},
		},
		{
			name: "MaximumClampsACronThatIsOver", wantAt: at(hour), wantSource: cmax,
			in: governor.Input{Now: T, Anchor: T, Baseline: on(listed{}), Max: hour},
		},
		{
			name: "ClampsMoveACronOffItsGrid", wantAt: at(2*hour - minute), wantSource: cmin,
			in: governor.Input{Now: T, Anchor: at(-minute), Baseline: on(grid(hour)), Min: 2 * hour},
		},
		{
			name: "MinimumCountsFromALaterStart", wantAt: at(40 * minute), wantSlot: at(5 * minute), wantSource: cmin,
			in: governor.Input{
				Now: at(31 * minute), Anchor: T, LastStart: at(30 * minute), Baseline: on(grid(5 * minute)), CatchUp: governor.CatchUpAll,
				Min: 10 * minute, Max: 20 * minute,
			},
			wantRules: rules(
				governor.RuleBaselineCron, governor.RuleOverrun, governor.RuleClampedMax, governor.RuleNotBeforeNow, governor.RuleClampedMin,
			),
		},
		{
			name: "MinimumAfterAStartWinsOverTheMaximum", wantAt: at(40 * minute), wantSlot: at(31 * minute), wantSource: cmin,
			in: governor.Input{Now: at(31 * minute), Anchor: T, LastStart: at(30 * minute), Baseline: every(hour), Min: 10 * minute, Max: 20 * minute},
		},
		{
			name: "ALateStartMovesTheRunAndNotItsSlot", wantAt: at(minute + 700*time.Millisecond), wantSlot: at(minute), wantSource: cmin,
			in: governor.Input{Now: at(second), Anchor: T, LastStart: at(700 * time.Millisecond), Baseline: every(minute), Min: minute},
		},
		{
			name: "BothMinimaCount", wantAt: at(minute + second), wantSlot: at(minute), wantSource: cmin,
			in: governor.Input{Now: at(second), Anchor: T, LastStart: at(second), Baseline: every(second), Min: minute},
		},
		{
			name: "ALateStartIsNoBarWhereThereIsRoom", wantAt: at(minute), wantSource: bi,
			in: governor.Input{Now: at(second), Anchor: T, LastStart: at(second), Baseline: every(minute), Min: minute - second},
		},
		{
			name: "TheMinimumAfterAStartKeepsTheSlotUnderJitter", wantAt: at(2 * minute), wantSlot: at(minute), wantSource: cmin,
			in: governor.Input{Now: at(minute), Anchor: T, LastStart: at(minute), Baseline: every(minute), Min: minute, Jitter: second},
		},
		{
			name: "AnEarlierStartCountsForNothing", wantAt: at(minute), wantSource: cmin,
			in: governor.Input{Now: T, Anchor: T, LastStart: at(-hour), Baseline: every(second), Min: minute},
		},
		{
			name: "MaximumNeverReachesIntoThePast", wantAt: at(hour), wantSource: cmax,
			in:        governor.Input{Now: at(hour), Anchor: T, Baseline: every(minute), Max: 2 * minute},
			wantRules: rules(governor.RuleBaselineInterval, governor.RuleOverrun, governor.RuleClampedMax, governor.RuleNotBeforeNow),
		},
	})
}

func TestPauseRule(t *testing.T) {
	t.Parallel()
	bi, paused := governor.SourceBaselineInterval, governor.SourcePaused
	forever := governor.Indefinite
	runCases(t, []ruleCase{
		{
			name: "PausedUntilNowIsNotPaused", wantAt: at(minute), wantSource: bi,
			in: governor.Input{Now: at(minute), Anchor: T, Baseline: every(minute), PausedUntil: at(minute)},
		},
		{
			name: "PausedUntilJustAfterNowIs", wantAt: at(minute + 1), wantSource: paused,
			in:        governor.Input{Now: at(minute), Anchor: T, Baseline: every(minute), PausedUntil: at(minute + 1)},
			wantRules: rules(governor.RuleBaselineInterval, governor.RulePaused),
		},
		{
			name: "CandidateAtTheEndOfThePauseStays", wantAt: at(minute), wantSource: bi,
			in: governor.Input{Now: T, Anchor: T, Baseline: every(minute), PausedUntil: at(minute)},
		},
		{
			name: "CandidateAfterThePauseStays", wantAt: at(hour), wantSource: bi,
			in: governor.Input{Now: T, Anchor: T, Baseline: every(hour), PausedUntil: at(minute)},
		},
		{
			name: "CronAfterThePauseKeepsItsTimeAndSaysThatItIsPaused", wantAt: at(14 * hour), wantSource: paused,
			in: governor.Input{Now: T, Anchor: at(-10 * hour), Baseline: on(daily(2)), PausedUntil: at(5 * hour)},
		},
		{
			name: "ClampedCronAfterThePauseStays", wantAt: at(10 * hour), wantSource: governor.SourceClampedMax,
			in: governor.Input{Now: T, Anchor: T, Baseline: on(daily(2)), Max: 10 * hour, PausedUntil: at(5 * hour)},
		},
		{
			name: "CronAtTheEndOfThePauseRunsThen", wantAt: at(3 * hour), wantSource: paused,
			in: governor.Input{Now: T, Anchor: T, Baseline: on(grid(hour)), PausedUntil: at(3 * hour)},
		},
		{
			name: "CronJustAfterAnOccurrenceWaitsForTheNext", wantAt: at(4 * hour), wantSource: paused,
			in: governor.Input{Now: T, Anchor: T, Baseline: on(grid(hour)), PausedUntil: at(3*hour + 1)},
		},
		{
			name: "CronWithNoOccurrenceAfterThePause", wantAt: forever, wantSource: paused,
			in: governor.Input{Now: T, Anchor: T, Baseline: on(listed{at(minute)}), PausedUntil: at(hour)},
		},
		{
			name: "OneShotInThePauseWaits", wantAt: at(90 * minute), wantSource: paused,
			in: governor.Input{Now: T, Anchor: T, LastSlot: T, Baseline: on(grid(hour)), OneShot: hintOnce(minute, hour), PausedUntil: at(90 * minute)},
		},
		{
			name: "HintOverACronIsNotOnItsGrid", wantAt: at(90 * minute), wantSource: paused,
			in: governor.Input{Now: T, Anchor: T, Baseline: on(grid(hour)), IntervalHint: hintEvery(minute, hour), PausedUntil: at(90 * minute)},
		},
		{
			name: "ClampedCronGoesBackToItsGrid", wantAt: at(2 * hour), wantSource: paused,
			in: governor.Input{Now: T, Anchor: T, Baseline: on(grid(hour)), Max: minute, PausedUntil: at(90 * minute)},
		},
		{
			name: "RetryAfterOfACronGoesBackToItsGrid", wantAt: at(2 * hour), wantSource: paused,
			in: governor.Input{Now: T, Anchor: T, Baseline: on(grid(hour)), RetryAfter: at(61 * minute), PausedUntil: at(90 * minute)},
		},
		{
			name: "MaximumDoesNotShortenAPause", wantAt: at(hour), wantSource: paused,
			in: governor.Input{Now: T, Anchor: T, Baseline: every(minute), Max: 2 * minute, PausedUntil: at(hour)},
		},
		{
			name: "IndefinitelyForAnInterval", wantAt: forever, wantSource: paused,
			in: governor.Input{Now: T, Anchor: T, Baseline: every(minute), PausedUntil: forever},
		},
		{
			name: "IndefinitelyForACron", wantAt: forever, wantSource: paused,
			in: governor.Input{Now: T, Anchor: T, Baseline: on(grid(hour)), PausedUntil: forever},
		},
		{
			name: "LaterThanIndefinitelyIsTheSame", wantAt: forever, wantSource: paused,
			in: governor.Input{Now: T, Anchor: T, Baseline: on(grid(hour)), PausedUntil: forever.Add(year)},
		},
	})
}
