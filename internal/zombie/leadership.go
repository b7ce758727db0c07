package zombie

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"rubato/internal/telemetry"
)

const (
	// stuckIntervals is after how many intervals a pass that does not end is stuck.
	stuckIntervals = 6
	// minStuck is the least time until then: a sweep alone may take sweepTimeout.
	minStuck = sweepTimeout + 2*time.Second
	// cutOff is how long before that the context of a pass ends. Sweeps that heed it are never stuck.
	cutOff = time.Second
)

// errStuck ends the lead of a sweeper whose pass does not end.
var errStuck = errors.New("a pass of the sweeper is stuck")

// lead is what a sweeper knows of its leadership. One sweeper of all leads: it holds a lock for as long
// as it does, and the others try to get it every 2 s. It is safe for concurrent use.
type leadership struct {
	limit time.Duration // after which a pass is stuck

	mu     sync.Mutex
	term   context.Context //nolint:containedctx // It is what a leader has: its end ends the sweeps. nil: another sweeper leads.
	cancel context.CancelCauseFunc
	since  time.Time // when the term began, or the last pass in it ended
	pass   time.Time // when the pass under way began; zero: there is none
}

func newLeadership(interval time.Duration) *leadership {
	return &leadership{limit: max(stuckIntervals*interval, minStuck)}
}

// begin begins a term, which lasts until ctx ends, or until a pass is stuck.
func (l *leadership) begin(ctx context.Context) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term, l.cancel = context.WithCancelCause(ctx)
	l.since = time.Now()
	return l.term
}

// over ends the term.
func (l *leadership) end(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		l.cancel(cause)
	}
	l.term, l.cancel = nil, nil
}

// leads reports whether this sweeper leads.
func (l *leadership) leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term != nil && l.term.Err() == nil
}

// started returns the term in which a pass begins; nil: another sweeper leads.
func (l *leadership) beginPass() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == nil || l.term.Err() != nil {
		return nil
	}
	l.pass = time.Now()
	return l.term
}

// ended notes that a pass has ended.
func (l *leadership) endPass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass, l.since = time.Time{}, time.Now()
}

// hangs reports whether a pass is under way. Until it ends, its sweeper cannot lead again.
func (l *leadership) passRunning() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.pass.IsZero()
}

// stuck is the check of health: no pass of the leader may take longer than the limit, nor may the next
// one be as late. It stays red until the pass that is stuck ends, although another sweeper leads by then.
func (l *leadership) checkStuck(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.pass.IsZero() && time.Since(l.pass) > l.limit:
		return fmt.Errorf("a pass of the sweeper has not ended for %s", l.limit)
	case l.term != nil && l.term.Err() == nil && l.pass.IsZero() && time.Since(l.since) > l.limit:
		return fmt.Errorf("this worker leads the sweeps, and no pass has ended for %s", l.limit)
	}
	return nil
}

// Checks returns what must hold while the sweeper does its work. It asks nobody.
func (s *Sweeper) Checks() []telemetry.Check {
	return []telemetry.Check{{Name: "sweeps", Ask: s.leadership.checkStuck}}
}

// elect takes part in the election of the leader until ctx ends. It calls tried after its first try to
// win: then it leads, or another sweeper does, or the database is away.
func (s *Sweeper) elect(ctx context.Context, tried func()) {
	tick := time.NewTicker(takeOverPeriod)
	defer tick.Stop()
	for {
		if !s.leadership.passRunning() {
			s.campaign(ctx, tried)
		}
		tried()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// campaign tries once to become the leader, and leads until the lock or ctx is over.
func (s *Sweeper) campaign(ctx context.Context, tried func()) {
	led, err := s.cfg.Store.Lead(ctx, func(locked context.Context) error {
		term := s.leadership.begin(locked)
		defer s.leadership.end(nil)
		tried()
		<-term.Done()
		return context.Cause(term)
	})
	if err == nil || ctx.Err() != nil {
		return
	}
	if !led {
		s.trust.recordOutage()
	}
	s.cfg.Logger.Warn("this worker does not lead the sweeps any more, or cannot; it tries again", "error", err)
}
