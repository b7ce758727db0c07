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
// makes every worker silent. The other signals hold meanwhile, so a run is never left live for ever.
//
// Every worker process has a sweeper, and each pass runs in one of them at a time. Correctness does not need that: two passes at
// once settle each run once.
package zombie

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rubato/internal/runs"
)

const (
	// takeOverPeriod is how often silent workers are looked for: a claim that nobody will start delays a due time.
	takeOverPeriod = 2 * time.Second
	// silentWorker is three of the beats that a worker gives every 2 s.
	silentWorker = 6 * time.Second
	// sweepLimit bounds a sweep, so that one after a disaster stays short; the next one goes on.
	sweepLimit = 100
	// passTimeout bounds a pass.
	passTimeout = 30 * time.Second
	// historyAhead is how many days of history are made ready: enough that a weekend without any sweeper does no harm.
	historyAhead = 3
)

// Store is what sweeping needs of the database.
type Store interface {
	// Alone runs sweep unless another sweeper of this database is at it, and reports whether it did.
	Alone(ctx context.Context, sweep func(context.Context) error) (bool, error)
	// TakeOver frees the claims of workers that have been silent for so long and never started them; it returns how many.
	TakeOver(ctx context.Context, silent time.Duration) (int, error)
	// ListLost returns live runs that nothing will ever update, those longest over first.
	ListLost(ctx context.Context, signal Signal, limit int) ([]runs.Run, error)
	// Settle ends a run that was listed as lost, if by the same signal it still is, and plans what follows it like any finish.
	Settle(ctx context.Context, signal Signal, run runs.Run) (bool, error)
	// KeepHistory makes days ready and drops those past their retention; it returns how many it dropped.
	KeepHistory(ctx context.Context, r Retention) (int, error)
}

// Signal says what counts as a sign that a worker is gone.
type Signal struct {
	StaleAfter   time.Duration // silence longer than this
	TrustSilence bool          // whether silence counts at all
}

// Retention says how long history is kept.
type Retention struct {
	Runs      time.Duration
	Bodies    time.Duration
	DaysAhead int
}

// Config says what a sweeper works with. Every field is required.
type Config struct {
	Store         Store
	Interval      time.Duration // between sweeps
	StaleAfter    time.Duration // silence after which a worker counts as gone
	Settle        time.Duration // how long the sweeper watches before it believes in silence
	RunRetention  time.Duration
	BodyRetention time.Duration
	Logger        *slog.Logger
	Registerer    prometheus.Registerer
}

// Sweeper mends what dead workers left. Use New, then Run once.
type Sweeper struct {
	cfg      Config
	metrics  *metrics
	watching time.Time // since when every pass has reached the database; zero: the last one did not
}

// New returns a sweeper that does nothing until Run.
func New(cfg Config) *Sweeper {
	cfg.Logger = cfg.Logger.With("component", "zombie")
	return &Sweeper{cfg: cfg, metrics: newMetrics(cfg.Registerer)}
}

// Run sweeps until ctx ends. Nothing that a sweep meets ends it.
func (s *Sweeper) Run(ctx context.Context) {
	takeOver := time.NewTicker(takeOverPeriod)
	defer takeOver.Stop()
	sweep := time.NewTicker(s.cfg.Interval)
	defer sweep.Stop()
	s.pass(ctx, s.takeOver, s.keepHistory)
	for {
		select {
		case <-ctx.Done():
			return
		case <-takeOver.C:
			s.pass(ctx, s.takeOver)
		case <-sweep.C:
			s.pass(ctx, s.settleLost, s.keepHistory)
		}
	}
}

// sweep is one kind of mending.
type sweep func(ctx context.Context) (name string, err error)

// pass runs sweeps one after the other, unless another sweeper is at it. One that fails does not keep the next from its work.
func (s *Sweeper) pass(ctx context.Context, sweeps ...sweep) {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	alone, err := s.cfg.Store.Alone(ctx, func(ctx context.Context) error {
		for _, sweep := range sweeps {
			s.contain(ctx, sweep)
		}
		return nil
	})
	s.watch(err == nil, time.Now())
	s.metrics.leads(alone)
	if err != nil && ctx.Err() == nil {
		s.cfg.Logger.Warn("a pass of the sweeper failed; the next one tries again", "error", err)
	}
}

// watch notes whether a pass reached the database.
func (s *Sweeper) watch(reached bool, now time.Time) {
	switch {
	case !reached:
		s.watching = time.Time{}
	case s.watching.IsZero():
		s.watching = now
	}
}

// trustSilence reports whether the sweeper has watched for long enough to believe that a silent worker is gone.
func (s *Sweeper) trustSilence(now time.Time) bool {
	return !s.watching.IsZero() && now.Sub(s.watching) >= s.cfg.Settle
}

// contain runs one sweep and keeps its error or panic from the others.
func (s *Sweeper) contain(ctx context.Context, sweep sweep) {
	defer func() {
		if fault := recover(); fault != nil {
			s.metrics.panics.Inc()
			s.cfg.Logger.Error("a sweep panicked", "error", fault, "stack", string(debug.Stack()))
		}
	}()
	name, err := sweep(ctx)
	s.metrics.swept(name, err)
	if err != nil {
		s.cfg.Logger.Warn("a sweep failed", "sweep", name, "error", err)
	}
}

func (s *Sweeper) takeOver(ctx context.Context) (string, error) {
	freed, err := s.cfg.Store.TakeOver(ctx, silentWorker)
	if freed > 0 {
		s.metrics.stolen.Add(float64(freed))
		s.cfg.Logger.Info("took over claims that a silent worker never started", "claims", freed)
	}
	return "take_over", err
}

func (s *Sweeper) keepHistory(ctx context.Context) (string, error) {
	dropped, err := s.cfg.Store.KeepHistory(ctx, Retention{
		Runs: s.cfg.RunRetention, Bodies: s.cfg.BodyRetention, DaysAhead: historyAhead,
	})
	if dropped > 0 {
		s.cfg.Logger.Info("dropped days of history past their retention", "partitions", dropped)
	}
	return "history", err
}

// settleLost settles the runs that nothing will ever update. One that cannot be settled does not keep the others.
func (s *Sweeper) settleLost(ctx context.Context) (string, error) {
	const name = "lost"
	signal := Signal{StaleAfter: s.cfg.StaleAfter, TrustSilence: s.trustSilence(time.Now())}
	list, err := s.cfg.Store.ListLost(ctx, signal, sweepLimit)
	if err != nil {
		return name, fmt.Errorf("listing lost runs: %w", err)
	}
	for _, run := range list {
		run.Outcome = runs.Outcome{
			Status: runs.Lost, Reason: runs.WorkerLost, MaybeSent: true,
			Error: "the worker was lost after the run had started; whether the target was reached is unknown",
		}
		settled, err := s.cfg.Store.Settle(ctx, signal, run)
		if err != nil {
			s.metrics.errors.WithLabelValues(name).Inc()
			s.cfg.Logger.Warn("settling a lost run failed; going on with the others", "run_id", run.ID.String(), "error", err)
			continue
		}
		if settled {
			s.metrics.settled.WithLabelValues(string(runs.WorkerLost)).Inc()
			s.cfg.Logger.Info("settled a run that was lost with its worker", "run_id", run.ID.String(), "claim_token", run.ClaimToken)
		}
	}
	return name, nil
}
