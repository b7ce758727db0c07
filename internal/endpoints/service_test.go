package endpoints_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
)

// fields returns the fields that an error names.
func fields(t *testing.T, err error) []string {
	t.Helper()
	require.Equal(t, errs.Invalid, errs.CodeOf(err), "%v", err)
	var bad []string
	for _, f := range errs.FieldsOf(err) {
		bad = append(bad, f.Field+" "+f.Code)
	}
	return bad
}

func TestARegistrationPlansTheFirstRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit func(*endpoints.Spec)
		want time.Time
	}{
		"AnIntervalAtOnce":    {nil, start},
		"AnIntervalAtStart":   {func(s *endpoints.Spec) { s.StartAt = start.Add(time.Hour) }, start.Add(time.Hour)},
		"AStartThatHasPassed": {func(s *endpoints.Spec) { s.StartAt = start.Add(-time.Hour) }, start},
		"ACronOnItsGrid":      {func(s *endpoints.Spec) { s.BaselineInterval, s.BaselineCron = 0, "30 * * * *" }, start.Add(30 * time.Minute)},
		"ACronAfterItsStart": {func(s *endpoints.Spec) {
			s.BaselineInterval, s.BaselineCron, s.StartAt = 0, "30 * * * *", start.Add(time.Hour)
		}, start.Add(90 * time.Minute)},
		"AClampCountsFromARun": {func(s *endpoints.Spec) { s.MinInterval = time.Hour }, start},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, tc.edit)
			e := b.endpoint()
			require.Equal(t, tc.want, e.State.Due.At)
			require.Equal(t, int64(1), e.Version)
			require.Equal(t, start, e.CreatedAt)
			require.Equal(t, endpoints.CauseRegister, b.memory.ledger[0].Cause)
			require.Equal(t, "tester", b.memory.ledger[0].Author)
		})
	}
	b := setup(t, nil)
	_, _, err := b.Register(t.Context(), actor, endpoints.Spec{})
	require.Contains(t, fields(t, err), "name required")
	require.Len(t, b.memory.byID, 1, "nothing is written")
	require.NoError(t, b.Check(valid()))
	require.Error(t, b.Check(endpoints.Spec{}))
}

func TestPauseHoldsUntilItsEnd(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.run(t, nil)
	e, err := b.Pause(t.Context(), actor, b.id, endpoints.PauseRequest{Until: start.Add(time.Hour), Reason: "maintenance"})
	require.NoError(t, err)
	require.Equal(t, start.Add(time.Hour), e.State.Due.At)
	require.Equal(t, governor.SourcePaused, e.State.Due.Source)
	require.True(t, e.PausedAt(start.Add(time.Hour-1)))
	require.False(t, e.PausedAt(start.Add(time.Hour)), "a pause that ends now is over")

	e, err = b.Pause(t.Context(), actor, b.id, endpoints.PauseRequest{})
	require.NoError(t, err)
	require.Equal(t, governor.Indefinite, e.State.Due.At)
	b.pass(10 * time.Minute)
	e, err = b.Resume(t.Context(), actor, b.id)
	require.NoError(t, err)
	require.Equal(t, b.memory.now, e.State.Due.At, "overdue since: at once")
	require.Empty(t, e.State.PauseReason)
	last, err := b.Explain(t.Context(), actor, b.id)
	require.NoError(t, err)
	require.Equal(t, endpoints.CauseResume, last.Cause)

	e, err = b.Pause(t.Context(), actor, b.id, endpoints.PauseRequest{For: new(90 * time.Minute)})
	require.NoError(t, err)
	require.Equal(t, b.memory.now.Add(90*time.Minute), e.State.PausedUntil)

	for until, want := range map[time.Time]string{
		b.memory.now: "until out_of_range", b.memory.now.Add(-time.Hour): "until out_of_range",
		governor.Indefinite.Add(time.Millisecond): "until out_of_range",
	} {
		_, err = b.Pause(t.Context(), actor, b.id, endpoints.PauseRequest{Until: until})
		require.Equal(t, []string{want}, fields(t, err))
	}
	for span, want := range map[time.Duration]string{
		0: "forMs out_of_range", -time.Hour: "forMs out_of_range", 366*24*time.Hour + time.Millisecond: "forMs out_of_range",
	} {
		_, err = b.Pause(t.Context(), actor, b.id, endpoints.PauseRequest{For: &span})
		require.Equal(t, []string{want}, fields(t, err))
	}
	_, err = b.Pause(t.Context(), actor, b.id, endpoints.PauseRequest{Until: b.memory.now.Add(time.Hour), For: new(time.Hour)})
	require.Equal(t, []string{"forMs ambiguous"}, fields(t, err))
	_, err = b.Pause(t.Context(), actor, b.id, endpoints.PauseRequest{Reason: strings.Repeat("x", 501)})
	require.Equal(t, []string{"reason too_long"}, fields(t, err))
	_, err = b.Pause(t.Context(), actor, b.id, endpoints.PauseRequest{Until: start, Reason: "a\x00b"})
	require.Equal(t, []string{"until out_of_range", "reason invalid_characters"}, fields(t, err))
}

