package zombie

import (
	"sync"
	"time"
)

const (
	// clockStep is a disagreement between the database's clock and ours, beyond what measuring it takes, that no drift explains.
	clockStep = 2 * time.Second
	// valveFactor is after how many settle periods a lock that is over is enough, whatever the gate and the guard say.
	valveFactor = 10
)

// gate decides what may be believed. Silence counts only for a sweeper that has itself reached the database without a gap for a whole
// settle period: an outage makes every worker silent. A step of the database's clock makes silence and passed deadlines out of nothing,
// so after one the period begins anew. The passes and the election tell it what they reach.
type trustGate struct {
	settle time.Duration
	base   time.Time // anchors the monotonic readings
	clamp  bool      // locks may lie in the future: no pass has looked since the start or the last step; for the passes alone

	mu          sync.Mutex
	watching    time.Time     // since when every pass has reached the database; zero: the last one did not
	stepped     time.Time     // when a step of the clock was seen last; zero: never
	atBase      time.Time     // the database's time at base; zero: unknown
	uncertainty time.Duration // how far atBase may be off
}

func newTrustGate(settle time.Duration) *trustGate {
	return &trustGate{settle: settle, base: time.Now(), clamp: true}
}

// reached takes in that the database read its clock as now between sent and received.
func (g *trustGate) recordClock(now, sent, received time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	atBase, r := now.Add(-received.Sub(g.base)), received.Sub(sent)
	if !g.atBase.IsZero() && atBase.Sub(g.atBase).Abs() > g.uncertainty+r+clockStep {
		g.watching, g.stepped, g.clamp = time.Time{}, received, true
	}
	if g.watching.IsZero() {
		g.watching = received
	}
	g.atBase, g.uncertainty = atBase, r
}

// missed takes in that the database could not be reached.
func (g *trustGate) recordOutage() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.watching = time.Time{}
}

// signal returns what may be believed now.
func (g *trustGate) signal(now time.Time, staleAfter time.Duration) Signal {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Signal{
		StaleAfter:   staleAfter,
		TrustSilence: !g.watching.IsZero() && now.Sub(g.watching) >= g.settle,
		ClockStepped: !g.stepped.IsZero() && now.Sub(g.stepped) < g.settle,
		Valve:        valveFactor * g.settle,
	}
}
