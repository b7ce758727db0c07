package planner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rubato/internal/loop"
)

// Config says what a planner works with. Every field is required.
type Config struct {
	Advisor    Advisor
	Queue      Queue
	Evidence   EvidenceStore
	Guardrails Guardrails
	Slots      int           // how many analyses are under way at once
	Poll       time.Duration // between looks
	Timeout    time.Duration // of one analysis; shorter than the lock of the queue
	Grace      time.Duration // how long analyses may go on when the planner stops
	Retention  time.Duration // how long sessions are kept
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

const (
	// closeTimeout bounds the transaction that ends a session, which takes milliseconds. It is time of the lock beyond the analysis.
	closeTimeout = 5 * time.Second
	// tidyEvery is how often old sessions are looked for.
	purgeInterval = 10 * time.Minute
)

// LockFor returns how long a claim has to hold for analyses of a length.
func LockDuration(timeout time.Duration) time.Duration { return timeout + 2*closeTimeout }

// Planner analyses endpoints. Use New, then Run once.
type Planner struct {
	cfg       Config
	metrics   *metrics
	slots     chan struct{}
	sessions  sync.WaitGroup
	lastPass  atomic.Int64  // when a pass last succeeded, Unix ns of this process
	backlog   atomic.Bool   // whether the last claim left no room, so that there may be more to claim
	slotFreed chan struct{} // told when an analysis ends and there may be more
	draining  atomic.Bool
	loops     *loop.Runner
}

// New returns a planner that does nothing until Run.
func New(cfg Config) *Planner {
	cfg.Logger = cfg.Logger.With("component", "planner")
	return &Planner{
		cfg: cfg, metrics: newMetrics(cfg.Registerer), slots: make(chan struct{}, cfg.Slots), slotFreed: make(chan struct{}, 1),
		loops: loop.NewRunner(cfg.Logger, cfg.Registerer),
	}
}

// Run analyses until ctx ends. Then it lets what is under way end within the grace, and gives back what has not. Nothing that it meets
// ends it.
func (p *Planner) Run(ctx context.Context) {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	p.loops.Run(ctx, loop.Planner, func(ctx context.Context) { p.run(ctx, working) })
	p.drain(stop)
}

// watch looks for what needs analysis until ctx ends.
func (p *Planner) run(ctx, working context.Context) {
	poll := time.NewTicker(p.cfg.Poll)
	defer poll.Stop()
	tidy := time.NewTicker(purgeInterval)
	defer tidy.Stop()
	look := p.poll
	for {
		p.pass(ctx, working, look)
		look = p.poll
		select {
		case <-ctx.Done():
			return
		case <-tidy.C:
			p.purge(ctx)
		case <-p.slotFreed: // Between polls only what is known to wait is claimed.
			look = p.claim
		case <-poll.C:
		}
	}
}

// drain waits for the analyses under way, up to the grace, then ends them.
func (p *Planner) drain(stop context.CancelFunc) {
	p.draining.Store(true)
	timer := time.AfterFunc(p.cfg.Grace, stop)
	defer timer.Stop()
	p.sessions.Wait()
}

// pass looks for what needs analysis and begins as many analyses as there is room for.
func (p *Planner) pass(ctx, working context.Context, look func(ctx, working context.Context) error) {
	limited, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if err := look(limited, working); err != nil {
		if ctx.Err() == nil {
			p.metrics.errors.Inc()
			p.cfg.Logger.Warn("looking for endpoints to analyse failed; the next pass tries again", "error", err)
		}
		return
	}
	p.lastPass.Store(time.Now().UnixNano())
}

// look watches for what happened, then claims.
func (p *Planner) poll(ctx, working context.Context) error {
	if err := p.cfg.Queue.DetectChanges(ctx); err != nil {
		return fmt.Errorf("watching for changes: %w", err)
	}
	return p.claim(ctx, working)
}

// claim claims as many endpoints as there is room for, and begins their analyses.
func (p *Planner) claim(ctx, working context.Context) error {
	room := cap(p.slots) - len(p.slots)
	if room == 0 {
		p.backlog.Store(true)
		return nil
	}
	tickets, err := p.cfg.Queue.Claim(ctx, room)
	if err != nil {
		return fmt.Errorf("claiming up to %d endpoints: %w", room, err)
	}
	p.backlog.Store(len(tickets) == room)
	for _, t := range tickets {
		p.slots <- struct{}{}
		p.metrics.busy.Inc()
		p.sessions.Go(func() {
			defer p.releaseSlot()
			// The claim of an analysis that panics holds until its lock is over, as that of any that fails.
			_ = p.loops.Contain(loop.Planner, func() { p.runAnalysis(working, t) })
		})
	}
	return nil
}

// free gives back the room of an analysis that ended. A planner that is not done goes on at once instead of at its next poll.
func (p *Planner) releaseSlot() {
	<-p.slots
	p.metrics.busy.Dec()
	if p.backlog.Load() {
		select {
		case p.slotFreed <- struct{}{}:
		default: // It has been told.
		}
	}
}

// carryOut runs one analysis. It gives the claim back where the planner ends it; that of an analysis that failed holds until its lock is over,
// so that what makes it fail is not tried again at once.
func (p *Planner) runAnalysis(ctx context.Context, t Claim) {
	err := p.analyse(ctx, t)
	if err == nil {
		return
	}
	if errors.Is(err, ErrClaimLost) {
		p.metrics.lost.Inc()
		p.cfg.Logger.Warn("an analysis lost its claim and wrote nothing", "endpoint_id", t.Account.EndpointID.String())
		return
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if ctx.Err() == nil {
		p.metrics.errors.Inc()
		p.cfg.Logger.Warn("an analysis failed", "endpoint_id", t.Account.EndpointID.String(), "error", err)
	} else if released := p.cfg.Queue.Release(limited, []Claim{t}); released != nil {
		p.cfg.Logger.Warn("giving back the claim of an analysis failed; it comes free with its lock", "error", released)
	}
}

func (p *Planner) purge(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if err := p.cfg.Evidence.Purge(limited, time.Now().Add(-p.cfg.Retention)); err != nil && ctx.Err() == nil {
		p.cfg.Logger.Warn("forgetting old sessions failed; the next time tries again", "error", err)
	}
}
