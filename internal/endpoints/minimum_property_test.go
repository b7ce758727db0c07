package endpoints_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
)

// minimumModel is an endpoint with a minimum interval that goes through every path that decides a
// due time.
type minimumModel struct {
	*bundle
	rt    *rapid.T
	t     *testing.T
	least time.Duration
	last  time.Time // when the last run started that called its target
}

func (p *minimumModel) span(name string, most time.Duration) time.Duration {
	return time.Duration(rapid.Int64Range(0, most.Microseconds()).Draw(p.rt, name)) * time.Microsecond
}

// start starts the planned run, late by up to a second or by more, and ends it with a random
// outcome.
func (p *minimumModel) start() {
	due := p.endpoint().State.Due
	if !due.At.Before(governor.Indefinite) {
		return
	}
	begin := later(due.At, p.memory.now)
	switch rapid.SampledFrom([]string{"in time", "late", "later"}).Draw(p.rt, "start") {
	case "late":
		begin = begin.Add(p.span("delay", time.Second))
	case "later":
		begin = begin.Add(p.span("delay", 3*p.least))
	}
	how := rapid.SampledFrom([]string{"succeeded", "failed", "failed", "lost", "skipped"}).Draw(p.rt, "end")
	if how != "skipped" {
		if !p.last.IsZero() && due.Source != governor.SourceManual {
			require.GreaterOrEqual(p.rt, begin.Sub(p.last), p.least-time.Millisecond, "%s after a start at %s", due.Source, p.last)
		}
		p.last = begin
	}
	p.memory.now = begin.Add(p.span("length", p.least)).Truncate(time.Millisecond).Add(time.Millisecond)
	p.run(p.t, func(f *endpoints.Finished) {
		f.StartedAt = begin
		switch how {
		case "failed":
			failed(f)
			if rapid.Bool().Draw(p.rt, "retry after") {
				f.RetryAfter = p.memory.now.Add(p.span("wait", p.least))
			}
		case "lost", "skipped":
			f.Status, f.Verdict, f.Unanswered = how, endpoints.Neutral, true
		}
	})
}

// happen takes one random step.
func (p *minimumModel) happen() {
	p.memory.now = p.memory.now.Add(time.Millisecond)
	var err error
	ctx := p.t.Context()
	switch rapid.SampledFrom([]string{
		"start", "start", "start", "start", "wait", "pause", "resume", "run now", "reset", "interval hint", "one-shot hint", "clear", "edit", "another minimum",
	}).Draw(p.rt, "what") {
	case "start":
		p.start()
	case "wait":
		p.memory.now = p.memory.now.Add(p.span("wait", 3*p.least).Truncate(time.Millisecond))
	case "pause":
		_, err = p.Pause(ctx, actor, p.id, endpoints.PauseRequest{Until: p.memory.now.Add(time.Millisecond + p.span("pause", 2*p.least))})
	case "resume":
		_, err = p.Resume(ctx, actor, p.id)
	case "run now":
		_, err = p.RunNow(ctx, actor, p.id, endpoints.OneOffRequest{})
	case "reset":
		_, err = p.ResetFailures(ctx, actor, p.id)
	case "interval hint":
		_, _, err = p.SetIntervalHint(ctx, actor, p.id, endpoints.HintRequest{Interval: time.Second + p.span("hint", p.least), TTL: new(time.Hour)})
	case "one-shot hint":
		_, _, err = p.SetOneShotHint(ctx, actor, p.id, endpoints.HintRequest{In: new(p.span("shot", p.least)), TTL: new(time.Hour)})
	case "clear":
		_, _, err = p.ClearHints(ctx, actor, p.id)
	case "edit":
		_, _, err = p.Edit(ctx, actor, p.id, 0, func(s endpoints.Spec) (endpoints.Spec, error) {
			s.Jitter = rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(p.rt, "jitter")
			return s, nil
		})
	case "another minimum":
		_, _, err = p.Edit(ctx, actor, p.id, 0, func(s endpoints.Spec) (endpoints.Spec, error) {
			p.least = time.Duration(rapid.Int64Range(1000, 90_000).Draw(p.rt, "another minimum")) * time.Millisecond
			s.MinInterval, s.MaxInterval = p.least, 0
			if s.BaselineInterval > 0 {
				s.BaselineInterval = max(s.BaselineInterval, p.least)
			}
			return s, nil
		})
	}
	require.NoError(p.rt, err)
}