func TestRunNowBypassesEverything(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) { s.MinInterval = time.Hour })
	b.run(t, nil)
	_, err := b.Pause(t.Context(), actor, b.id, endpoints.PauseRequest{})
	require.NoError(t, err)
	asked := b.pass(time.Minute)
	first, err := b.RunNow(t.Context(), actor, b.id, endpoints.OneOffRequest{})
	require.NoError(t, err)
	require.Equal(t, endpoints.Queued{Slot: asked, Waiting: 1}, first)
	require.Equal(t, endpoints.Due{At: asked, Slot: asked, Attempt: 1, Source: governor.SourceManual}, b.endpoint().State.Due)

	b.run(t, nil)
	require.Zero(t, b.endpoint().State.OneOffs)
	require.Equal(t, governor.Indefinite, b.endpoint().State.Due.At, "then the pause goes on")

	_, err = b.RunNow(t.Context(), actor, b.id, endpoints.OneOffRequest{})
	require.NoError(t, err)
	_, err = b.Pause(t.Context(), actor, b.id, endpoints.PauseRequest{})
	require.NoError(t, err)
	require.Zero(t, b.endpoint().State.OneOffs, "a pause withdraws it")
}

// TestRunNowDuringARequestedRunQueuesAnother requests a run while an earlier requested run
// is live.
func TestRunNowDuringARequestedRunQueuesAnother(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	first, err := b.RunNow(t.Context(), actor, b.id, endpoints.OneOffRequest{})
	require.NoError(t, err)
	require.Equal(t, b.endpoint().State.Due.Slot, first.Slot)
	b.memory.begin(b.endpoint())
	b.pass(2 * time.Second)
	second, err := b.RunNow(t.Context(), actor, b.id, endpoints.OneOffRequest{})
	require.NoError(t, err)
	require.Equal(t, endpoints.Queued{Slot: b.memory.now, Waiting: 1}, second)
	b.run(t, nil)
	require.Equal(t, governor.SourceManual, b.endpoint().State.Due.Source)
	require.Equal(t, second.Slot, b.endpoint().State.Due.Slot)
	b.run(t, nil)
	require.Equal(t, governor.SourceBaselineInterval, b.endpoint().State.Due.Source)
}

func TestResetFailuresEndsTheBackoff(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for range 4 {
		b.run(t, func(f *endpoints.Finished) { failed(f); f.RetryAfter = b.memory.now.Add(time.Hour) })
	}
	last := b.endpoint().State.Anchor
	e, err := b.ResetFailures(t.Context(), actor, b.id)
	require.NoError(t, err)
	require.Zero(t, e.State.FailureCount)
	require.Equal(t, last.Add(time.Minute), e.State.Due.At)
}

