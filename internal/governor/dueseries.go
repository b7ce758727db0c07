package governor

import "time"

// walkLimit bounds how many due times of a cron with clamps are looked at one by one. Only those have no sum to count them by.
const walkLimit = 20_000

// Summed is a [Cron] that sums up its occurrences without going from one to the next.
type CountingCron interface {
	Cron
	// Count returns how many occurrences lie after one instant and not after another.
	Count(after, until time.Time) int64
	// Last returns the last occurrence after one instant and not after another, and the zero time when there is none.
	Last(after, until time.Time) time.Time
}

// Span is the time after one instant and up to another.
type Span struct{ After, Until time.Time }

// Passed is due times that follow each other by one tempo.
type DueSeries struct {
	From, To time.Time // the first and the last of them
	Count    int64     // exact; of a cron with clamps and more than 20,000 due times since the anchor at least so many
	Source   Source    // what sets them
}

// DueTimes returns the due times within a span that follow in.Anchor, were each of them served on time: those of the interval hint where it
// is fresh at in.Now, up to the due time that outlives it, and then those of the baseline. An endpoint that has never run has none before
// it starts. It is [Decide], step by step, but a sum where there is one: jitter, pauses, one-shots and waits have no part in it. A cron
// that is no [Summed] has none.
func DueTimes(in Input, within Span) []DueSeries {
	in = Input{
		Now: in.Now, Anchor: in.Anchor, StartAt: in.StartAt, Baseline: in.Baseline, Failures: in.Failures, Min: in.Min, Max: in.Max, IntervalHint: in.IntervalHint,
	}.bounded()
	if in.Anchor.IsZero() {
		if in.Anchor = firstAnchor(in); in.Anchor.IsZero() {
			return nil
		}
	}
	var list []DueSeries
	if in.Hinted() {
		g := dueGrid{in: in, every: Tempo(in), source: SourceAIInterval}
		last := g.notAfter(later(bound(in.IntervalHint.ExpiresAt), in.Anchor.Add(1)).Add(g.every - 1))
		list = g.appendSeries(list, Span{within.After, earlier(within.Until, last)})
		in.Anchor, in.IntervalHint = last, nil
	}
	if in.Baseline.Cron == nil {
		return dueGrid{in: in, every: Tempo(in), source: SourceBaselineInterval}.appendSeries(list, within)
	}
	if cron, sums := in.Baseline.Cron.(CountingCron); sums {
		list = dueGrid{in: in, cron: cron, source: SourceBaselineCron}.appendSeries(list, within)
	}
	return list
}

// firstAnchor returns the point that the first due time of an endpoint that has never run follows; zero: it is due at once, and then
// no time is its due time before it runs.
func firstAnchor(in Input) time.Time {
	waits, cron := in.StartAt.After(in.Now), in.Baseline.Cron != nil
	switch {
	case cron && waits:
		return in.StartAt.Add(-1)
	case cron:
		return in.Now
	case waits:
		return in.StartAt.Add(-Tempo(in))
	default:
		return time.Time{}
	}
}

// grid is the due times of one tempo that follow the anchor of an input.
type dueGrid struct {
	in     Input
	every  time.Duration // of an interval
	cron   CountingCron  // nil: an interval
	source Source
}

// passed appends the due times within a span, if there are any.
func (g dueGrid) appendSeries(list []DueSeries, within Span) []DueSeries {
	within.After = later(within.After, g.in.Anchor)
	if !within.Until.After(within.After) {
		return list
	}
	var s DueSeries
	switch {
	case g.cron == nil:
		s = DueSeries{From: g.notAfter(within.After).Add(g.every), To: g.notAfter(within.Until)}
		s.Count = int64(s.To.Sub(s.From)/g.every) + 1
	case g.in.Min <= time.Second && g.in.Max <= 0: // A cron is never closer than a second by itself.
		s = DueSeries{From: g.cron.Next(within.After), To: g.cron.Last(within.After, within.Until), Count: g.cron.Count(within.After, within.Until)}
	default:
		s = g.walk(within)
	}
	if s.Count <= 0 || s.To.Before(s.From) {
		return list
	}
	s.Source = g.source
	return append(list, s)
}

// notAfter returns the last point of an interval that is not after an instant, from the anchor on; the instant is not before it.
func (g dueGrid) notAfter(at time.Time) time.Time { return at.Add(-(at.Sub(g.in.Anchor) % g.every)) }

// walk goes through a cron whose due times clamps move. Beyond the limit it gives the end of the span for the last of them, where nothing
// better is known, and the count is the least that it can be.
func (g dueGrid) walk(within Span) (s DueSeries) {
	at, known := g.lastServed(within.After)
	if !known { // The later a due time, the later what follows it. So there are at least as many as would follow the begin of the span.
		at = within.After
	}
	for at = g.next(at); !at.After(within.Until); at = g.next(at) {
		if s.Count++; s.Count == 1 {
			s.From = at
		}
		if s.To = at; s.Count > walkLimit {
			if s.To, known = g.lastServed(within.Until); !known {
				s.To = within.Until
			}
			break
		}
	}
	return s
}

// reached returns the last due time of a cron with clamps that is not after an instant, from the anchor on. It reports whether that can be
// known: a minimum keeps due times off the cron's own for an unknown time, so all of them have to be gone through, up to the limit.
func (g dueGrid) lastServed(instant time.Time) (at time.Time, known bool) {
	at = g.in.Anchor
	if g.in.Min <= 0 { // A maximum adds due times between the cron's own, and counts anew from each of those.
		at = later(at, g.cron.Last(at, instant))
		since := instant.Sub(at)
		return at.Add(since - since%g.in.Max), true
	}
	for range walkLimit {
		next := g.next(at)
		if next.After(instant) {
			return at, true
		}
		at = next
	}
	return at, false
}

// next returns the due time that follows one which was served on time.
func (g dueGrid) next(at time.Time) time.Time {
	g.in.Now, g.in.Anchor = at, at
	return Decide(g.in).Slot
}
