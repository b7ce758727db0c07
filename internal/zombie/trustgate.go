package zombie

import (
	"sync"
	"time"
)

const (
	// clockStep is the smallest difference between the database's clock and ours, beyond the error
	// of the measurement, that drift cannot explain.
	clockStep = 2 * time.Second
	// valveFactor is the number of settle periods after which an expired lock alone suffices,
	// despite gate and guard.
	valveFactor = 10
)

// trustGate decides whether silence and passed deadlines count. An outage makes every worker
// silent, so silence counts only after every pass has reached the database for a whole settle
// period. A step of the database's clock can fake silence and passed deadlines, so the period
// restarts after one. The passes report to it.
type trustGate struct {
	settle time.Duration
	base   time.Time // base of the monotonic readings
	// clamp reports that locks may lie too far in the future: no pass has checked since the start
	// or the last step. Only the passes use it, so no lock guards it.
	clamp bool

	mu sync.Mutex
	// watching is the start of the time in which every pass reached the database; zero after a
	// failure.
	watching    time.Time
	stepped     time.Time     // last step of the clock; zero: never
	atBase      time.Time     // database time at base; zero: unknown
	uncertainty time.Duration // error bound of atBase
}

func newTrustGate(settle time.Duration) *trustGate {
	return &trustGate{
		settle: settle,
		base:   time.Now(),
		clamp:  true,
	}
}

// recordClock records that the database read its clock as now between sent and received.
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

// recordOutage records that the database could not be reached.
func (g *trustGate) recordOutage() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.watching = time.Time{}
}

// signal returns the signals that count now.
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