func TestHintsTakeEffectAtOnceAndExpireSeparately(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) { s.BaselineInterval = time.Hour })
	b.run(t, nil)
	e, warnings, err := b.SetIntervalHint(t.Context(), actor, b.id, endpoints.HintRequest{Interval: 5 * time.Minute, TTL: new(30 * time.Minute), Reason: "busy"})
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, start.Add(5*time.Minute), e.State.Due.At)
	require.Equal(t, governor.SourceAIInterval, e.State.Due.Source)
	require.Equal(t, &endpoints.Hint{Interval: 5 * time.Minute, ExpiresAt: start.Add(30 * time.Minute), Reason: "busy", Author: "tester", CreatedAt: start}, e.State.IntervalHint)

	e, warnings, err = b.SetOneShotHint(t.Context(), actor, b.id, endpoints.HintRequest{At: start.Add(time.Minute + time.Microsecond), ExpiresAt: start.Add(time.Hour)})
	require.NoError(t, err)
	require.Equal(t, "both_hints_live", warnings[0].Code)
	require.Equal(t, start.Add(time.Minute), e.State.Due.At)
	require.Equal(t, 5*time.Minute, e.State.IntervalHint.Interval)

	e, _, err = b.ClearHints(t.Context(), actor, b.id)
	require.NoError(t, err)
	require.Nil(t, e.State.IntervalHint)
	require.Nil(t, e.State.OneShotHint)
	require.Equal(t, start.Add(time.Hour), e.State.Due.At)
	require.Equal(t, endpoints.CauseHint, b.memory.ledger[len(b.memory.ledger)-1].Cause)
}

func TestHintsAreChecked(t *testing.T) {
	t.Parallel()
	type request = endpoints.HintRequest
	year := 366 * 24 * time.Hour
	hold := new(time.Hour)
	for name, tc := range map[string]struct {
		interval *request
		oneShot  *request
		want     []string
	}{
		"IntervalMissing":    {interval: &request{TTL: hold}, want: []string{"intervalMs out_of_range"}},
		"IntervalBelow":      {interval: &request{Interval: time.Second - 1, TTL: hold}, want: []string{"intervalMs out_of_range"}},
		"IntervalLowest":     {interval: &request{Interval: time.Second, TTL: hold}},
		"IntervalHighest":    {interval: &request{Interval: year, TTL: hold}},
		"IntervalAbove":      {interval: &request{Interval: year + 1, TTL: hold}, want: []string{"intervalMs out_of_range"}},
		"NoLife":             {interval: &request{Interval: time.Minute}, want: []string{"ttlMs required"}},
		"TwoLives":           {interval: &request{Interval: time.Minute, TTL: hold, ExpiresAt: start.Add(time.Hour)}, want: []string{"expiresAt ambiguous"}},
		"LifeOfNothing":      {interval: &request{Interval: time.Minute, TTL: new(time.Duration)}, want: []string{"ttlMs out_of_range"}},
		"LifeTooLong":        {interval: &request{Interval: time.Minute, TTL: new(year + 1)}, want: []string{"ttlMs out_of_range"}},
		"ExpiresNow":         {interval: &request{Interval: time.Minute, ExpiresAt: start}, want: []string{"expiresAt out_of_range"}},
		"ExpiresSoon":        {interval: &request{Interval: time.Minute, ExpiresAt: start.Add(time.Millisecond)}},
		"ExpiresTooLate":     {interval: &request{Interval: time.Minute, ExpiresAt: start.Add(year + time.Millisecond)}, want: []string{"expiresAt out_of_range"}},
		"ReasonTooLong":      {interval: &request{Interval: time.Minute, TTL: hold, Reason: strings.Repeat("x", 501)}, want: []string{"reason too_long"}},
		"EverythingAtOnce":   {interval: &request{Reason: "\x00"}, want: []string{"reason invalid_characters", "ttlMs required", "intervalMs out_of_range"}},
		"NoInstant":          {oneShot: &request{TTL: hold}, want: []string{"at required"}},
		"TwoInstants":        {oneShot: &request{TTL: hold, At: start, In: hold}, want: []string{"at ambiguous"}},
		"InNegative":         {oneShot: &request{TTL: hold, In: new(-time.Second)}, want: []string{"inMs out_of_range"}},
		"InNothing":          {oneShot: &request{TTL: hold, In: new(time.Duration)}},
		"InTooFar":           {oneShot: &request{TTL: hold, In: new(year + 1)}, want: []string{"inMs out_of_range"}},
		"AtLongAgo":          {oneShot: &request{TTL: hold, At: start.Add(-time.Minute - time.Millisecond)}, want: []string{"at out_of_range"}},
		"AtJustNow":          {oneShot: &request{TTL: hold, At: start.Add(-time.Minute)}},
		"AtTooFar":           {oneShot: &request{TTL: hold, At: start.Add(year + time.Millisecond)}, want: []string{"at out_of_range"}},
		"BothWrongAtOnce":    {oneShot: &request{}, want: []string{"ttlMs required", "at required"}},
		"WhatIsLegalIsTaken": {oneShot: &request{In: hold, TTL: hold}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, nil)
			before := b.endpoint().State
			var err error
			if tc.interval != nil {
				_, _, err = b.SetIntervalHint(t.Context(), actor, b.id, *tc.interval)
			} else {
				_, _, err = b.SetOneShotHint(t.Context(), actor, b.id, *tc.oneShot)
			}
			if tc.want == nil {
				require.NoError(t, err)
				return
			}
			require.Equal(t, tc.want, fields(t, err))
			require.Equal(t, before, b.endpoint().State, "nothing is written")
		})
	}
}

