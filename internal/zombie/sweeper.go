// Package zombie is the sweeper. It frees claims of dead workers that never started, settles runs
// that dead workers left live, and maintains the partitions of the history.
//
// # Safety
//
// A live run is settled only on a positive signal that no worker will update it. Its lock must have
// expired in database time. In addition, its deadline must have passed, or its worker must have
// stopped or have been silent for long. Age alone is no signal. The settling statement repeats the
// condition with the fencing token it read, so a heartbeat in between wins.
//
// Silence counts only after the sweeper itself has reached the database without a gap for a whole
// settle period, because an outage silences every worker. If most live runs are silent, they also
// have to wait for a settle period. After a step of the database's clock, a passed deadline does
// not count against a worker with heartbeats. The other signals apply meanwhile. A lock that
// expired ten settle periods ago settles the run in any case.
//
// # Structure
//
// One file holds one sweep. Each sweep has its own timeout and error, processes the oldest rows
// first in bounded batches, and skips quarantined rows, so that one bad row does not block the
// others.
//
// Every worker process has a sweeper. A leader election selects the one that sweeps and holds a
// lock meanwhile. Correctness does not depend on it: two concurrent passes settle each run once.
package zombie

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rubato/internal/failpoint"
	"rubato/internal/loop"
)

const (
	// sweepLimit bounds a batch, so that statements stay short even after a disaster.
	sweepLimit = 100
	// sweepTimeout bounds a sweep.
	sweepTimeout = 8 * time.Second
)

// Config holds the dependencies and limits of a sweeper. Every field is required.
type Config struct {
	Store      Store
	Interval   time.Duration // interval between sweeps
	StaleAfter time.Duration // silence after which a worker counts as gone
	// Settle is how long the sweeper must have watched before silence counts.
	Settle time.Duration
	// Horizon is how far ahead of their due time endpoints are claimed.
	Horizon        time.Duration
	LockTTL        time.Duration // longest lock of a claim
	RunRetention   time.Duration
	BodyRetention  time.Duration
	AuditRetention time.Duration
	// LetterRetention is the retention of dead letters.
	LetterRetention time.Duration
	Logger          *slog.Logger
	Registerer      prometheus.Registerer
}

// Sweeper recovers the claims and runs of dead workers. Use New, then Run once.
type Sweeper struct {
	cfg        Config
	metrics    *metrics
	trust      *trustGate
	mass       *massGuard
	quarantine *quarantine
	leadership *leadership
	loops      *loop.Runner
}

// New returns a sweeper that does nothing until Run.
func New(cfg Config) *Sweeper {
	cfg.Logger = cfg.Logger.With("component", "zombie")
	lead := newLeadership(cfg.Interval)
	return &Sweeper{
		cfg:        cfg,
		metrics:    newMetrics(cfg.Registerer, lead),
		trust:      newTrustGate(cfg.Settle),
		mass:       &massGuard{settle: cfg.Settle},
		quarantine: newQuarantine(),
		leadership: lead,
		loops:      loop.NewRunner(cfg.Logger, cfg.Registerer),
	}
}

// sweep is one recovery task.
type sweep struct {
	name string
	run  func(ctx context.Context) error
}

// The names of the sweeps in metrics.
const (
	sweepTakeOver = "take_over"
	sweepLocks    = "locks"
	sweepOverdue  = "overdue"
	sweepLost     = "lost"
	sweepExpired  = "expired"
	sweepStuck    = "stuck"
	sweepWorkers  = "workers"
	sweepUnserved = "unserved"
	sweepHistory  = "history"
)

func sweepNames() []string {
	return []string{sweepTakeOver, sweepLocks, sweepOverdue, sweepLost, sweepExpired, sweepStuck, sweepWorkers, sweepUnserved, sweepHistory}
}

