// Package zombie is the sweeper: it takes over what a dead worker claimed and never started, settles the runs it left live, and keeps
// the history's days in order.
//
// # Do no harm
//
// A live run is settled only on a positive signal that nothing will ever update it: its lock has run out in database time, and its
// execution deadline has passed, or its worker has said goodbye, or its worker has been silent for long. Age alone is no signal. The
// statement that settles repeats the condition with the token that was seen, so a heartbeat that comes in between wins.
//
// Silence is believed only by a sweeper that has itself reached the database without a gap for a whole settle period: an outage
// makes every worker silent. It is not believed of most of what runs at once, before that has lasted for a settle period too. And after
// a step of the database's clock a deadline that has passed proves nothing against a worker that beats. None of this means never: the
// other signals hold meanwhile, and a lock that has been over for ten settle periods ends all doubt.
//
// One file holds one sweep. Each has its own time and its own error, takes what is oldest first in bounded batches, and passes over a row
// that it could not mend before, so that none keeps another from being mended.
//
// Every worker process has a sweeper, and one of them leads: it alone sweeps, and holds a lock meanwhile.
// Correctness does not need that: two passes at once settle each run once.
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
	// sweepLimit bounds a batch, so that a statement after a disaster stays short.
	sweepLimit = 100
	// sweepTimeout bounds a sweep.
	sweepTimeout = 8 * time.Second
)

// Config says what a sweeper works with. Every field is required.
type Config struct {
	Store          Store
	Interval       time.Duration // between sweeps
	StaleAfter     time.Duration // silence after which a worker counts as gone
	Settle         time.Duration // how long the sweeper watches before it believes in silence
	Horizon        time.Duration // how far ahead of their due time endpoints are claimed
	LockTTL        time.Duration // the longest lock that is granted at once
	RunRetention   time.Duration
	BodyRetention  time.Duration
	AuditRetention time.Duration
	Logger         *slog.Logger
	Registerer     prometheus.Registerer
}

// Sweeper mends what dead workers left. Use New, then Run once.
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
		cfg: cfg, metrics: newMetrics(cfg.Registerer, lead), trust: newTrustGate(cfg.Settle), mass: &massGuard{settle: cfg.Settle},
		quarantine: newQuarantine(), leadership: lead, loops: loop.NewRunner(cfg.Logger, cfg.Registerer),
	}
}

// sweep is one kind of mending.
type sweep struct {
	name string
	run  func(ctx context.Context) error
}

// The names of the sweeps, as metrics have them.
const (
	sweepTakeOver = "take_over"
	sweepLocks    = "locks"
	sweepOverdue  = "overdue"
	sweepLost     = "lost"
	sweepStuck    = "stuck"
	sweepWorkers  = "workers"
	sweepHistory  = "history"
)

func sweepNames() []string {
	return []string{sweepTakeOver, sweepLocks, sweepOverdue, sweepLost, sweepStuck, sweepWorkers, sweepHistory}
}

// Run sweeps until ctx ends, while this sweeper leads. Nothing that a sweep meets ends it.
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
	s.pass(ctx, takeOver, history)
	for {
		select {
		case <-ctx.Done():
			return
		case <-often.C:
			s.pass(ctx, takeOver)
		case <-regular.C:
			// First what the others judge by, then what is surest, last what can wait.
			s.pass(ctx,
				sweep{sweepLocks, s.clampLocks}, sweep{sweepOverdue, s.settleOverdue}, sweep{sweepLost, s.settleGone},
				sweep{sweepStuck, s.freeStuck}, sweep{sweepWorkers, s.retire})
		case <-seldom.C:
			s.pass(ctx, history)
		}
	}
}

// pass runs sweeps one after the other, if this sweeper leads. One that fails does not keep the next
// from its work. A pass that does not end costs the sweeper the lead, so that another one sweeps.
//
//nolint:contextcheck // The sweeps run under the term of the lead, which ends with ctx.
func (s *Sweeper) pass(ctx context.Context, sweeps ...sweep) {
	if s.mass.reset(time.Now()) {
		s.metrics.holds(false, 0)
	}
	if err := s.readClock(ctx); err != nil {
		s.trust.recordOutage()
		if ctx.Err() == nil {
			s.cfg.Logger.Warn("a pass of the sweeper failed; the next one tries again", "error", err)
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

// readClock takes in the database's time.
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

// contain runs one sweep in its own time, and keeps its error or panic from the others.
func (s *Sweeper) contain(ctx context.Context, sweep sweep) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	defer func() {
		if fault := recover(); fault != nil {
			s.metrics.panics.Inc()
			s.cfg.Logger.Error("a sweep panicked", "sweep", sweep.name, "error", fault, "stack", string(debug.Stack()))
		}
	}()
	failpoint.Hit(failpoint.Sweeping)
	err := sweep.run(ctx)
	s.metrics.swept(sweep.name, err)
	if err != nil {
		s.cfg.Logger.Warn("a sweep failed", "sweep", sweep.name, "error", err)
	}
}