func TestHintOutsideTheClampsIsAcceptedWithAWarning(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) { s.MinInterval, s.MaxInterval = 30*time.Second, 2*time.Minute })
	b.run(t, nil)
	for interval, want := range map[time.Duration]time.Duration{
		10 * time.Second: 30 * time.Second, time.Hour: 2 * time.Minute, 30 * time.Second: 0, 2 * time.Minute: 0,
	} {
		e, warnings, err := b.SetIntervalHint(t.Context(), actor, b.id, endpoints.HintRequest{Interval: interval, TTL: new(time.Hour)})
		require.NoError(t, err)
		if want == 0 {
			require.Empty(t, warnings)
			require.Equal(t, start.Add(interval), e.State.Due.At)
			continue
		}
		require.Equal(t, "hint_clamped", warnings[0].Code)
		require.Equal(t, start.Add(want), e.State.Due.At)
	}
}

// TestAOneShotHintIsClamped asks for runs before the minimum, between the bounds and beyond the
// maximum. The baseline comes later still.
func TestAOneShotHintIsClamped(t *testing.T) {
	t.Parallel()
	for in, want := range map[time.Duration]time.Duration{
		10 * time.Second: 30 * time.Second, 30 * time.Second: 0, time.Minute: 0, 2 * time.Minute: 0, 3 * time.Minute: 2 * time.Minute,
	} {
		for _, live := range []bool{false, true} {
			b := setup(t, func(s *endpoints.Spec) {
				s.BaselineInterval, s.MinInterval, s.MaxInterval = time.Hour, 30*time.Second, 2*time.Minute
			})
			b.run(t, nil)
			if live {
				b.memory.now = b.endpoint().State.Due.At
				b.endpoint().State.Running = &endpoints.Running{Slot: b.memory.now, Attempt: 1, StartedAt: b.memory.now}
			}
			began := b.memory.now
			e, warnings, err := b.SetOneShotHint(t.Context(), actor, b.id, endpoints.HintRequest{In: &in, TTL: new(time.Hour)})
			require.NoError(t, err)
			warnings = slices.DeleteFunc(warnings, func(f errs.Field) bool { return f.Code == "baseline_outside_clamps" })
			if live {
				b.run(t, nil)
			}
			if want == 0 {
				require.Empty(t, warnings, in)
				require.Equal(t, began.Add(in), e.State.Due.At)
				continue
			}
			require.Len(t, warnings, 1, in)
			require.Equal(t, "at hint_clamped", warnings[0].Field+" "+warnings[0].Code)
			require.Equal(t, began.Add(want), e.State.Due.At)
		}
	}
}

