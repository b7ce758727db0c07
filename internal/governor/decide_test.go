package governor_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"rubato/internal/governor"
)

// TestWorkedCases is the table that the product promises, row by row.
func TestWorkedCases(t *testing.T) {
	t.Parallel()
	runCases(t, []ruleCase{
		{
			name:       "IntervalCountsFromTheAnchor",
			in:         governor.Input{Now: at(200 * time.Millisecond), Anchor: T, Baseline: every(minute)},
			wantAt:     at(minute),
			wantSource: governor.SourceBaselineInterval,
		},
		{
			name:       "ThreeFailuresBackOffEightfold",
			in:         governor.Input{Now: at(200 * time.Millisecond), Anchor: T, Baseline: every(minute), Failures: 3},
			wantAt:     at(480 * time.Second),
			wantSource: governor.SourceBaselineInterval,
		},
		{
			name:       "TenFailuresBackOffToTheCap",
			in:         governor.Input{Now: at(200 * time.Millisecond), Anchor: T, Baseline: every(minute), Failures: 10},
			wantAt:     at(1920 * time.Second),
			wantSource: governor.SourceBaselineInterval,
		},
		{
			name:       "ChangeRateReplacesTheInterval",
			in:         governor.Input{Now: at(200 * time.Millisecond), Anchor: T, Baseline: every(minute), ChangeRate: &governor.ChangeRate{Wait: 7 * second}},
			wantAt:     at(7 * second),
			wantSource: governor.SourceChangeRate,
		},
		{
			name: "HintWinsOverChangeRate",
			in: governor.Input{
				Now: at(200 * time.Millisecond), Anchor: T, Baseline: every(minute), ChangeRate: &governor.ChangeRate{Wait: 7 * second}, IntervalHint: hintEvery(9*second, hour),
			},
			wantAt:     at(9 * second),
			wantSource: governor.SourceAIInterval,
		},
		{
			name:       "LongerBackoffWinsOverChangeRate",
			in:         governor.Input{Now: at(200 * time.Millisecond), Anchor: T, Baseline: every(minute), Failures: 1, ChangeRate: &governor.ChangeRate{Wait: 7 * second}},
			wantAt:     at(2 * minute),
			wantSource: governor.SourceBaselineInterval,
		},
		{
			name:       "FailureNeverShortensTheInterval",
			in:         governor.Input{Now: at(200 * time.Millisecond), Anchor: T, Baseline: every(minute), Failures: 1, ChangeRate: &governor.ChangeRate{Wait: 5 * minute}},
			wantAt:     at(5 * minute),
			wantSource: governor.SourceChangeRate,
		},
		{
			name:       "ChangeRateStaysWithinTheClamps",
			in:         governor.Input{Now: at(200 * time.Millisecond), Anchor: T, Baseline: every(minute), Min: 10 * second, ChangeRate: &governor.ChangeRate{Wait: 7 * second}},
			wantAt:     at(10 * second),
			wantSource: governor.SourceClampedMin,
		},
		{
			name:       "ExecutionLongerThanTheInterval",
			in:         governor.Input{Now: at(90 * time.Second), Anchor: T, Baseline: every(minute)},
			wantAt:     at(150 * time.Second),
			wantSource: governor.SourceBaselineInterval,
		},
		{
			name:       "CronWithAnExecutionOfTwoPeriods",
			in:         governor.Input{Now: at(10*minute + 1), Anchor: T, Baseline: on(grid(5 * minute))},
			wantAt:     at(10*minute + 1),
			wantSlot:   at(10 * minute),
			wantSource: governor.SourceBaselineCron,
		},
		{
			name:       "ThenBackOnTheGrid",
			in:         governor.Input{Now: at(11 * minute), Anchor: at(10*minute + 1), Baseline: on(grid(5 * minute))},
			wantAt:     at(15 * minute),
			wantSource: governor.SourceBaselineCron,
		},
		{
			name: "IntervalHintReplacesBaselineAndBackoff",
			in: governor.Input{
				Now: at(time.Second), Anchor: T, Baseline: every(5 * minute), Failures: 5, IntervalHint: hintEvery(minute, time.Hour),
			},
			wantAt:     at(minute),
			wantSource: governor.SourceAIInterval,
		},
		{
			name: "EarlierOfBothHintsWins",
			in: governor.Input{
				Now: at(time.Second), Anchor: T, Baseline: every(5 * minute),
				IntervalHint: hintEvery(2*minute, time.Hour), OneShot: hintOnce(90*time.Second, time.Hour),
			},
			wantAt:     at(90 * time.Second),
			wantSource: governor.SourceAIOneShot,
		},
		{
			name: "ServedOneShotIsIgnored",
			in: governor.Input{
				Now: at(time.Second), Anchor: T, LastSlot: T, Baseline: every(minute), OneShot: hintOnce(-5*minute, time.Hour),
			},
			wantAt:     at(minute),
			wantSource: governor.SourceBaselineInterval,
		},
		{
			name: "MinimumClamps",
			in: governor.Input{
				Now: at(time.Second), Anchor: T, Baseline: every(45 * time.Second), Min: minute, Max: 2 * minute,
			},
			wantAt:     at(minute),
			wantSource: governor.SourceClampedMin,
		},
		{
			name:       "MaximumClamps",
			in:         governor.Input{Now: at(time.Second), Anchor: T, Baseline: every(10 * minute), Max: 3 * minute},
			wantAt:     at(3 * minute),
			wantSource: governor.SourceClampedMax,
		},
		{
			name:       "TargetNamesTheNextRunLater",
			in:         governor.Input{Now: at(time.Second), Anchor: T, LastSlot: T, Baseline: every(time.Second), Max: minute, TargetNext: at(45 * time.Second)},
			wantAt:     at(45 * time.Second),
			wantSource: governor.SourceTarget,
		},
		{
			name:       "TargetNamesTheNextRunEarlier",
			in:         governor.Input{Now: at(time.Second), Anchor: T, LastSlot: T, Baseline: every(10 * minute), TargetNext: at(45 * time.Second)},
			wantAt:     at(45 * time.Second),
			wantSource: governor.SourceTarget,
		},
		{
			name:       "FreshAnswerHoldsBack",
			in:         governor.Input{Now: at(time.Second), Anchor: T, LastSlot: T, Baseline: every(minute), FreshUntil: at(5 * minute)},
			wantAt:     at(5 * minute),
			wantSource: governor.SourceTarget,
		},
		{
			name:       "PausedInterval",
			in:         governor.Input{Now: at(time.Second), Anchor: T, Baseline: every(10 * minute), PausedUntil: at(time.Hour)},
			wantAt:     at(time.Hour),
			wantSource: governor.SourcePaused,
		},
		{
			name: "TighteningHintActsAtOnce",
			in: governor.Input{
				Now: T, Cause: governor.CauseReplan, Anchor: at(-30 * minute), Baseline: every(time.Hour),
				IntervalHint: hintEvery(5*minute, time.Hour),
			},
			wantAt:     T,
			wantSource: governor.SourceAIInterval,
		},
		{
			name:       "ResumedAfterAnHour",
			in:         governor.Input{Now: at(time.Hour), Cause: governor.CauseReplan, Anchor: T, Baseline: every(minute)},
			wantAt:     at(time.Hour),
			wantSource: governor.SourceBaselineInterval,
		},
		{
			name:       "NewIntervalEndpointRunsAtOnce",
			in:         governor.Input{Now: T, Cause: governor.CauseReplan, Baseline: every(minute)},
			wantAt:     T,
			wantSource: governor.SourceBaselineInterval,
		},
		{
			// Noon to 17:00, with today's 02:00 still owed: without the pause it would run at once.
			name: "PausedCronResumesOnItsGrid",
			in: governor.Input{
				Now: T, Cause: governor.CauseReplan, Anchor: at(-34 * time.Hour), Baseline: on(daily(2)), PausedUntil: at(5 * time.Hour),
			},
			wantAt:     at(14 * time.Hour),
			wantSource: governor.SourcePaused,
		},
		{
			// The same pause after today's run at 02:00: the pause ends before tomorrow's, which it
			// does not move.
			name: "PausedCronThatHasRunToday",
			in: governor.Input{
				Now: T, Cause: governor.CauseReplan, Anchor: at(-10 * time.Hour), Baseline: on(daily(2)), PausedUntil: at(5 * time.Hour),
			},
			wantAt:     at(14 * time.Hour),
			wantSource: governor.SourcePaused,
		},
	})
}

