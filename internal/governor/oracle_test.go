package governor_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/governor"
)

// scenario is an input in whole seconds from T, small enough that equal instants are drawn often.
// Pointers are optional.
type scenario struct {
	now, interval, cron, failures, lowest, highest int64
	replan                                         bool
	skip                                           bool
	anchor, startAt, lastSlot, lastStart           *int64
	retry, paused                                  *int64
	next, fresh, open                              *int64
	queued                                         *int64
	hintEvery, hintEnds, shotAt, shotEnds          *int64
	paced                                          *int64 // the wait for the rate of change
	outage                                         *int64 // a tenth of its age at the anchor; nil: the hint is for none
}

// drawScenario draws one. A cron of 0 means that the baseline is the interval.
func drawScenario(t *rapid.T) scenario {
	small := rapid.Int64Range(-6, 12)
	optional := func(name string) *int64 { return rapid.Ptr(small, true).Draw(t, name) }
	s := scenario{
		now: rapid.Int64Range(0, 9).Draw(t, "now"), interval: rapid.Int64Range(1, 6).Draw(t, "interval"),
		cron: rapid.Int64Range(0, 4).Draw(t, "cron"), failures: rapid.Int64Range(0, 7).Draw(t, "failures"),
		lowest: rapid.Int64Range(0, 5).Draw(t, "min"), highest: rapid.Int64Range(0, 9).Draw(t, "max"),
		replan: rapid.Bool().Draw(t, "replan"), skip: rapid.Bool().Draw(t, "skip"),
		anchor: optional("anchor"), startAt: optional("startAt"), lastSlot: optional("lastSlot"),
		lastStart: optional("lastStart"), retry: optional("retryAfter"), paused: optional("pausedUntil"),
		next: optional("targetNext"), fresh: optional("freshUntil"), open: optional("openUntil"),
		queued: optional("queuedUntil"),
	}
	s.paced = rapid.Ptr(rapid.Int64Range(-1, 9), true).Draw(t, "wait")
	if rapid.Bool().Draw(t, "interval hint") {
		s.hintEvery, s.hintEnds = new(rapid.Int64Range(1, 9).Draw(t, "hint")), new(small.Draw(t, "hint ends"))
	}
	if s.hintEvery != nil && s.anchor != nil {
		s.outage = rapid.Ptr(rapid.Int64Range(0, 12), true).Draw(t, "outage")
	}
	if rapid.Bool().Draw(t, "one-shot") {
		s.shotAt, s.shotEnds = new(small.Draw(t, "shot at")), new(small.Draw(t, "shot ends"))
	}
	return s
}

// input returns the input of the governor.
func (s scenario) input() governor.Input {
	sec := func(n int64) time.Duration { return time.Duration(n) * time.Second }
	instant := func(n *int64) time.Time {
		if n == nil {
			return time.Time{}
		}
		return at(sec(*n))
	}
	in := governor.Input{
		Now: at(sec(s.now)), Baseline: every(sec(s.interval)), Failures: int(s.failures), Min: sec(s.lowest), Max: sec(s.highest),
		Anchor: instant(s.anchor), StartAt: instant(s.startAt), LastSlot: instant(s.lastSlot),
		LastStart: instant(s.lastStart), RetryAfter: instant(s.retry), PausedUntil: instant(s.paused),
		TargetNext: instant(s.next), FreshUntil: instant(s.fresh), OpenUntil: instant(s.open),
		QueuedUntil: instant(s.queued),
	}
	if s.cron > 0 {
		in.Baseline = on(grid(sec(s.cron)))
	}
	if s.replan {
		in.Cause = governor.CauseReplan
	}
	if s.skip {
		in.CatchUp = governor.CatchUpSkip
	}
	if s.paced != nil {
		in.ChangeRate = &governor.ChangeRate{Wait: sec(*s.paced)}
	}
	if s.hintEvery != nil {
		in.IntervalHint = &governor.IntervalHint{Interval: sec(*s.hintEvery), ExpiresAt: instant(s.hintEnds)}
		if s.outage != nil {
			in.IntervalHint.OutageSince = instant(s.anchor).Add(-sec(10 * *s.outage))
		}
	}
	if s.shotAt != nil {
		in.OneShot = &governor.OneShotHint{At: instant(s.shotAt), ExpiresAt: instant(s.shotEnds)}
	}
	return in
}