// TestOneShotHintForServedDueTimeGetsWarning asks for instants around the last due time, of a
// finished and of a live run.
func TestOneShotHintForServedDueTimeGetsWarning(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration][]string{
		-time.Second: {"at hint_used"}, 0: {"at hint_used"}, time.Millisecond: nil,
	} {
		for _, live := range []bool{false, true} {
			b := setup(t, func(s *endpoints.Spec) { s.BaselineInterval = time.Hour })
			served := b.endpoint().State.Due.At
			if live {
				b.endpoint().State.Running = &endpoints.Running{Slot: served, Attempt: 1, StartedAt: served}
			} else {
				b.run(t, nil)
			}
			b.pass(10 * time.Second)
			e, warnings, err := b.SetOneShotHint(t.Context(), actor, b.id, endpoints.HintRequest{At: served.Add(after), TTL: new(time.Hour)})
			require.NoError(t, err)
			var codes []string
			for _, w := range warnings {
				codes = append(codes, w.Field+" "+w.Code)
			}
			require.Equal(t, want, codes, "%s after, live: %t", after, live)
			if live {
				b.run(t, nil)
			}
			follows := !e.State.Due.At.After(b.memory.now)
			require.Equal(t, want == nil, follows, "%s after, live: %t, next %s", after, live, e.State.Due.At)
		}
	}
}

// A one-shot hint that does not set the due time gets no warning about clamps.
func TestOneShotHintWithoutEffectGetsNoClampWarning(t *testing.T) {
	t.Parallel()
	hint := endpoints.HintRequest{In: new(time.Second), TTL: new(time.Hour)}
	b := setup(t, func(s *endpoints.Spec) { s.MinInterval = 30 * time.Second })
	_, warnings, err := b.SetOneShotHint(t.Context(), actor, b.id, hint)
	require.NoError(t, err)
	require.Empty(t, warnings, "before the first run there is nothing to count from")
	b.run(t, nil)
	_, err = b.Pause(t.Context(), actor, b.id, endpoints.PauseRequest{Until: b.pass(time.Second).Add(time.Hour)})
	require.NoError(t, err)
	_, warnings, err = b.SetOneShotHint(t.Context(), actor, b.id, hint)
	require.NoError(t, err)
	require.Empty(t, warnings, "the pause decides")
}

// A one-shot hint gets no warning about the interval hint.
func TestOneShotHintGetsNoWarningAboutTheIntervalHint(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) { s.MinInterval = 30 * time.Second })
	b.run(t, nil)
	_, _, err := b.SetIntervalHint(t.Context(), actor, b.id, endpoints.HintRequest{Interval: time.Second, TTL: new(time.Hour)})
	require.NoError(t, err)
	_, warnings, err := b.SetOneShotHint(t.Context(), actor, b.id, endpoints.HintRequest{In: new(time.Minute), TTL: new(time.Hour)})
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Equal(t, "both_hints_live", warnings[0].Code)
}

func TestHintThatExpiresBeforeItsRunGetsAWarning(t *testing.T) {
	t.Parallel()
	for life, warned := range map[time.Duration]bool{time.Minute - time.Millisecond: true, time.Minute: true, time.Minute + time.Millisecond: false} {
		b := setup(t, nil)
		b.run(t, nil)
		for kind, set := range map[string]func(endpoints.HintRequest) (*endpoints.Endpoint, []errs.Field, error){
			"interval": func(r endpoints.HintRequest) (*endpoints.Endpoint, []errs.Field, error) {
				r.Interval = time.Minute
				return b.SetIntervalHint(t.Context(), actor, b.id, r)
			},
			"one-shot": func(r endpoints.HintRequest) (*endpoints.Endpoint, []errs.Field, error) {
				r.In = new(time.Minute)
				return b.SetOneShotHint(t.Context(), actor, b.id, r)
			},
		} {
			_, _, err := b.ClearHints(t.Context(), actor, b.id)
			require.NoError(t, err)
			_, warnings, err := set(endpoints.HintRequest{TTL: &life})
			require.NoError(t, err)
			var codes []string
			for _, w := range warnings {
				codes = append(codes, w.Field+" "+w.Code)
			}
			if warned {
				require.Equal(t, []string{"expiresAt hint_ends_early"}, codes, "%s, %s", kind, life)
				continue
			}
			require.Empty(t, codes, "%s, %s", kind, life)
		}
	}
}