func TestSameInputSameAnswer(t *testing.T) {
	t.Parallel()
	in := governor.Input{
		EndpointID: [16]byte{1, 2, 3}, Now: at(time.Second), Anchor: T, Baseline: every(time.Minute), Failures: 2,
		Min: time.Second, Max: time.Hour, IntervalHint: hintEvery(time.Second, time.Hour), OneShot: hintOnce(1500*time.Millisecond, time.Hour),
		RetryAfter: at(2 * time.Second), TargetNext: at(3 * time.Second), FreshUntil: at(4 * time.Second), PausedUntil: at(time.Minute), Jitter: time.Second,
	}
	hint, shot := *in.IntervalHint, *in.OneShot
	first := governor.Decide(in)
	require.Empty(t, cmp.Diff(first, governor.Decide(in)))
	require.Equal(t, hint, *in.IntervalHint, "the input is only read")
	require.Equal(t, shot, *in.OneShot, "the input is only read")
}

// TestZoneAndClockReadingDoNotMatter gives the same instants in another zone and with a monotonic
// reading.
func TestZoneAndClockReadingDoNotMatter(t *testing.T) {
	t.Parallel()
	now := time.Now() // carries a monotonic reading
	plain := now.Round(0).UTC()
	in := func(convert func(time.Time) time.Time) governor.Input {
		return governor.Input{
			Now: convert(now), Anchor: convert(now.Add(-time.Second)), LastSlot: convert(now.Add(-time.Second)),
			Baseline: every(time.Minute), OneShot: &governor.OneShotHint{At: convert(now.Add(3)), ExpiresAt: convert(now.Add(time.Hour))},
			RetryAfter: convert(now.Add(5)), TargetNext: convert(now.Add(4)), FreshUntil: convert(now.Add(6)), PausedUntil: convert(now.Add(7)),
		}
	}
	want := governor.Decide(in(func(t time.Time) time.Time { return t.Round(0).UTC() }))
	zoned := governor.Decide(in(func(t time.Time) time.Time { return t.In(time.FixedZone("x", 5*3600)) }))
	require.Equal(t, want, zoned)
	require.Equal(t, want, governor.Decide(in(func(t time.Time) time.Time { return t })))
	require.True(t, want.At.Equal(plain.Add(7)))
	require.Equal(t, time.UTC, want.At.Location())
}

func TestSourcesAreTheContract(t *testing.T) {
	t.Parallel()
	want := []governor.Source{
		"ai-interval", "ai-oneshot", "baseline-cron", "baseline-interval", "call", "change-rate", "circuit-open", "clamped-max", "clamped-min", "ended", "manual", "paused", "retry-after", "target",
	}
	got := governor.Sources()
	slices.Sort(got)
	require.Equal(t, want, got)
}
