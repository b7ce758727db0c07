package zombie

import "time"

// massFloor is how many runs silence may settle at once without a question: one worker that dies leaves that many on a small system.
const massMinimum = 20

// guard holds back settlements in masses. That most of what runs is lost at once is less likely than that whatever carries the signs
// of life is broken; a disaster that lasts for a settle period is believed.
type massGuard struct {
	settle time.Duration
	since  time.Time // when the masses were first seen; zero: they are not there
	seen   time.Time // when they were last seen
}

// holds reports whether what silence would settle has to wait.
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

// lapsed reports whether masses were seen and nobody has looked since for so long that they need not be the same: others had the turn, or
// looking failed. Then they are forgotten.
func (g *massGuard) reset(now time.Time) bool {
	if g.since.IsZero() || now.Sub(g.seen) <= g.settle/2 {
		return false
	}
	g.since = time.Time{}
	return true
}