// TestIntervalHintThatExpiresBeforeStartAtGetsAWarning has a hint with a first run that waits for
// startAt.
func TestIntervalHintThatExpiresBeforeStartAtGetsAWarning(t *testing.T) {
	t.Parallel()
	for life, want := range map[time.Duration]int{time.Hour: 1, 3 * time.Hour: 0} {
		b := setup(t, func(s *endpoints.Spec) { s.StartAt = start.Add(2 * time.Hour) })
		_, warnings, err := b.SetIntervalHint(t.Context(), actor, b.id, endpoints.HintRequest{Interval: time.Minute, TTL: &life})
		require.NoError(t, err)
		require.Len(t, warnings, want, life)
	}
}

func TestEditIsValidatedWholeAndRaisesVersion(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) { s.MaxInterval = 2 * time.Minute })
	b.run(t, nil)
	edit := func(version int64, change func(*endpoints.Spec)) (*endpoints.Endpoint, error) {
		e, _, err := b.Edit(t.Context(), actor, b.id, version, func(s endpoints.Spec) (endpoints.Spec, error) {
			change(&s)
			return s, nil
		})
		return e, err
	}
	_, err := edit(0, func(s *endpoints.Spec) { s.MinInterval = 3 * time.Minute })
	require.Equal(t, []string{"minIntervalMs clamp_order"}, fields(t, err), "against the stored maximum")
	_, err = edit(2, func(*endpoints.Spec) {})
	require.Equal(t, errs.Precondition, errs.CodeOf(err))
	require.Equal(t, int64(1), b.endpoint().Version)

	now := b.pass(time.Second)
	e, err := edit(1, func(s *endpoints.Spec) { s.BaselineInterval = 0; s.BaselineCron = "0 * * * *"; s.MaxInterval = 0 })
	require.NoError(t, err)
	require.Equal(t, int64(2), e.Version)
	require.Equal(t, now, e.UpdatedAt)
	require.Equal(t, start.Add(time.Hour), e.State.Due.At)
	require.Equal(t, governor.SourceBaselineCron, e.State.Due.Source)
	_, err = edit(0, func(s *endpoints.Spec) { s.BaselineCron = "30 * * * *" })
	require.NoError(t, err)
	require.Equal(t, start.Add(30*time.Minute), b.endpoint().State.Due.At, "the new cron decides, not the parsed old one")

	refused := errs.New(errs.Malformed, "bad_patch", "no")
	_, _, err = b.Edit(t.Context(), actor, b.id, 0, func(s endpoints.Spec) (endpoints.Spec, error) { return s, refused })
	require.ErrorIs(t, err, refused)
}

// TestChangeDuringALiveRunLeavesTheDecisionToItsFinish makes each change during a run.
func TestChangeDuringALiveRunLeavesTheDecisionToItsFinish(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.endpoint().State.Running = &endpoints.Running{Slot: start, Attempt: 1, StartedAt: start}
	due := b.endpoint().State.Due
	_, err := b.Pause(t.Context(), actor, b.id, endpoints.PauseRequest{Until: start.Add(time.Hour)})
	require.NoError(t, err)
	_, _, err = b.SetIntervalHint(t.Context(), actor, b.id, endpoints.HintRequest{Interval: time.Second, TTL: new(time.Hour)})
	require.NoError(t, err)
	require.Equal(t, due, b.endpoint().State.Due)
	require.Len(t, b.memory.ledger, 1)
	b.run(t, nil)
	require.Equal(t, start.Add(time.Hour), b.endpoint().State.Due.At)
}

func TestAnArchivedEndpointTakesNoChange(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	require.NoError(t, b.Archive(t.Context(), actor, b.id, 0))
	archived := *b.endpoint()
	require.True(t, archived.Archived())
	require.Equal(t, int64(2), archived.Version)
	b.pass(time.Hour)
	require.NoError(t, b.Archive(t.Context(), actor, b.id, 0))
	require.Equal(t, archived, *b.endpoint(), "twice changes nothing")
	_, err := b.RunNow(t.Context(), actor, b.id, endpoints.OneOffRequest{})
	require.Equal(t, errs.Conflict, errs.CodeOf(err))
	_, _, err = b.Edit(t.Context(), actor, b.id, 0, func(s endpoints.Spec) (endpoints.Spec, error) { return s, nil })
	require.Equal(t, errs.Conflict, errs.CodeOf(err))
	planned, err := b.Preview(t.Context(), actor, b.id, 5)
	require.NoError(t, err)
	require.Empty(t, planned)
	_, err = b.Resume(t.Context(), endpoints.Actor{TenantID: [16]byte{2}}, b.id)
	require.Equal(t, errs.NotFound, errs.CodeOf(err))
}