// TestMinimumIntervalCountsFromActualStarts requires a gap of at least the minimum - 1 ms on every
// path that decides a due time: finish, retry, lost run, change, hint, catch-up. Starts are late by
// up to a second and by more. A run now bypasses the minimum; the run after it does not.
func TestMinimumIntervalCountsFromActualStarts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p := &minimumModel{rt: rt, t: t, least: time.Duration(rapid.Int64Range(1000, 90_000).Draw(rt, "minimum")) * time.Millisecond}
		edit := interval(p.least + p.span("more", p.least).Truncate(time.Millisecond))
		if expression := rapid.SampledFrom([]string{"", "* * * * *", "*/20 * * * * *"}).Draw(rt, "cron"); expression != "" {
			policy := rapid.SampledFrom([]governor.CatchUp{governor.CatchUpOnce, governor.CatchUpSkip, governor.CatchUpAll}).Draw(rt, "catch up")
			edit = cron(expression, policy)
		}
		p.bundle = setup(t, func(s *endpoints.Spec) {
			edit(s)
			s.MinInterval = p.least
			s.Retry = endpoints.Retry{MaxAttempts: 3, Backoff: time.Second, MaxBackoff: time.Minute}
			if rapid.Bool().Draw(rt, "has a maximum") {
				s.MaxInterval = p.least + p.span("maximum", p.least).Truncate(time.Millisecond)
			}
		})
		for range rapid.IntRange(2, 30).Draw(rt, "things") {
			p.happen()
		}
	})
}

// TestRaisedMinimumCountsFromTheLastCallAfterAnUnsentAttempt edits an endpoint after an
// attempt that sent nothing.
func TestRaisedMinimumCountsFromTheLastCallAfterAnUnsentAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) {
		s.BaselineInterval, s.MinInterval = time.Hour, time.Second
		s.Retry = endpoints.Retry{MaxAttempts: 2, Backoff: 10 * time.Second, MaxBackoff: 10 * time.Second}
	})
	slot := b.endpoint().State.Due.Slot
	b.memory.now = slot.Add(9 * minute)
	call := slot.Add(8*minute + 345*time.Microsecond)
	b.run(t, func(f *endpoints.Finished) { failed(f); f.StartedAt = call })
	require.Equal(t, 2, b.endpoint().State.Due.Attempt)
	b.memory.now = b.endpoint().State.Due.At
	b.run(t, func(f *endpoints.Finished) { f.Status, f.Verdict = "skipped", endpoints.Neutral })

	_, _, err := b.Edit(t.Context(), actor, b.id, 0, func(s endpoints.Spec) (endpoints.Spec, error) {
		s.MinInterval, s.BaselineInterval = 90*minute, 90*minute
		return s, nil
	})

	require.NoError(t, err)
	require.Equal(t, slot.Add(98*minute), b.endpoint().State.Due.At, "90 minutes after the start of the attempt that called the target")
}

// TestLateStartKeepsTheGrid has a minimum of two seconds and starts that would lie 1.475 s apart
// without it.
func TestLateStartKeepsTheGrid(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *endpoints.Spec) { s.BaselineInterval, s.MinInterval = 2*time.Second, 2*time.Second })
	b.run(t, nil)
	slot := b.endpoint().State.Due.Slot
	b.memory.now = slot.Add(700 * time.Millisecond)

	decided := b.run(t, func(f *endpoints.Finished) { f.StartedAt = slot.Add(525*time.Millisecond + 999*time.Microsecond) })

	require.Equal(t, slot.Add(2525*time.Millisecond), decided.Due.At, "two seconds after the start")
	require.Equal(t, slot.Add(2*time.Second), decided.Due.Slot)
	require.Equal(t, governor.SourceClampedMin, decided.Due.Source)
	b.memory.now = decided.Due.At
	require.Equal(t, slot.Add(4*time.Second), b.run(t, nil).Due.Slot)
	require.Empty(t, b.endpoint().Unrecorded)
}
