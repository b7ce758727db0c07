package governor

import "time"

// catchUp applies the misfire policy to an overdue cron.
func (p *plan) catchUp() {
	if p.in.CatchUp == CatchUpAll {
		p.catchUpAll()
		return
	}
	if p.in.CatchUp == CatchUpSkip {
		p.move(RuleOverrun, p.nextFrom(p.in.Now), "overdue: missed occurrences are skipped")
		return
	}
	p.missed = p.lastMissed()
	p.move(RuleOverrun, p.in.Now, "overdue: one run now for every missed occurrence")
}

// lastMissed returns the last occurrence up to now without run or record, which the catch-up run
// stands for. It returns the zero time if there is none; the run then stands for now. It is a
// binary search with at most about 60 calls to the cron.
func (p *plan) lastMissed() time.Time {
	after, until := later(p.cronAnchor(), p.in.OnRecord), p.in.Now
	last := p.next(after)
	if last.After(p.in.Now) {
		return time.Time{}
	}
	for after = last; until.Sub(after) > 1; {
		middle := after.Add(until.Sub(after) / 2)
		if at := p.next(middle); at.After(p.in.Now) {
			until = middle
		} else {
			after, last = at, at
		}
	}
	if at := p.next(after); !at.After(p.in.Now) {
		return at
	}
	return last
}

// catchUpAll runs the oldest missed occurrence within the limits. The next decision counts from it
// and finds the following one, until none is left.
func (p *plan) catchUpAll() {
	oldest := p.oldestMissed()
	if oldest.After(p.in.Now) {
		p.move(RuleOverrun, oldest, p.whyNothingLeft())
		return
	}
	p.missed = oldest
	p.move(RuleOverrun, p.in.Now, p.whyCatchUp(oldest))
}

// oldestMissed returns the oldest occurrence without run or record that is within reach and among
// the last catchUpLimit up to now. If none was missed, it is the next future occurrence.
func (p *plan) oldestMissed() time.Time {
	after := later(p.cronAnchor(), p.in.Now.Add(-catchUpReach-1)) // inclusive
	own := *p                                                     // A method value of p would move every plan to the heap.
	return series{
		next:  own.next,
		until: p.in.Now,
	}.oldest(later(after, p.in.Accounted))
}

// next returns the first occurrence strictly after an instant, or Indefinite if there is none. A
// cron whose result is not later has none, because it would move the due time into the past.
func (p *plan) next(after time.Time) time.Time {
	at := p.in.Baseline.Cron.Next(after)
	if at.IsZero() || !at.After(after) {
		return Indefinite
	}
	return bound(at)
}

// nextFrom returns the first occurrence at or after an instant, or Indefinite if there is none.
func (p *plan) nextFrom(from time.Time) time.Time { return p.next(from.Add(-1)) }
