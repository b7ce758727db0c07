package endpoints_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/schedule"
)

// life is an endpoint whose every due time, run and skip is written down, for a reading of its own
// of what must be on record.
type life struct {
	*rapid.T
	*story
	test  *testing.T
	cron  *schedule.Cron
	every time.Duration
	plans []plan
}

// plan is a decision that was made, and what became of it.
type plan struct {
	at     time.Time // when it was decided
	anchor time.Time // what it counted from
	slot   time.Time // what it planned; overridden by the next decision unless it ran
	ran    bool
	begun  time.Time // when it ran
	manual bool
	paused time.Time // until
}

// next returns the due time that follows one.
func (l *life) next(at time.Time) time.Time {
	if l.cron != nil {
		return l.cron.Next(at)
	}
	return at.Add(l.every)
}

// decided writes down the decision in force.
func (l *life) decided() {
	s := l.endpoint().State
	l.plans = append(l.plans, plan{at: l.memory.now, anchor: s.Anchor, slot: s.Due.Slot, manual: s.Due.Source == "manual", paused: s.PausedUntil})
}

// happen lets one thing happen: a run with its delay and its length, or what a user does.
func (l *life) happen(rt *rapid.T) {
	span := func(name string, most time.Duration) time.Duration {
		return time.Duration(rapid.Int64Range(0, most.Milliseconds()).Draw(rt, name)) * time.Millisecond
	}
	few := 12 * l.every
	l.pass(time.Millisecond) // No two decisions are made in one.
	switch rapid.SampledFrom([]string{"run", "run", "run", "wait", "pause", "resume", "run now", "reset"}).Draw(rt, "what") {
	case "run":
		due := l.endpoint().State.Due
		if !due.At.Before(governor.Indefinite) {
			return
		}
		begin := due.At
		if begin.Before(l.memory.now) {
			begin = l.memory.now
		}
		if rapid.Bool().Draw(rt, "is late") {
			begin = begin.Add(span("delay", few))
		}
		end := begin.Add(span("length", l.every/2))
		if rapid.Bool().Draw(rt, "is long") {
			end = begin.Add(span("length", few))
		}
		l.carryOut(begin, end)
	case "wait":
		l.pass(span("wait", few))
		return
	case "pause":
		until := time.Time{}
		if rapid.Bool().Draw(rt, "for a while") {
			until = l.memory.now.Add(time.Millisecond + span("pause", few))
		}
		_, err := l.Pause(l.test.Context(), actor, l.id, endpoints.PauseRequest{Until: until})
		require.NoError(l, err)
	case "resume":
		_, err := l.Resume(l.test.Context(), actor, l.id)
		require.NoError(l, err)
	case "run now":
		_, err := l.RunNow(l.test.Context(), actor, l.id, endpoints.OneOffRequest{})
		require.NoError(l, err)
	case "reset":
		_, err := l.ResetFailures(l.test.Context(), actor, l.id)
		require.NoError(l, err)
	}
	l.note()
	l.decided()
}

// carryOut lets the planned run begin and end.
func (l *life) carryOut(begin, end time.Time) {
	planned := &l.plans[len(l.plans)-1]
	planned.ran, planned.begun, l.memory.now = true, begin, end
	l.run(l.test, func(f *endpoints.Finished) { f.StartedAt = begin })
}

// skipped reports in which record a due time stands.
func (l *life) skipped(at time.Time) int {
	return slices.IndexFunc(l.skips, func(s endpoints.Skip) bool { return !at.Before(s.From) && !at.After(s.To) })
}

// requireRecords checks each record: in order, apart from each other, and with as many due times as
// it says.
func (l *life) requireRecords() {
	var last time.Time
	for _, s := range l.skips {
		require.True(l, s.From.After(last), "%s comes after %s: %v", s.From, last, noted(l.skips))
		last = s.To
		n := int64(1)
		for at := s.From; at.Before(s.To); at = l.next(at) {
			n++
		}
		require.Equal(l, n, s.Count, "%v", noted([]endpoints.Skip{s}))
	}
	for _, p := range l.plans {
		if p.ran && !p.manual {
			require.Equal(l, -1, l.skipped(p.slot), "%s ran: %v", p.slot.Sub(start), noted(l.skips))
		}
	}
}

