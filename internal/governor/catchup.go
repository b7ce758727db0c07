package governor

import "time"

// The bounds of catching up on every missed occurrence: after a long outage a backlog must neither run for days nor hit
// the target with thousands of runs in a row.
const (
	catchUpLimit = 100
	catchUpReach = 24 * time.Hour
)

// catchUp moves a cron candidate that has passed according to the endpoint's policy.
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

// lastMissed returns the last occurrence up to now that no run stands for and that has no record, which is what a run for all of them
// stands for. Where there is none it returns the zero time, and the run stands for now. It halves the span, so it asks a cron at most about 60 times.
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

// catchUpAll runs the oldest missed occurrence that the bounds allow. The next decision counts from it and so finds the
// one after it, until none is left.
func (p *plan) catchUpAll() {
	oldest := p.oldestMissed()
	if oldest.After(p.in.Now) {
		p.move(RuleOverrun, oldest, p.whyNothingLeft())
		return
	}
	p.missed = oldest
	p.move(RuleOverrun, p.in.Now, p.whyCatchUp(oldest))
}

// oldestMissed returns the oldest occurrence that no run stands for, that has no record, is within reach and has no more than the limit
// from it to now, both included. Where nothing within reach was missed that is the first occurrence to come.
func (p *plan) oldestMissed() time.Time {
	after := later(p.cronAnchor(), p.in.Now.Add(-catchUpReach-1)) // exactly the reach is within reach
	after = later(after, p.in.Accounted)
	if p.count(after, p.in.Now, catchUpLimit+1) > catchUpLimit {
		after = p.limitedStart(after)
	}
	return p.next(after)
}

// lastFew returns an instant between after and now that exactly the limit of occurrences follow up to now; there must be
// more of them after the given instant. It halves the span and counts only the half whose number is not known, so that it
// asks a cron of minutes about 500 times and one of seconds about 1,000 times, however many were missed.
func (p *plan) limitedStart(after time.Time) time.Time {
	few, n := p.in.Now, 0 // n occurrences are after few and not after now; n never exceeds the limit
	for n < catchUpLimit && few.Sub(after) > 1 {
		middle := after.Add(few.Sub(after) / 2)
		more := p.count(middle, few, catchUpLimit-n+1)
		if n+more > catchUpLimit {
			after = middle
			continue
		}
		few, n = middle, n+more
	}
	return few
}

// count returns the number of occurrences after one instant and not after another, and stops at a limit.
func (p *plan) count(after, until time.Time, limit int) int {
	for n := range limit {
		at := p.next(after)
		if at.After(until) {
			return n
		}
		after = at
	}
	return limit
}

// next returns the first occurrence strictly after an instant, or Indefinite when there is none. A cron that answers with
// an instant that is not later has none: otherwise it could put a due time into the past.
func (p *plan) next(after time.Time) time.Time {
	at := p.in.Baseline.Cron.Next(after)
	if at.IsZero() || !at.After(after) {
		return Indefinite
	}
	return bound(at)
}

// nextFrom returns the first occurrence at or after an instant, or Indefinite when there is none.
func (p *plan) nextFrom(from time.Time) time.Time { return p.next(from.Add(-1)) }
