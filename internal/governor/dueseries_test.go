package governor_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/governor"
	"rubato/internal/schedule"
)

// clamped returns the due times of a cron with clamps that follow an instant, for a reading of its
// own.
func clamped(cron *schedule.Cron, lowest, highest time.Duration, at time.Time) time.Time {
	next := cron.Next(at)
	if lowest > 0 && next.Before(at.Add(lowest)) {
		next = at.Add(lowest)
	}
	if highest > 0 && next.After(at.Add(highest)) {
		next = at.Add(highest)
	}
	return next
}

// TestClampedDueTimesFarFromTheirAnchorEqualAWalk has instants long after the last run, with more
// due times in between than are walked one by one. Recorded counts are exact where they can be
// known, and lower bounds elsewhere.
func TestClampedDueTimesFarFromTheirAnchorEqualAWalk(t *testing.T) {
	t.Parallel()
	const limit = 20_000
	rapid.Check(t, func(t *rapid.T) {
		expression := rapid.SampledFrom([]string{"* * * * *", "*/7 * * * *", "0 9-17 * * *", "0 0 * * *"}).Draw(t, "cron")
		cron, err := schedule.Parse(schedule.Spec{Expression: expression, Zone: "Europe/Berlin"})
		require.NoError(t, err)
		lengths := []time.Duration{0, time.Minute, 61 * time.Second, 95 * time.Second, 7*minute + 1, hour}
		lowest, highest := rapid.SampledFrom(lengths).Draw(t, "min"), rapid.SampledFrom(lengths).Draw(t, "max")
		if lowest == 0 && highest == 0 || highest > 0 && highest < lowest {
			highest = lowest + hour // No other value is legal, or the case needs none.
		}
		begin := time.Duration(rapid.IntRange(0, 60*24*60).Draw(t, "begin")) * minute
		after := T.Add(begin + time.Duration(rapid.IntRange(0, 59_999).Draw(t, "off"))*time.Millisecond)
		until := after.Add(time.Duration(rapid.IntRange(1, 30*24*60).Draw(t, "length")) * minute)
		in := governor.Input{Now: T, Anchor: T, Baseline: governor.Baseline{Cron: cron}, Min: lowest, Max: highest}

		var got, want governor.DueSeries
		if list := governor.DueTimes(in, governor.Span{After: after, Until: until}); len(list) > 0 {
			got = list[0]
		}

		passed := 0 // before the span
		for at := clamped(cron, lowest, highest, T); !at.After(until); at = clamped(cron, lowest, highest, at) {
			switch {
			case !at.After(after):
				passed++
			case want.Count == 0:
				want.From = at
				fallthrough
			default:
				want.To = at
				want.Count++
			}
		}
		if got.Count > 0 {
			require.True(t, got.From.After(after) && !got.From.After(got.To) && !got.To.After(until), "%s to %s in %s to %s", got.From, got.To, after, until)
		}
		require.LessOrEqual(t, got.Count, want.Count, "at least so many")
		if want.Count <= limit {
			if lowest == 0 || passed < limit {
				require.Equal(t, want.Count, got.Count)
			} else {
				require.GreaterOrEqual(t, got.Count, want.Count-1)
			}
		} else {
			require.GreaterOrEqual(t, got.Count, int64(limit))
		}
		if want.Count > 0 && lowest == 0 {
			require.Equal(t, []time.Time{want.From, want.To}, []time.Time{got.From, got.To})
		}
	})
}

// TestDueTimesAreThoseOfTheGovernorStepByStep lets each run succeed on time and decides the next
// one, hint and all.
func TestDueTimesAreThoseOfTheGovernorStepByStep(t *testing.T) {
	t.Parallel()
	minutes, err := schedule.Parse(schedule.Spec{Expression: "*/5 * * * *", Zone: "Europe/Berlin"})
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		length := func(name string) time.Duration {
			return time.Duration(rapid.Int64Range(int64(minute), int64(hour)).Draw(t, name))
		}
		in.Anchor, in.Now, in.Baseline = T, T, every(length("every"))
		if rapid.Bool().Draw(t, "a cron of minutes") {
			in.Baseline = on(minutes)
		}
		if in.ChangeRate != nil {
			in.ChangeRate.Wait = length("waited")
		}
		if in.IntervalHint != nil {
			in.IntervalHint.Interval = length("hinted")
		}
		if in.Max > 0 { // One of a nanosecond makes more due times than can be gone through.
			in.Max = max(in.Min, length("most"))
		}
		if rapid.Bool().Draw(t, "ends") {
			in.EndAt = at(3 * length("end"))
		}
		span := governor.Span{After: at(length("after")), Until: at(hour + 5*length("until"))}

		var got, want []governor.DueSeries
		got = governor.DueTimes(in, span)

		step := in
		step.LastStart, step.RetryAfter, step.PausedUntil, step.Jitter, step.OneShot = time.Time{}, time.Time{}, time.Time{}, 0, nil
		step.TargetNext, step.FreshUntil, step.OpenUntil = time.Time{}, time.Time{}, time.Time{}
		for {
			d := governor.Decide(step)
			step.Anchor, step.Now = d.Slot, d.Slot
			if d.Slot.After(span.Until) {
				break
			}
			if d.Slot.After(span.After) {
				want = note(want, d)
			}
		}
		require.Equal(t, want, got)
	})
}

// TestAnExpiredHintSetsNoDueTime has a clamped cron with a series that begins while an expired hint
// was in force.
func TestAnExpiredHintSetsNoDueTime(t *testing.T) {
	t.Parallel()
	minutes, err := schedule.Parse(schedule.Spec{Expression: "* * * * *", Zone: "UTC"})
	require.NoError(t, err)
	in := governor.Input{Now: at(7 * minute), Anchor: T, Baseline: on(minutes), Max: 2 * minute, IntervalHint: hintEvery(second, 6*minute+50*second)}

	got := governor.DueTimes(in, governor.Span{After: at(6*minute + 30*second), Until: at(7*minute + 30*second)})

	require.Equal(t, []governor.DueSeries{{From: at(7 * minute), To: at(7 * minute), Count: 1, Source: governor.SourceBaselineCron}}, got)
}

// note adds the due time of a decision to those of its tempo.
func note(list []governor.DueSeries, d governor.Decision) []governor.DueSeries {
	source := governor.SourceBaselineInterval
	switch {
	case slices.Contains(rulesOf(d), governor.RuleAIInterval):
		source = governor.SourceAIInterval
	case slices.Contains(rulesOf(d), governor.RuleChangeRate):
		source = governor.SourceChangeRate
	case d.Steps[0].Rule == governor.RuleBaselineCron:
		source = governor.SourceBaselineCron
	}
	if n := len(list); n == 0 || list[n-1].Source != source {
		return append(list, governor.DueSeries{From: d.Slot, To: d.Slot, Count: 1, Source: source})
	}
	last := &list[len(list)-1]
	last.To = d.Slot
	last.Count++
	return list
}
