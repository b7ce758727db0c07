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

// dueTimeRecord records every due time, run and skip of an endpoint, for an independent check of
// the recorded skips.
type dueTimeRecord struct {
	*rapid.T
	*story
	test  *testing.T
	cron  *schedule.Cron
	every time.Duration
	plans []plan
}

// plan is a decision with its later fate.
type plan struct {
	at     time.Time // when it was decided
	anchor time.Time // instant that it counted from
	slot   time.Time // due time that it planned; the next decision replaces it unless it ran
	ran    bool
	begun  time.Time // when it ran
	manual bool
	paused time.Time // until
}

// next returns the due time after at.
func (l *dueTimeRecord) next(at time.Time) time.Time {
	if l.cron != nil {
		return l.cron.Next(at)
	}
	return at.Add(l.every)
}

// decided appends the decision in force.
func (l *dueTimeRecord) decided() {
	s := l.endpoint().State
	l.plans = append(l.plans, plan{at: l.memory.now, anchor: s.Anchor, slot: s.Due.Slot, manual: s.Due.Source == "manual", paused: s.PausedUntil})
}

// happen takes one random step: a run with a delay and a length, or a change by a user.
func (l *dueTimeRecord) happen(rt *rapid.T) {
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

// carryOut starts and ends the planned run.
func (l *dueTimeRecord) carryOut(begin, end time.Time) {
	planned := &l.plans[len(l.plans)-1]
	planned.ran, planned.begun, l.memory.now = true, begin, end
	l.run(l.test, func(f *endpoints.Finished) { f.StartedAt = begin })
}

// skipped returns the index of the record that contains a due time, or -1.
func (l *dueTimeRecord) skipped(at time.Time) int {
	return slices.IndexFunc(l.skips, func(s endpoints.Skip) bool { return !at.Before(s.From) && !at.After(s.To) })
}

// requireRecords requires that records are ordered and disjoint, and that each counts its due times
// correctly.
func (l *dueTimeRecord) requireRecords() {
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

// requireNoGap requires a run or a record for every due time between two decisions. Due times that
// a pause suppressed count too. The exception: a run planned at once stands for the last missed due
// time.
func (l *dueTimeRecord) requireNoGap() {
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

// due returns the due times after one decision and up to the next, without those that a catch-up
// still serves.
func (l *dueTimeRecord) due(p, following plan) []time.Time {
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
	// The old schedule goes on until the requested run starts, and then counts from that start.
	if p.manual {
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

// TestEveryDueTimeHasARunOrOneRecord leads endpoints through late and long runs, pauses, resumes
// and requests.
func TestEveryDueTimeHasARunOrOneRecord(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l := &dueTimeRecord{T: rt, test: t, every: time.Duration(rapid.Int64Range(1000, 90_000).Draw(rt, "interval")) * time.Millisecond}
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
		// This records the due times that a catch-up had deferred.
		l.resume(t, l.pass(time.Millisecond).Sub(start))
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
