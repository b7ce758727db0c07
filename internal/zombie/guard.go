package zombie

import "time"

// massFloor is how many runs silence may settle at once without a question: one worker that dies leaves that many on a small system.
const massFloor = 20

// guard holds back settlements in masses. That most of what runs is lost at once is less likely than that whatever carries the signs
// of life is broken; a disaster that lasts for a settle period is believed.
type guard struct {
	settle time.Duration
	since  time.Time // when the masses were first seen; zero: they are not there
}

// holds reports whether what silence would settle has to wait.
func (g *guard) holds(s Survey, now time.Time) bool {
	if s.Silent <= massFloor || 2*s.Silent <= s.Live {
		g.since = time.Time{}
		return false
	}
	if g.since.IsZero() {
		g.since = now
	}
	return now.Sub(g.since) < g.settle
}

// forget takes in that nobody watches: what was there before has not lasted since.
func (g *guard) forget() { g.since = time.Time{} }
