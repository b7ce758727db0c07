package governor_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/governor"
)

// TestWhy pins the words that operators read.
func TestWhy(t *testing.T) {
	t.Parallel()
	reasoned := hintEvery(minute, 5*minute)
	reasoned.Reason = "flash sale"
	shot := hintOnce(90*second, day)
	shot.Reason = "restart"
	tests := []struct {
		name string
		in   governor.Input
		want []string
	}{
		{"Interval", governor.Input{Now: T, Anchor: T, Baseline: every(minute)}, []string{"every 1m0s"}},
		{"OneFailure", governor.Input{Now: T, Anchor: T, Baseline: every(minute), Failures: 1}, []string{"every 1m0s, backoff x2 after 1 failure"}},
		{"ManyFailures", governor.Input{Now: T, Anchor: T, Baseline: every(minute), Failures: 10}, []string{"every 1m0s, backoff x32 after 10 failures"}},
		{"NeverRun", governor.Input{Now: T, Baseline: every(minute)}, []string{"never run: due at once"}},
		{"NeverRunStartAt", governor.Input{Now: T, StartAt: at(hour), Baseline: every(minute)}, []string{"never run: starts at 13:00:00Z"}},
		{"NeverRunStartAtIsOver", governor.Input{Now: T, StartAt: at(-hour), Baseline: every(minute)}, []string{"never run: due at once"}},
		{"CronStartAtIsOver", governor.Input{Now: T, StartAt: at(-hour), Baseline: on(grid(hour))}, []string{"never run: first cron occurrence"}},
		{"NoInterval", governor.Input{Now: T, Anchor: T}, []string{"every 1s"}},
		{
			"ChangeRate",
			governor.Input{Now: T, Anchor: T, Baseline: every(hour), ChangeRate: &governor.ChangeRate{Wait: 7 * second, Rate: 0.02, Price: 0.4912, Budget: "600/h"}},
			[]string{"every 1h0m0s", "every 7s: answers change every 50 s, a run costs 0.491 change-seconds, budget 600/h"},
		},
		{
			"BudgetIsUsedUp",
			governor.Input{Now: T, Anchor: T, Baseline: every(hour), ChangeRate: &governor.ChangeRate{Wait: 70 * second, Rate: 0.02, Price: 0.4912, Budget: "600/h", UsedUp: true}},
			[]string{"every 1h0m0s", "every 1m10s: answers change every 50 s, a run costs 0.491 change-seconds, budget 600/h, which is used up until then"},
		},
		{"Cron", governor.Input{Now: T, Anchor: T, Baseline: on(grid(hour))}, []string{"next cron occurrence"}},
		{"CronNeverRun", governor.Input{Now: T, Baseline: on(grid(hour))}, []string{"never run: first cron occurrence"}},
		{
			"CronNeverRunInTime",
			governor.Input{Now: T, Accounted: at(-90 * minute), Baseline: on(grid(hour))},
			[]string{"never run: its first cron occurrence has passed", "overdue: one run now for every missed occurrence"},
		},
		{"CronStartAt", governor.Input{Now: T, StartAt: at(day), Baseline: on(grid(hour))}, []string{"never run: first cron occurrence from 2026-03-11T12:00:00Z"}},
		{"CronIsOver", governor.Input{Now: T, Anchor: T, Baseline: on(listed{})}, []string{"no further cron occurrence"}},
		{"CronIsOverBeforeItRan", governor.Input{Now: T, Baseline: on(listed{})}, []string{"no further cron occurrence"}},
		{
			"Hints",
			governor.Input{Now: T, Anchor: T, Baseline: every(hour), IntervalHint: hintEvery(2*minute, day), OneShot: shot},
			[]string{"every 1h0m0s", "hint: every 2m0s until 2026-03-11T12:00:00Z", "hint: once at 12:01:30Z: restart"},
		},
		{
			"HintWithReason",
			governor.Input{Now: T, Anchor: T, Baseline: every(hour), IntervalHint: reasoned},
			[]string{"every 1h0m0s", "hint: every 1m0s until 12:05:00Z: flash sale"},
		},
		{
			"RetryAfter",
			governor.Input{Now: T, Anchor: T, Baseline: every(minute), RetryAfter: at(90*second + time.Millisecond)},
			[]string{"every 1m0s", "the target asked to wait until 12:01:30.001Z"},
		},
		{
			"Overrun",
			governor.Input{Now: at(90 * second), Anchor: T, Baseline: every(minute), Max: minute},
			[]string{"every 1m0s", "overdue when the run ended: 1m0s from now", "at most 1m0s between runs", "never before now"},
		},
		{
			"OverrunWithBackoff",
			governor.Input{Now: at(3 * minute), Anchor: T, Baseline: every(minute), Failures: 1},
			[]string{"every 1m0s, backoff x2 after 1 failure", "overdue when the run ended: 2m0s from now"},
		},
		{
			"Replan",
			governor.Input{Now: at(90 * second), Cause: governor.CauseReplan, Anchor: T, Baseline: every(minute), Min: 2 * minute},
			[]string{"every 1m0s", "overdue: at once", "at least 2m0s between runs"},
		},
		{"Once", governor.Input{Now: at(2 * hour), Anchor: T, Baseline: on(grid(hour - minute))}, []string{"next cron occurrence", "overdue: one run now for every missed occurrence"}},
		{"Skip", governor.Input{Now: at(2 * hour), Anchor: T, Baseline: on(grid(hour)), CatchUp: governor.CatchUpSkip}, []string{"next cron occurrence", "overdue: missed occurrences are skipped"}},
		{"All", governor.Input{Now: at(2 * hour), Anchor: T, Baseline: on(grid(hour)), CatchUp: governor.CatchUpAll}, []string{"next cron occurrence", "overdue: catching up, oldest first, on 13:00:00Z"}},
		{"AllTooOld", governor.Input{Now: at(2 * day), Anchor: T, Baseline: on(listed{at(hour)}), CatchUp: governor.CatchUpAll}, []string{"next cron occurrence", "overdue: everything missed is over 24h0m0s old and skipped"}},
		{"Jitter", governor.Input{Now: T, Anchor: T, Baseline: every(minute), Jitter: time.Millisecond}, []string{"every 1m0s", "0s later, of less than 1ms"}},
		{"Paused", governor.Input{Now: T, Anchor: T, Baseline: every(minute), PausedUntil: at(hour)}, []string{"every 1m0s", "paused until 13:00:00Z"}},
		{"PausedCron", governor.Input{Now: T, Anchor: T, Baseline: on(grid(hour)), PausedUntil: at(90 * minute)}, []string{"next cron occurrence", "paused until 13:30:00Z: first cron occurrence from then on"}},
		{"PausedCronIsOver", governor.Input{Now: T, Anchor: T, Baseline: on(listed{at(minute)}), PausedUntil: at(hour)}, []string{"next cron occurrence", "paused until 13:00:00Z: no cron occurrence from then on"}},
		{"PausedIndefinitely", governor.Input{Now: T, Anchor: T, Baseline: every(minute), PausedUntil: governor.Indefinite}, []string{"every 1m0s", "paused indefinitely"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, s := range governor.Decide(tc.in).Steps {
				got = append(got, s.Why)
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestLongReasonsAreCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	whyOf := func(reason string) string {
		hint := hintEvery(minute, hour)
		hint.Reason = reason
		got := governor.Decide(governor.Input{Now: T, Anchor: T, Baseline: every(hour), IntervalHint: hint})
		_, after, _ := strings.Cut(got.Steps[1].Why, "13:00:00Z: ")
		return after
	}
	x := strings.Repeat("x", 158)
	require.Equal(t, x+"yz", whyOf(x+"yz"), "160 bytes are kept")
	require.Equal(t, x+"yz…", whyOf(x+"yz!"))
	require.Equal(t, x+"é…", whyOf(x+"é!"), "a character that ends at the limit is kept")
	require.Equal(t, x+"y…", whyOf(x+"yé"), "one that crosses it is not")
	require.Equal(t, x+"…", whyOf(x+"  z"))
	require.Equal(t, "…", whyOf(strings.Repeat("\x80", 200)), "no character begins in it")
}

func TestStepsAreLowerCaseJSON(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(governor.Decide(governor.Input{Now: T, Anchor: T, Baseline: every(minute)}).Steps)
	require.NoError(t, err)
	require.JSONEq(t, `[{"rule":"baseline-interval","at":"2026-03-10T12:01:00Z","why":"every 1m0s"}]`, string(got))
}

func TestStepOfTheChangeRateHasThePrice(t *testing.T) {
	t.Parallel()
	in := governor.Input{
		Now:        T,
		Anchor:     T,
		Baseline:   governor.Baseline{Interval: time.Minute},
		ChangeRate: &governor.ChangeRate{Wait: 30 * time.Second, Rate: 0.01, Price: 1.5e-7, Budget: "600/h"},
	}
	for _, step := range governor.Decide(in).Steps {
		want := 0.0
		if step.Rule == governor.RuleChangeRate {
			want = 1.5e-7
		}
		require.InDelta(t, want, step.Price, 0, step.Rule)
	}
}
