package zombie

import "time"

// massMinimum is the number of runs that silence may settle at once without delay: a dead worker
// leaves that many in a small system.
const massMinimum = 20

// massGuard delays settlements of many runs at once. If most live runs are silent, broken
// heartbeats are more likely than lost workers. After a settle period the loss is believed. Only
// the passes use it.
type massGuard struct {
	settle time.Duration
	since  time.Time // start of the mass silence; zero: none
	seen   time.Time // time of the last observation
}

// holds reports whether settlements by silence have to wait.
func (g *massGuard) holds(s LiveCounts, now time.Time) bool {
	if s.Silent <= massMinimum || 2*s.Silent <= s.Live {
		g.since = time.Time{}
		return false
	}
	if g.since.IsZero() {
		g.since = now
	}
	g.seen = now
	return now.Sub(g.since) < g.settle
}

// reset forgets a mass silence that was not observed for half a settle period, because it need not
// be the same one. That happens after a change of leadership or failed passes. It reports whether
// it did.
func (g *massGuard) reset(now time.Time) bool {
	if g.since.IsZero() || now.Sub(g.seen) <= g.settle/2 {
		return false
	}
	g.since = time.Time{}
	return true
}
