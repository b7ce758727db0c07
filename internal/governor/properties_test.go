package governor_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/governor"
)

// near draws instants around T and the rare one far away; the zero time where none is drawn.
func near(t *rapid.T, name string) time.Time {
	d := rapid.OneOf(
		rapid.Int64Range(-int64(2*hour), int64(2*hour)), rapid.Int64Range(-int64(2*year), int64(2*year)), rapid.Int64Range(-3, 3),
	)
	if p := rapid.Ptr(d, true).Draw(t, name); p != nil {
		return at(time.Duration(*p))
	}
	return time.Time{}
}

// drawInput draws inputs as in service: positive intervals up to 366 days, min <= max.
func drawInput(t *rapid.T) governor.Input {
	duration := func(name string) time.Duration {
		return time.Duration(rapid.OneOf(rapid.Int64Range(1, int64(hour)), rapid.Int64Range(1, int64(year))).Draw(t, name))
	}
	in := governor.Input{
		EndpointID: [16]byte{byte(rapid.IntRange(0, 255).Draw(t, "endpoint"))},
		Now:        T, Anchor: near(t, "anchor"), StartAt: near(t, "startAt"), LastSlot: near(t, "lastSlot"),
		LastStart: near(t, "lastStart"),
		Cause:     rapid.SampledFrom([]governor.Cause{"", governor.CauseFinish, governor.CauseReplan}).Draw(t, "cause"),
		CatchUp:   rapid.SampledFrom([]governor.CatchUp{"", governor.CatchUpOnce, governor.CatchUpSkip, governor.CatchUpAll}).Draw(t, "catchUp"),
		// Mostly small, with the cap in the middle.
		Failures: rapid.OneOf(rapid.IntRange(0, 10), rapid.IntRange(0, math.MaxInt)).Draw(t, "failures"),
		Baseline: every(duration("interval")), RetryAfter: near(t, "retryAfter"), TargetNext: near(t, "targetNext"), FreshUntil: near(t, "freshUntil"), OpenUntil: near(t, "openUntil"),
		PausedUntil: near(t, "pausedUntil"),
		Accounted:   near(t, "accounted"), OnRecord: near(t, "on record"),
		QueuedUntil: near(t, "queuedUntil"),
	}
	if rapid.Bool().Draw(t, "is a cron") {
		in.Baseline = on(grid(duration("cron")))
	}
	if rapid.Bool().Draw(t, "has min") {
		in.Min = duration("min")
	}
	if rapid.Bool().Draw(t, "has max") {
		in.Max = in.Min + duration("max over min")
	}
	if rapid.Bool().Draw(t, "has jitter") {
		in.Jitter = duration("jitter")
	}
	if rapid.Bool().Draw(t, "has interval hint") {
		in.IntervalHint = &governor.IntervalHint{Interval: duration("hint"), ExpiresAt: near(t, "hint expiresAt")}
	}
	if rapid.Bool().Draw(t, "has change rate") {
		in.ChangeRate = &governor.ChangeRate{Wait: duration("wait"), Rate: rapid.Float64().Draw(t, "rate")}
	}
	if rapid.Bool().Draw(t, "has one-shot") {
		in.OneShot = &governor.OneShotHint{At: near(t, "one-shot"), ExpiresAt: near(t, "one-shot expiresAt")}
	}
	return in
}

func TestEveryDecisionIsSoundAndRepeatable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		got := governor.Decide(in)
		requireSound(t, in, got)
		require.Empty(t, cmp.Diff(got, governor.Decide(in)))
	})
}

// TestClampsHoldUnlessPaused is the promise that clamps bind whatever hints, backoff, jitter and
// the target ask for.
func TestClampsHoldUnlessPaused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		if in.Anchor.IsZero() {
			in.Anchor = T
		}
		from := in.Anchor
		if in.LastStart.After(from) {
			from = in.LastStart
		}
		got := governor.Decide(in)
		if in.Min > 0 {
			require.False(t, got.At.Before(from.Add(in.Min)), "min: %v", got.Steps)
		}
		if in.Max > 0 && got.Source != governor.SourcePaused && got.Source != governor.SourceCircuitOpen {
			latest := from.Add(in.Max)
			if latest.Before(in.Now) {
				latest = in.Now
			}
			require.False(t, got.At.After(latest), "max: %v", got.Steps)
		}
	})
}

func TestPausedNeverRunsBeforeTheEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		got := governor.Decide(in)
		require.False(t, got.At.Before(in.PausedUntil))
		if got.Source == governor.SourcePaused {
			require.True(t, in.PausedUntil.After(in.Now))
		}
		in.PausedUntil = in.Now
		require.NotEqual(t, governor.SourcePaused, governor.Decide(in).Source)
	})
}

// TestBackoffIsMonotone says that one more failure never makes the next run earlier.
func TestBackoffIsMonotone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.Jitter = 0                   // its offset belongs to the due time and may shrink when that moves
		in.Cause = governor.CauseReplan // the floor of a finish leaves a whole interval from now, more than a doubled one may from T
		before := governor.Decide(in)
		if in.Failures < math.MaxInt {
			in.Failures++
		}
		require.False(t, governor.Decide(in).At.Before(before.At))
	})
}

// TestOneShotOnlyAdvances says that a one-shot never makes the next run later, and that it cannot
// fire twice.
func TestOneShotOnlyAdvances(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.Jitter, in.PausedUntil = 0, time.Time{} // a cron in a pause waits for its grid, a one-shot for the end
		in.TargetNext = time.Time{}                // the served one-shot would serve it, too
		in.OneShot = &governor.OneShotHint{At: near(t, "at"), ExpiresAt: at(100 * year)}
		with := governor.Decide(in)
		served := in
		served.LastSlot = in.OneShot.At
		without := governor.Decide(served)
		require.False(t, with.At.After(without.At))
		require.NotContains(t, rulesOf(without), governor.RuleAIOneShot)
	})
}

// TestFixedRateDoesNotDrift runs an endpoint fifty times with executions shorter than its interval.
func TestFixedRateDoesNotDrift(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.Int64Range(int64(second), int64(day)).Draw(t, "interval"))
		execution := rapid.Int64Range(0, int64(interval))
		due := T
		for n := range 50 {
			got := governor.Decide(governor.Input{
				Now: due.Add(time.Duration(execution.Draw(t, "execution"))), Anchor: due, LastSlot: due, Baseline: every(interval),
			})
			due = T.Add(time.Duration(n+1) * interval)
			require.Equal(t, due, got.At)
		}
	})
}

// TestEverySourceIsReachable has one input for each source but manual and call, which no
// decision has.
func TestEverySourceIsReachable(t *testing.T) {
	t.Parallel()
	inputs := map[governor.Source]governor.Input{
		governor.SourcePaused:           {Now: T, Baseline: every(minute), PausedUntil: at(hour)},
		governor.SourceChangeRate:       {Now: T, Anchor: T, Baseline: every(hour), ChangeRate: &governor.ChangeRate{Wait: minute}},
		governor.SourceAIOneShot:        {Now: T, Anchor: T, Baseline: every(hour), OneShot: hintOnce(minute, hour)},
		governor.SourceAIInterval:       {Now: T, Baseline: every(hour), IntervalHint: hintEvery(minute, hour)},
		governor.SourceBaselineCron:     {Now: T, Baseline: on(grid(hour))},
		governor.SourceBaselineInterval: {Now: T, Baseline: every(hour)},
		governor.SourceClampedMin:       {Now: T, Anchor: T, Baseline: every(minute), Min: hour},
		governor.SourceClampedMax:       {Now: T, Anchor: T, Baseline: every(hour), Max: minute},
		governor.SourceRetryAfter:       {Now: T, Anchor: T, Baseline: every(minute), RetryAfter: at(hour)},
		governor.SourceTarget:           {Now: T, Anchor: T, Baseline: every(minute), TargetNext: at(hour)},
		governor.SourceCircuitOpen:      {Now: T, Anchor: T, Baseline: every(minute), Max: minute, OpenUntil: at(hour)},
		governor.SourceEnded:            {Now: T, Anchor: T, Baseline: every(minute), EndAt: at(minute)},
	}
	for _, source := range governor.Sources() {
		in, ok := inputs[source]
		if source == governor.SourceManual || source == governor.SourceCall {
			require.False(t, ok)
			continue
		}
		require.Equal(t, source, governor.Decide(in).Source)
	}
}
