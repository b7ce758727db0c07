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
	// stuckIntervals is the number of intervals after which a pass counts as stuck.
	stuckIntervals = 6
	// minStuck is the least time until then, because one sweep may take sweepTimeout.
	minStuck = sweepTimeout + 2*time.Second
	// cutOff is how long before that the pass's context ends. Sweeps that obey it never get stuck.
	cutOff = time.Second
)

// errStuck ends the leadership of a sweeper with a stuck pass.
var errStuck = errors.New("a pass of the sweeper is stuck")

// leadership is the leader election state of this sweeper. The leader holds a database lock during
// its term, and the others try to get it every 2 s. It is safe for concurrent use.
type leadership struct {
	limit time.Duration // time after which a pass is stuck

	mu     sync.Mutex
	term   context.Context //nolint:containedctx // The end of a term cancels its sweeps; nil: another sweeper leads.
	cancel context.CancelCauseFunc
	since  time.Time // start of the term or end of its last pass
	pass   time.Time // start of the running pass; zero: none
}

func newLeadership(interval time.Duration) *leadership {
	return &leadership{limit: max(stuckIntervals*interval, minStuck)}
}

// begin begins a term, which lasts until ctx ends or a pass is stuck.
func (l *leadership) begin(ctx context.Context) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term, l.cancel = context.WithCancelCause(ctx)
	l.since = time.Now()
	return l.term
}

// end ends the term.
func (l *leadership) end(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		l.cancel(cause)
	}
	l.term, l.cancel = nil, nil
}

// leads reports whether this sweeper is the leader.
func (l *leadership) leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term != nil && l.term.Err() == nil
}

// beginPass records the start of a pass and returns the context of the term; nil if another sweeper
// leads.
func (l *leadership) beginPass() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == nil || l.term.Err() != nil {
		return nil
	}
	l.pass = time.Now()
	return l.term
}

// endPass records the end of a pass.
func (l *leadership) endPass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass, l.since = time.Time{}, time.Now()
}

// passRunning reports whether a pass is running. Until it ends, its sweeper cannot lead again.
func (l *leadership) passRunning() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.pass.IsZero()
}

// checkStuck is the health check. It fails if a pass of the leader or the wait for its next pass
// exceeds the limit. It keeps failing until the stuck pass ends, although another sweeper leads by
// then.
func (l *leadership) checkStuck(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.pass.IsZero() && time.Since(l.pass) > l.limit:
		return fmt.Errorf("a sweeper pass has been running for over %s", l.limit)
	case l.term != nil && l.term.Err() == nil && l.pass.IsZero() && time.Since(l.since) > l.limit:
		return fmt.Errorf("this worker leads the sweeps, but no pass has ended for %s", l.limit)
	}
	return nil
}

// Checks returns the sweeper's health checks. They make no requests.
func (s *Sweeper) Checks() []telemetry.Check {
	return []telemetry.Check{{Name: "sweeps", Ask: s.leadership.checkStuck}}
}

// elect takes part in the leader election until ctx ends. It calls tried once the first attempt is
// decided: this sweeper leads, another one leads, or the database is unavailable.
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

// campaign tries once to become the leader, and leads until the lock or ctx ends.
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
	s.cfg.Logger.Warn("lost or failed to acquire the leadership of the sweeps; trying again", "error", err)
}