// Run sweeps until ctx ends, while this sweeper is the leader. Errors and panics of a sweep do not
// end it.
func (s *Sweeper) Run(ctx context.Context) {
	var electing sync.WaitGroup
	defer electing.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tried := make(chan struct{})
	first := sync.OnceFunc(func() { close(tried) })
	electing.Go(func() {
		s.loops.Run(ctx, loop.Sweep, func(ctx context.Context) { s.elect(ctx, first) })
	})
	select {
	case <-tried:
	case <-ctx.Done():
		return
	}
	s.sweep(ctx)
}

// sweep runs each sweep at its period until ctx ends.
func (s *Sweeper) sweep(ctx context.Context) {
	often := time.NewTicker(takeOverPeriod)
	defer often.Stop()
	regular := time.NewTicker(s.cfg.Interval)
	defer regular.Stop()
	seldom := time.NewTicker(historyEvery * s.cfg.Interval)
	defer seldom.Stop()
	takeOver, history := sweep{sweepTakeOver, s.takeOver}, sweep{sweepHistory, s.keepHistory}
	expired := sweep{sweepExpired, s.endExpired}
	s.pass(ctx, takeOver, history)
	for {
		select {
		case <-ctx.Done():
			return
		case <-often.C:
			s.pass(ctx, takeOver, expired)
		case <-regular.C:
			// The sweep of locks comes first, because the others depend on it. The surest signal is
			// next.
			s.pass(ctx,
				sweep{sweepLocks, s.checkLocks}, sweep{sweepOverdue, s.settleOverdue}, sweep{sweepLost, s.settleGone},
				sweep{sweepStuck, s.freeStuck}, sweep{sweepWorkers, s.retire}, sweep{sweepUnserved, s.skipUnserved})
		case <-seldom.C:
			s.pass(ctx, history)
		}
	}
}

// pass runs sweeps one after the other if this sweeper is the leader. A failed sweep does not stop
// the next one. A pass that hangs ends the leadership, so that another worker sweeps.
//
//nolint:contextcheck // The sweeps run under the term of the lead, which ends with ctx.
func (s *Sweeper) pass(ctx context.Context, sweeps ...sweep) {
	if s.mass.reset(time.Now()) {
		s.metrics.holds(false, 0)
	}
	if err := s.readClock(ctx); err != nil {
		s.trust.recordOutage()
		if ctx.Err() == nil {
			s.cfg.Logger.Warn("sweeper pass failed; the next one tries again", "error", err)
		}
		return
	}
	term := s.leadership.beginPass()
	if term == nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer s.leadership.endPass()
		limited, cancel := context.WithTimeout(term, s.leadership.limit-cutOff)
		defer cancel()
		for _, sweep := range sweeps {
			s.contain(limited, sweep)
		}
	}()
	late := time.NewTimer(s.leadership.limit)
	defer late.Stop()
	select {
	case <-ended:
		return
	case <-late.C:
	}
	s.cfg.Logger.Error("a pass of the sweeper is stuck; another worker takes the lead", "after", s.leadership.limit)
	s.leadership.end(errStuck)
	select {
	case <-ended:
		s.cfg.Logger.Info("the pass of the sweeper that was stuck has ended")
	case <-ctx.Done():
	}
}

// readClock records the database's time.
func (s *Sweeper) readClock(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	sent := time.Now()
	now, err := s.cfg.Store.Clock(limited)
	if err != nil {
		return err
	}
	s.trust.recordClock(now, sent, time.Now())
	return nil
}

// contain runs one sweep with its timeout, and contains its error or panic.
func (s *Sweeper) contain(ctx context.Context, sweep sweep) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	defer func() {
		if fault := recover(); fault != nil {
			s.metrics.panics.Inc()
			s.cfg.Logger.Error("sweep panicked", "sweep", sweep.name, "error", fault, "stack", string(debug.Stack()))
		}
	}()
	failpoint.Hit(failpoint.Sweeping)
	err := sweep.run(ctx)
	s.metrics.swept(sweep.name, err)
	if err != nil {
		s.cfg.Logger.Warn("sweep failed", "sweep", sweep.name, "error", err)
	}
}