// after returns the first second after n on the scenario's cron. T lies on the grid of every period
// that is drawn.
func (s scenario) after(n int64) int64 {
	return n - ((n%s.cron)+s.cron)%s.cron + s.cron
}

// reading is a decision in the making: the instant, its source, and the interval behind it, which
// is 0 for a cron and a one-shot. The due time of the run is the instant itself unless slot is set.
type reading struct {
	due      int64
	slot     *int64
	source   governor.Source
	interval int64
	onCron   bool
}

// baseline reads the rules on the baseline.
func (s scenario) baseline() reading {
	waits := s.startAt != nil && *s.startAt > s.now
	switch {
	case s.cron > 0 && s.anchor != nil:
		return reading{due: s.after(*s.anchor), source: governor.SourceBaselineCron, onCron: true}
	case s.cron > 0 && waits:
		return reading{due: s.after(*s.startAt - 1), source: governor.SourceBaselineCron, onCron: true}
	case s.cron > 0:
		return reading{due: s.after(s.now), source: governor.SourceBaselineCron, onCron: true}
	}
	interval := s.interval
	for range min(s.failures, 5) {
		interval += interval
	}
	return reading{due: s.counted(interval), source: governor.SourceBaselineInterval, interval: interval}
}

// counted returns when an interval is due.
func (s scenario) counted(interval int64) int64 {
	switch {
	case s.anchor != nil:
		return *s.anchor + interval
	case s.startAt != nil:
		return max(s.now, *s.startAt)
	}
	return s.now
}

// atChangeRate reads the rule on the rate of change.
func (s scenario) atChangeRate(r reading) reading {
	if s.paced == nil || *s.paced <= 0 || s.anchor == nil {
		return r
	}
	if s.cron == 0 && s.failures > 0 && *s.paced <= r.interval { // the backoff is longer
		return r
	}
	return reading{due: *s.anchor + *s.paced, source: governor.SourceChangeRate, interval: *s.paced}
}

// hinted reads the rules on hints.
func (s scenario) hinted(r reading) reading {
	over := s.outage != nil && s.failures == 0
	if s.hintEvery != nil && *s.hintEnds > s.now && !over {
		every := *s.hintEvery
		if s.outage != nil {
			every = max(every, *s.outage)
		}
		r = reading{due: s.counted(every), source: governor.SourceAIInterval, interval: every}
	}
	served := s.shotAt != nil && s.lastSlot != nil && *s.shotAt <= *s.lastSlot
	if s.shotAt != nil && *s.shotEnds > s.now && !served && *s.shotAt < r.due {
		r = reading{due: *s.shotAt, source: governor.SourceAIOneShot}
	}
	return r
}

// lined reads the rule on the queue: the first due time that passed under a run is served now.
func (s scenario) lined(r reading) reading {
	if s.queued == nil || s.anchor == nil {
		return r
	}
	s.shotAt = nil
	// The recurring series, with the first occurrence after the anchor clamped.
	line := s.hinted(s.atChangeRate(s.baseline()))
	first := max(line.due, *s.anchor+s.lowest)
	if s.highest > 0 {
		first = min(first, *s.anchor+s.highest)
	}
	if r.source == governor.SourceAIOneShot && r.due <= first {
		line, first = r, r.due
	}
	if first > min(*s.queued, s.now) {
		return r
	}
	line.due, line.slot = s.now, &first
	return line
}

// wished reads the rule on the headers of the last answer.
func (s scenario) wished(r reading) reading {
	asked := s.next != nil && (s.lastSlot == nil || *s.lastSlot < *s.next)
	if asked && *s.next < r.due {
		if r.slot != nil { // The queue goes on at once anyway.
			return r
		}
		return reading{due: *s.next, source: governor.SourceTarget}
	}
	floor := s.fresh
	if asked {
		floor = s.next
	}
	if floor != nil && r.due < *floor {
		r.due, r.source = *floor, governor.SourceTarget
	}
	return r
}

// lifted applies the rules about Retry-After and missed due times.
func (s scenario) lifted(r reading) reading {
	if s.retry != nil && *s.retry > r.due {
		r.due, r.source = *s.retry, governor.SourceRetryAfter
	}
	switch {
	case r.due >= s.now:
	case r.onCron && s.skip:
		r.due = s.after(s.now - 1)
	case r.onCron: // One run for all that were missed, on behalf of the last.
		r.due, r.slot = s.now, new(s.after(s.now)-s.cron)
	case s.replan:
		r.due = s.now
	default:
		r.due = s.now + r.interval
	}
	return r
}

