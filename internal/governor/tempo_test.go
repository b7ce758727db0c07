package governor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/governor"
)

// TestTempoIsHowFarApartDueTimesAre lets every run succeed at its due time and end at once: the
// decision after it is a tempo away.
func TestTempoIsHowFarApartDueTimesAre(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.Anchor, in.LastStart, in.Jitter, in.RetryAfter, in.PausedUntil, in.OneShot = T, T, 0, time.Time{}, time.Time{}, nil
		in.TargetNext, in.FreshUntil, in.OpenUntil = time.Time{}, time.Time{}, time.Time{}
		tempo, d := governor.Tempo(in), governor.Decide(in)
		paced := in.ChangeRate != nil
		if in.Baseline.Cron != nil && !in.Hinted() && !paced { // Its occurrences need not follow T.
			from := in.Baseline.Cron.Next(T)
			in.Anchor, in.Now, in.LastStart = from, from, time.Time{}
			require.Equal(t, tempo, governor.Decide(in).At.Sub(from))
			return
		}
		require.Equal(t, tempo, d.At.Sub(T))
	})
}

func TestTempoFollowsAHintWhileItIsFresh(t *testing.T) {
	t.Parallel()
	in := governor.Input{Now: T, Baseline: every(time.Minute), Failures: 3, IntervalHint: hintEvery(5*time.Second, time.Nanosecond)}
	require.Equal(t, 5*time.Second, governor.Tempo(in))
	in.Now = at(time.Nanosecond)
	require.Equal(t, 8*time.Minute, governor.Tempo(in), "one that expires exactly now is over")
	in.Max = 4 * time.Minute
	require.Equal(t, 4*time.Minute, governor.Tempo(in))
	in.Baseline = on(daily(2))
	require.Equal(t, 4*time.Minute, governor.Tempo(in), "the clamps hold for a cron, too")
	in.Max = 0
	require.Equal(t, 24*time.Hour, governor.Tempo(in))
	in.Baseline = on(listed{at(hour)})
	require.Zero(t, governor.Tempo(in), "a cron that fires once more")
}

// TestCatchUpAllOmitsRecordedOccurrences has missed five occurrences, and three of them are
// recorded as skipped.
func TestCatchUpAllOmitsRecordedOccurrences(t *testing.T) {
	t.Parallel()
	in := governor.Input{Now: at(5*time.Minute + time.Second), Anchor: T, Baseline: on(grid(time.Minute)), CatchUp: governor.CatchUpAll}
	require.Equal(t, at(time.Minute), governor.Decide(in).Slot)
	in.Accounted = at(3 * time.Minute)
	require.Equal(t, at(4*time.Minute), governor.Decide(in).Slot)
	in.Accounted = at(5*time.Minute + time.Second)
	require.Equal(t, at(6*time.Minute), governor.Decide(in).Slot, "nothing is left to catch up on")
}

// TestAHintForAnOutageWaitsATenthOfIt follows an outage from run to run.
func TestAHintForAnOutageWaitsATenthOfIt(t *testing.T) {
	t.Parallel()
	hint := hintEvery(3*time.Second, 6*time.Hour)
	hint.OutageSince = T
	in := governor.Input{Baseline: every(10 * time.Second), Failures: 1, IntervalHint: hint}
	for age, want := range map[time.Duration]time.Duration{
		0: 3 * time.Second, 30 * time.Second: 3 * time.Second, time.Minute: 6 * time.Second, time.Hour: 6 * time.Minute,
	} {
		in.Now, in.Anchor = at(age), at(age)
		require.Equal(t, at(age+want), governor.Decide(in).At)
		require.Equal(t, want, governor.Tempo(in))
	}
	in.Now, in.Anchor = at(time.Hour), at(time.Hour)
	require.Contains(t, governor.Decide(in).Steps[1].Why, "a tenth of the outage since 12:00:00Z and at least 3s")
	in.Max = 5 * time.Second
	require.Equal(t, governor.SourceClampedMax, governor.Decide(in).Source)
	in.Failures, in.Max = 0, 0
	require.Equal(t, governor.SourceBaselineInterval, governor.Decide(in).Source, "the first success ends it")
	require.Equal(t, 10*time.Second, governor.Tempo(in))
}