// previewed returns the due times of a preview, counted from the start of the tests, and its notes.
func (b *bundle) previewed(t *testing.T, n int) (times []time.Duration, notes []string) {
	t.Helper()
	before := b.endpoint().State
	list, err := b.Preview(t.Context(), actor, b.id, n)
	require.NoError(t, err)
	require.Equal(t, before, b.endpoint().State, "a preview changes nothing")
	for _, p := range list {
		times, notes = append(times, p.At.Sub(start)), append(notes, p.Note)
	}
	return times, notes
}

func TestAPreviewFollowsTheGovernor(t *testing.T) {
	t.Parallel()
	minutes := func(list ...int) (all []time.Duration) {
		for _, m := range list {
			all = append(all, time.Duration(m)*time.Minute)
		}
		return all
	}
	b := setup(t, nil)
	times, _ := b.previewed(t, 4)
	require.Equal(t, minutes(0, 1, 2, 3), times)

	_, _, err := b.SetIntervalHint(t.Context(), actor, b.id, endpoints.HintRequest{Interval: 2 * time.Minute, TTL: new(5 * time.Minute)})
	require.NoError(t, err)
	times, _ = b.previewed(t, 5)
	require.Equal(t, minutes(0, 2, 4, 6, 7), times, "until the hint expires")

	_, err = b.Pause(t.Context(), actor, b.id, endpoints.PauseRequest{Until: start.Add(time.Hour)})
	require.NoError(t, err)
	times, _ = b.previewed(t, 3)
	require.Equal(t, minutes(60, 61, 62), times)
	_, err = b.Pause(t.Context(), actor, b.id, endpoints.PauseRequest{})
	require.NoError(t, err)
	times, _ = b.previewed(t, 3)
	require.Empty(t, times)
}

func TestAPreviewDuringARunBeginsAfterIt(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	_, err := b.RunNow(t.Context(), actor, b.id, endpoints.OneOffRequest{})
	require.NoError(t, err)
	b.memory.begin(b.endpoint())
	b.pass(10 * time.Second)
	times, _ := b.previewed(t, 2)
	require.Equal(t, []time.Duration{time.Minute, 2 * time.Minute}, times, "the run that was asked for is under way, not to come")
}

// TestPreviewListsClockChanges previews nights with a clock change, from shortly before and from
// weeks before.
func TestPreviewListsClockChanges(t *testing.T) {
	t.Parallel()
	eve := time.Date(2030, time.March, 9, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		edit   func(*endpoints.Spec)
		paused bool
		now    time.Time
	}{
		"Soon":       {now: eve},
		"WithJitter": {now: eve, edit: func(s *endpoints.Spec) { s.Jitter = time.Minute }},
		"StartsThen": {now: start, edit: func(s *endpoints.Spec) { s.StartAt = eve }},
		"PausedTill": {now: start, paused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(s *endpoints.Spec) {
				s.BaselineInterval, s.BaselineCron, s.Timezone, s.StartAt = 0, "30 2 * * *", "America/New_York", eve
				if tc.paused {
					s.StartAt = time.Time{}
				}
				if tc.edit != nil {
					tc.edit(s)
				}
			})
			if tc.paused {
				_, err := b.Pause(t.Context(), actor, b.id, endpoints.PauseRequest{Until: eve})
				require.NoError(t, err)
			}
			b.memory.now = tc.now
			_, notes := b.previewed(t, 3)
			require.Empty(t, notes[0])
			require.Contains(t, notes[1], "02:30 does not exist")
			require.Empty(t, notes[2])
		})
	}
}