// clamped reads the rules on the minimum and the maximum.
func (s scenario) clamped(r reading) reading {
	if s.anchor == nil {
		return r
	}
	if s.lowest > 0 && r.due-*s.anchor < s.lowest {
		r.due, r.source = *s.anchor+s.lowest, governor.SourceClampedMin
	}
	if s.highest > 0 && r.due-*s.anchor > s.highest {
		r.due, r.source = *s.anchor+s.highest, governor.SourceClampedMax
	}
	r.due = max(r.due, s.now)
	if s.lowest > 0 && s.lastStart != nil && r.due-*s.lastStart < s.lowest {
		if r.slot == nil {
			r.slot = new(r.due)
		}
		r.due, r.source = *s.lastStart+s.lowest, governor.SourceClampedMin
	}
	return r
}

// broken reads the rule on the breaker of the host: it holds whatever the clamps say. What the run
// stands for is what it stood for before the clamps.
func (s scenario) broken(before reading) reading {
	r := s.clamped(before)
	if s.open != nil && *s.open > r.due {
		return reading{due: *s.open, slot: before.slot, source: governor.SourceCircuitOpen, onCron: r.onCron}
	}
	return r
}

// held reads the rule on pauses.
func (s scenario) held(r reading) reading {
	if s.paused == nil || *s.paused <= s.now {
		return r
	}
	if *s.paused <= r.due {
		// A paused cron reports its due time as the pause leaves it.
		if r.source == governor.SourceBaselineCron {
			r.source = governor.SourcePaused
		}
		return r
	}
	r.due, r.slot, r.source = *s.paused, nil, governor.SourcePaused
	if r.onCron {
		r.due = s.after(*s.paused - 1)
	}
	return r
}

// TestDecideAgreesWithAnIndependentReading compares with the rules as a second hand wrote them
// down, over small numbers of seconds, where every tie and border is met.
func TestDecideAgreesWithAnIndependentReading(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawScenario(t)
		in := s.input()
		got := governor.Decide(in)
		want := s.held(s.broken(s.lifted(s.wished(s.lined(s.hinted(s.atChangeRate(s.baseline())))))))
		require.Equal(t, want.due, int64(got.At.Sub(T)/time.Second), "seconds after T; %v", got.Steps)
		require.Equal(t, want.source, got.Source, "%v", got.Steps)
		if want.slot == nil {
			want.slot = &want.due
		}
		require.Equal(t, *want.slot, int64(got.Slot.Sub(T)/time.Second), "seconds after T; %v", got.Steps)
		requireSound(t, in, got)
	})
}

// TestSumsAreExactOrStopAtTheEnd compares interval and backoff with unbounded arithmetic.
func TestSumsAreExactOrStopAtTheEnd(t *testing.T) {
	t.Parallel()
	nanos := func(t time.Time) *big.Int {
		n := new(big.Int).Mul(big.NewInt(t.Unix()), big.NewInt(1e9))
		return n.Add(n, big.NewInt(int64(t.Nanosecond())))
	}
	rapid.Check(t, func(t *rapid.T) {
		anchor := time.Unix(rapid.Int64Range(-62135596799, governor.Indefinite.Unix()).Draw(t, "anchor"), 0)
		interval := rapid.OneOf(rapid.Int64Range(1, int64(year)), rapid.Int64Range(1, 1<<63-1)).Draw(t, "interval")
		failures := rapid.IntRange(0, 40).Draw(t, "failures")
		got := governor.Decide(governor.Input{Now: anchor, Anchor: anchor, Baseline: every(time.Duration(interval)), Failures: failures})

		backedOff := new(big.Int).Lsh(big.NewInt(interval), uint(min(failures, 5)))
		if longest := big.NewInt(1<<63 - 1); backedOff.Cmp(longest) > 0 {
			backedOff = longest
		}
		want := new(big.Int).Add(nanos(anchor), backedOff)
		if end := nanos(governor.Indefinite); want.Cmp(end) > 0 {
			want = end
		}
		require.Zero(t, want.Cmp(nanos(got.At)), "want %v, got %v", want, got.At)
	})
}
