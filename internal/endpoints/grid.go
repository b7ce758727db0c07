package endpoints

import (
	"time"

	"rubato/internal/governor"
	"rubato/internal/schedule"
)

// walkLimit bounds how many due times of a clamped cron are looked at one by one. Only those have no sum to count them by.
const walkLimit = 20_000

// grid is the due times that follow a point that a schedule counts from, were each of them served on time.
type grid struct {
	from   time.Time
	every  time.Duration // of an interval; 0: a cron
	cron   *schedule.Cron
	min    time.Duration // between due times of a cron; 0: none
	max    time.Duration // likewise
	ends   time.Time     // when the hint that it follows is over: its first point from then on is the last; zero: no end
	source governor.Source
}

// grids returns the due times after in.Anchor, by what is in force at in.Now: where a fresh hint sets the tempo, its own up to the
// one that outlives it, and then those of the baseline. An endpoint that has never run has none before it starts.
func grids(in governor.Input) []grid {
	cron, _ := in.Baseline.Cron.(*schedule.Cron)
	if in.Anchor.IsZero() {
		if in.Anchor = firstAnchor(in, cron); in.Anchor.IsZero() {
			return nil
		}
	}
	hint := in.IntervalHint
	if !in.Hinted() {
		return []grid{baselineGrid(in, cron)}
	}
	hinted := grid{from: in.Anchor, every: governor.Tempo(in), ends: hint.ExpiresAt, source: governor.SourceAIInterval}
	in.Anchor, in.IntervalHint = hinted.last(), nil
	return []grid{hinted, baselineGrid(in, cron)}
}

// firstAnchor returns the point that the first due time of an endpoint that has never run follows; zero: it is due at once, and then
// no time is its due time before it runs.
func firstAnchor(in governor.Input, cron *schedule.Cron) time.Time {
	waits := in.StartAt.After(in.Now)
	switch {
	case cron != nil && waits:
		return in.StartAt.Add(-1)
	case cron != nil:
		return in.Now
	case waits:
		return in.StartAt.Add(-governor.Tempo(in))
	default:
		return time.Time{}
	}
}

func baselineGrid(in governor.Input, cron *schedule.Cron) grid {
	in.IntervalHint = nil
	g := grid{from: in.Anchor, every: governor.Tempo(in), source: governor.SourceBaselineInterval}
	if cron != nil {
		g.cron, g.source = cron, governor.SourceBaselineCron
		g.min, g.max = max(0, in.Min), max(0, in.Max)
	}
	return g
}

// last returns the last point of a grid that has an end.
func (g grid) last() time.Time {
	return g.notAfter(laterOf(g.ends, g.from.Add(1)).Add(g.every - 1))
}

// span returns the points in (after, until] as one skip without a reason; a count of 0: there are none.
func (g grid) span(after, until time.Time) Skip {
	after = laterOf(after, g.from)
	if !g.ends.IsZero() {
		until = earlierOf(until, g.last())
	}
	switch {
	case !until.After(after):
		return Skip{}
	case g.cron == nil:
		return g.steps(after, until)
	case g.min <= time.Second && g.max == 0: // A cron is never closer than a second by itself.
		return g.occurrences(after, until)
	default:
		return g.walk(after, until)
	}
}

// steps counts an interval.
func (g grid) steps(after, until time.Time) Skip {
	first, last := g.notAfter(after).Add(g.every), g.notAfter(until)
	if last.Before(first) {
		return Skip{}
	}
	return Skip{From: first, To: last, Count: int64(last.Sub(first)/g.every) + 1, Source: g.source}
}

// notAfter returns the last point of an interval that is not after an instant, from being one of them; the instant is not before it.
func (g grid) notAfter(at time.Time) time.Time {
	return at.Add(-(at.Sub(g.from) % g.every))
}

// occurrences counts a cron.
func (g grid) occurrences(after, until time.Time) Skip {
	first := g.cron.Next(after)
	if first.IsZero() || first.After(until) {
		return Skip{}
	}
	return Skip{From: first, To: g.cron.Last(after, until), Count: g.cron.Count(after, until), Source: g.source}
}

// walk goes through a cron whose due times clamps move. Beyond the limit it gives the end of the span for the last of them, where nothing
// better is known, and the count is the least that it can be.
func (g grid) walk(after, until time.Time) Skip {
	s := Skip{Source: g.source}
	at, known := g.reached(after)
	if !known { // The later a due time, the later what follows it. So there are at least as many as would follow the begin of the span.
		at = after
	}
	for {
		if at = g.next(at); at.IsZero() || at.After(until) {
			return s
		}
		if s.Count == walkLimit {
			break
		}
		s.add(at)
	}
	if at, known = g.reached(until); !known {
		at = until
	}
	s.add(at)
	return s
}

// reached returns the last due time of a cron with clamps that is not after an instant, from being one of them. It reports whether that can be
// known: a minimum keeps due times off the cron's own for who knows how long, so all of them have to be gone through, up to the limit.
func (g grid) reached(instant time.Time) (at time.Time, known bool) {
	at = g.from
	if g.min == 0 { // A maximum adds due times between the cron's own, and counts anew from each of those.
		at = laterOf(at, g.cron.Last(at, instant))
		since := instant.Sub(at)
		return at.Add(since - since%g.max), true
	}
	for range walkLimit {
		next := g.next(at)
		if next.IsZero() || next.After(instant) {
			return at, true
		}
		at = next
	}
	return at, false
}

// next returns the due time that follows one which was served on time; zero: none.
func (g grid) next(at time.Time) time.Time {
	next := g.cron.Next(at)
	if !next.IsZero() && g.min > 0 {
		next = laterOf(next, at.Add(g.min))
	}
	if g.max > 0 && (next.IsZero() || next.After(at.Add(g.max))) {
		next = at.Add(g.max)
	}
	return next
}
