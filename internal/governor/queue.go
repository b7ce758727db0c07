package governor

import "time"

// queue plans the oldest due time of the queue at once. Due times are queued up to in.QueuedUntil,
// because they passed while a run was in flight. The next decision counts from this one and finds
// the following one, until none is left.
func (p *plan) queue() {
	until := earlier(p.in.QueuedUntil, p.in.Now)
	if until.IsZero() || p.neverRun() {
		return
	}
	kind, source := p.recurring()
	oldest := p.oldestQueued(kind, until)
	if p.kind == kindOneShot && !p.at.After(oldest) {
		oldest, kind, source = p.at, p.kind, p.source
	}
	if oldest.After(until) {
		return
	}
	p.kind, p.source, p.missed, p.queued = kind, source, oldest, true
	p.move(RuleQueued, p.in.Now, p.whyQueued(oldest))
}

// recurring returns the schedule without the one-shot hint.
func (p *plan) recurring() (kind, Source) {
	switch {
	case p.in.Hinted():
		return kindInterval, SourceAIInterval
	case p.in.paced():
		return kindInterval, SourceChangeRate
	case p.in.Baseline.Cron != nil:
		return kindCron, SourceBaselineCron
	default:
		return kindInterval, SourceBaselineInterval
	}
}

// oldestQueued returns the oldest due time of a schedule without run or record that is within reach
// and among the last catchUpLimit up to an instant. If there is none, it is the next one.
func (p *plan) oldestQueued(k kind, until time.Time) time.Time {
	own := *p // A method value of p would move every plan to the heap.
	list := series{
		next:  own.following,
		until: until,
	}
	if k == kindCron {
		list.next = own.followingCron
	}
	after := p.in.Anchor
	// The clamps count from the anchor, so the series starts there if its first due time may run.
	if least := later(p.in.Accounted, p.in.Now.Add(-catchUpReach-1)); !list.next(after).After(least) {
		after = least
	}
	return list.oldest(after)
}

// following returns the first point of the interval's grid strictly after an instant, within the
// clamps. The instant must not be before the anchor.
func (p *plan) following(after time.Time) time.Time {
	every := Clamp(p.every, p.in.Min, p.in.Max)
	return add(after, every-after.Sub(p.in.Anchor)%every)
}

// followingCron returns the first occurrence strictly after an instant, within the clamps. The
// clamps count in whole milliseconds, as due times do, because the search for the limit of the
// queue starts the series anywhere.
func (p *plan) followingCron(after time.Time) time.Time {
	from := after.Truncate(time.Millisecond)
	at := later(p.next(after), add(from, max(p.in.Min, 0)))
	if p.in.Max > 0 {
		at = earlier(at, add(from, max(p.in.Max, time.Millisecond)))
	}
	return at
}
