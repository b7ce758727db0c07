package governor

import "time"

// walkLimit limits the due times of a clamped cron that are visited one by one. All others are
// computed as a sum.
const walkLimit = 20_000

// CountingCron is a [Cron] that counts occurrences without visiting each of them.
type CountingCron interface {
	Cron
	// Count returns the number of occurrences in (after, until].
	Count(after, until time.Time) int64
	// Last returns the last occurrence in (after, until], and the zero time if there is none.
	Last(after, until time.Time) time.Time
}

// Span is the time after one instant up to and including another.
type Span struct{ After, Until time.Time }

// DueSeries is a series of due times at one tempo.
type DueSeries struct {
	From, To time.Time // first and last due time
	// Count is exact, except for a cron with clamps and more than 20,000 due times since the
	// anchor; then it is a lower bound.
	Count  int64
	Source Source // source of the due times
}

// DueTimes returns the due times within a span that follow in.Anchor if each is served on time. An
// interval hint in force applies up to the first due time after its end, then the wait for the rate
// of change, or else the baseline. An endpoint that never ran has none before its start. The result
// equals repeated calls of [Decide] without jitter, pauses, one-shot hints and Retry-After, but is
// computed as a sum where possible. A cron that is no [CountingCron] has no due times.
func DueTimes(in Input, within Span) []DueSeries {
	if !in.EndAt.IsZero() {
		within.Until = earlier(within.Until, in.EndAt.Add(-1))
	}
	in = Input{
		Now:          in.Now,
		Anchor:       in.Anchor,
		StartAt:      in.StartAt,
		Baseline:     in.Baseline,
		Failures:     in.Failures,
		Min:          in.Min,
		Max:          in.Max,
		ChangeRate:   in.ChangeRate,
		IntervalHint: in.IntervalHint,
		Terse:        true,
	}.bounded()
	if in.Anchor.IsZero() {
		if in.Anchor = firstAnchor(in); in.Anchor.IsZero() {
			return nil
		}
	}
	var list []DueSeries
	if in.Hinted() {
		g := dueGrid{
			in:     in,
			every:  Tempo(in),
			source: SourceAIInterval,
		}
		last := g.notAfter(later(bound(in.IntervalHint.ExpiresAt), in.Anchor.Add(1)).Add(g.every - 1))
		list = g.appendSeries(list, Span{within.After, earlier(within.Until, last)})
		in.Anchor = last
	}
	in.IntervalHint = nil // A walk goes back to instants at which an expired hint was in force.
	switch {
	case in.paced():
		return dueGrid{
			in:     in,
			every:  Tempo(in),
			source: SourceChangeRate,
		}.appendSeries(list, within)
	case in.Baseline.Cron == nil:
		return dueGrid{
			in:     in,
			every:  Tempo(in),
			source: SourceBaselineInterval,
		}.appendSeries(list, within)
	}
	if cron, sums := in.Baseline.Cron.(CountingCron); sums {
		list = dueGrid{
			in:     in,
			cron:   cron,
			source: SourceBaselineCron,
		}.appendSeries(list, within)
	}
	return list
}

// firstAnchor returns the anchor of an endpoint that never ran. It is zero if the endpoint is due
// at once, because then it has no due time before its first run.
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

// dueGrid is the series of due times of one tempo after an anchor.
type dueGrid struct {
	in     Input
	every  time.Duration // interval, if cron is nil
	cron   CountingCron  // nil: an interval
	source Source
}

// appendSeries appends the due times within a span, if there are any.
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
	case g.in.Min <= time.Second && g.in.Max <= 0: // cron occurrences are at least a second apart
		s = DueSeries{
			From:  g.cron.Next(within.After),
			To:    g.cron.Last(within.After, within.Until),
			Count: g.cron.Count(within.After, within.Until),
		}
	default:
		s = g.walk(within)
	}
	if s.Count <= 0 || s.To.Before(s.From) {
		return list
	}
	s.Source = g.source
	return append(list, s)
}

// notAfter returns the last point of an interval grid up to an instant. The instant must not be
// before the anchor.
func (g dueGrid) notAfter(at time.Time) time.Time { return at.Add(-(at.Sub(g.in.Anchor) % g.every)) }

// walk visits the due times of a clamped cron. Beyond walkLimit the count is a lower bound, and the
// last due time is the end of the span unless it can be computed.
func (g dueGrid) walk(within Span) (s DueSeries) {
	at, known := g.lastServed(within.After)
	if !known { // A later start gives later due times, so the count is a lower bound.
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

// lastServed returns the last due time of a clamped cron up to an instant. known is false if
// walkLimit is exceeded: a minimum shifts due times off the cron's grid, so all must be visited.
func (g dueGrid) lastServed(instant time.Time) (at time.Time, known bool) {
	at = g.in.Anchor
	if g.in.Min <= 0 { // A maximum adds due times between occurrences and counts anew from each.
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

// next returns the due time after one that was served on time.
func (g dueGrid) next(at time.Time) time.Time {
	g.in.Now, g.in.Anchor = at, at
	return Decide(g.in).Slot
}