// requireNoGap reads the decisions one after the other: what was due from one to the next, because
// it was planned or would have been but for a pause, or follows what was planned, must have run or
// stand in a record, unless a run that was then planned at once stands for the last of it.
func (l *life) requireNoGap() {
	ran := map[time.Time]bool{}
	for _, p := range l.plans {
		if p.ran {
			ran[p.slot] = true
		}
	}
	for i := 0; i+1 < len(l.plans); i++ {
		p, following := l.plans[i], l.plans[i+1]
		var lost []time.Time
		for _, at := range l.due(p, following) {
			if !ran[at] && l.skipped(at) < 0 && at.Before(l.plans[len(l.plans)-1].slot) { // Else its turn is yet to come.
				lost = append(lost, at)
			}
		}
		if following.slot.Equal(following.at) && !following.manual && len(lost) == 1 {
			continue
		}
		require.Empty(l, lost, "lost between the decisions at %s and %s: %v", p.at.Sub(start), following.at.Sub(start), noted(l.skips))
	}
}

// due returns what was due after one decision and up to the next. What will be caught up on is not
// among it.
func (l *life) due(p, following plan) []time.Time {
	var list []time.Time
	until := following.at
	if following.slot.Before(until) && !following.manual {
		until = following.slot.Add(-1)
	}
	add := func(from, after, until time.Time) {
		for at := l.next(from); !at.After(until); at = l.next(at) {
			if at.After(after) {
				list = append(list, at)
			}
		}
	}
	if p.manual { // The schedule goes on as it was until the run that somebody asked for begins, and then counts from that.
		if !p.ran {
			p.begun = until
		}
		if !p.anchor.IsZero() {
			add(p.anchor, p.at, p.begun)
		}
		if p.ran {
			add(following.anchor, later(p.at, p.begun), until)
		}
		return list
	}
	if !p.anchor.IsZero() { // Held back by the pause, up to the due time that was planned for its end.
		end := p.paused
		for _, sooner := range []time.Time{p.slot, until.Add(1)} {
			if sooner.Before(end) {
				end = sooner
			}
		}
		add(p.anchor, p.at, end.Add(-1))
	}
	if p.slot.After(until) {
		return list
	}
	list = append(list, p.slot)
	counts := p.slot
	if p.ran && following.anchor.After(counts) { // It started late, and the schedule counts from there.
		add(p.slot, p.slot, following.anchor)
		counts = following.anchor
	}
	add(counts, later(p.at, counts), until)
	return list
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// TestEveryDueTimeHasARunOrOneRecord leads endpoints through runs that are late and long, pauses,
// resumes and requests.
func TestEveryDueTimeHasARunOrOneRecord(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l := &life{T: rt, test: t, every: time.Duration(rapid.Int64Range(1000, 90_000).Draw(rt, "interval")) * time.Millisecond}
		edit := interval(l.every)
		if expression := rapid.SampledFrom([]string{"", "", "* * * * *", "*/20 * * * * *"}).Draw(rt, "cron"); expression != "" {
			policy := rapid.SampledFrom([]governor.CatchUp{governor.CatchUpOnce, governor.CatchUpSkip, governor.CatchUpAll}).Draw(rt, "catch up")
			edit = cron(expression, policy)
			parsed, err := schedule.Parse(schedule.Spec{Expression: expression, Zone: "UTC"})
			require.NoError(t, err)
			l.cron, l.every = parsed, parsed.Next(start).Sub(start)
		}
		minimum := time.Duration(0)
		if l.cron == nil && rapid.Bool().Draw(rt, "has a minimum") { // Up to the interval it moves runs and no due time.
			minimum = max(time.Second, l.every-time.Duration(rapid.Int64Range(0, 1000).Draw(rt, "less"))*time.Millisecond)
		}
		overlap := rapid.SampledFrom([]governor.Overlap{governor.OverlapSkip, governor.OverlapQueue}).Draw(rt, "overlap")
		l.story = &story{bundle: setup(t, func(s *endpoints.Spec) { edit(s); s.MinInterval, s.Overlap = minimum, overlap })}
		l.decided()
		things := rapid.IntRange(1, 25).Draw(rt, "things")
		for range things {
			l.happen(rt)
		}
		l.resume(t, l.pass(time.Millisecond).Sub(start)) // What a catch-up had deferred comes to light.
		l.decided()
		for l.endpoint().State.Due.Source == governor.SourceManual { // So does the queue behind a request.
			now := l.pass(time.Millisecond)
			l.carryOut(now, now)
			l.note()
			l.decided()
		}
		l.requireRecords()
		l.requireNoGap()
		paused := slices.ContainsFunc(l.plans, func(p plan) bool { return !p.paused.IsZero() }) // A pause ends the queue.
		if few := 8; overlap == governor.OverlapQueue && things <= few && !paused {             // Too few for its bounds.
			require.False(l, slices.ContainsFunc(l.skips, func(s endpoints.Skip) bool { return s.Reason == endpoints.OverlapSkipped }), "%v", noted(l.skips))
		}
	})
}
