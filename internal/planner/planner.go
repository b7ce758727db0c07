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

// Config holds the dependencies and limits of a planner. Every field is required.
type Config struct {
	Advisor    Advisor
	Queue      Queue
	Evidence   EvidenceStore
	Guardrails Guardrails
	// Slots is the maximum number of concurrent analyses.
	Slots int
	// Poll is the interval between passes over the queue.
	Poll time.Duration
	// Timeout bounds one analysis. It must be shorter than the lock of a claim.
	Timeout time.Duration
	// Grace bounds the graceful shutdown: analyses still running after it are canceled.
	Grace time.Duration
	// Retention is the age after which sessions are purged.
	Retention  time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

const (
	// closeTimeout bounds the transaction that records a session, which takes milliseconds. The
	// lock of a claim has to last for this time beyond the analysis.
	closeTimeout = 5 * time.Second
	// purgeInterval is the interval between purges of old sessions.
	purgeInterval = 10 * time.Minute
)

// LockDuration returns the lock that a claim needs for analyses of the given timeout.
func LockDuration(timeout time.Duration) time.Duration { return timeout + 2*closeTimeout }

// Planner runs analyses in a bounded pool of goroutines. Use New, then Run once.
type Planner struct {
	cfg      Config
	metrics  *metrics
	slots    chan struct{}
	sessions sync.WaitGroup
	// lastPass is the time of the last successful pass, in Unix nanoseconds of this process. The
	// health check reads it from another goroutine.
	lastPass atomic.Int64
	// backlog is true if the last claim filled every free slot, so that more endpoints may be due.
	backlog atomic.Bool
	// slotFreed wakes the loop when an analysis ends during a backlog. Its buffer of one is enough,
	// because one claim fills all free slots.
	slotFreed chan struct{}
	draining  atomic.Bool
	loops     *loop.Runner
}

// New returns a planner that does nothing until Run.
func New(cfg Config) *Planner {
	cfg.Logger = cfg.Logger.With("component", "planner")
	return &Planner{
		cfg:       cfg,
		metrics:   newMetrics(cfg.Registerer),
		slots:     make(chan struct{}, cfg.Slots),
		slotFreed: make(chan struct{}, 1),
		loops:     loop.NewRunner(cfg.Logger, cfg.Registerer),
	}
}

// Run analyses due endpoints until ctx ends. Then it waits for running analyses up to the grace
// period, cancels the rest and releases their claims. Errors are logged and counted; they never end
// Run.
func (p *Planner) Run(ctx context.Context) {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	p.loops.Run(ctx, loop.Planner, func(ctx context.Context) { p.run(ctx, working) })
	p.drain(stop)
}

// run polls the queue until ctx ends. working is the context of the analyses, which outlives ctx by
// the grace period.
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
		case <-p.slotFreed: // A freed slot only claims; change detection waits for the next poll.
			look = p.claim
		case <-poll.C:
		}
	}
}

// drain waits for running analyses up to the grace period, then cancels them.
func (p *Planner) drain(stop context.CancelFunc) {
	p.draining.Store(true)
	timer := time.AfterFunc(p.cfg.Grace, stop)
	defer timer.Stop()
	p.sessions.Wait()
}

// pass runs one poll or claim within closeTimeout and records whether it succeeded.
func (p *Planner) pass(ctx, working context.Context, look func(ctx, working context.Context) error) {
	limited, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if err := look(limited, working); err != nil {
		if ctx.Err() == nil {
			p.metrics.errors.Inc()
			p.cfg.Logger.Warn("claim endpoints to analyse failed; the next pass tries again", "error", err)
		}
		return
	}
	p.lastPass.Store(time.Now().UnixNano())
}

// poll detects changed endpoints, then claims due ones.
func (p *Planner) poll(ctx, working context.Context) error {
	if err := p.cfg.Queue.DetectChanges(ctx); err != nil {
		return fmt.Errorf("detect changed endpoints: %w", err)
	}
	return p.claim(ctx, working)
}

// claim claims as many due endpoints as there are free slots, and starts a goroutine for each. Only
// the loop's goroutine calls it, so a send to slots never blocks.
func (p *Planner) claim(ctx, working context.Context) error {
	room := cap(p.slots) - len(p.slots)
	if room == 0 {
		p.backlog.Store(true)
		return nil
	}
	tickets, err := p.cfg.Queue.Claim(ctx, room)
	if err != nil {
		return fmt.Errorf("claim up to %d endpoints: %w", room, err)
	}
	p.backlog.Store(len(tickets) == room)
	for _, t := range tickets {
		p.slots <- struct{}{}
		p.metrics.busy.Inc()
		p.sessions.Go(func() {
			defer p.releaseSlot()
			// After a panic the claim stays locked until its lock expires, so that the analysis is
			// not repeated at once.
			_ = p.loops.Contain(loop.Planner, func() { p.runAnalysis(working, t) })
		})
	}
	return nil
}

// releaseSlot frees the slot of an analysis that ended. During a backlog it wakes the loop, so that
// the next claim does not wait for a poll.
func (p *Planner) releaseSlot() {
	<-p.slots
	p.metrics.busy.Dec()
	if p.backlog.Load() {
		select {
		case p.slotFreed <- struct{}{}:
		default:
		}
	}
}

// runAnalysis runs one analysis. It releases the claim if the planner shuts down. After a failure
// the claim stays locked until its lock expires, so that the same error does not repeat at once.
func (p *Planner) runAnalysis(ctx context.Context, t Claim) {
	err := p.analyse(ctx, t)
	if err == nil {
		return
	}
	if errors.Is(err, ErrClaimLost) {
		p.metrics.lost.Inc()
		p.cfg.Logger.Warn("analysis lost its claim; nothing was written", "endpoint_id", t.Account.EndpointID.String())
		return
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if ctx.Err() == nil {
		p.metrics.errors.Inc()
		p.cfg.Logger.Warn("analysis failed", "endpoint_id", t.Account.EndpointID.String(), "error", err)
	} else if released := p.cfg.Queue.Release(limited, []Claim{t}); released != nil {
		p.cfg.Logger.Warn("release claim of a canceled analysis failed; it is free when its lock expires", "error", released)
	}
}

func (p *Planner) purge(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if err := p.cfg.Evidence.Purge(limited, time.Now().Add(-p.cfg.Retention)); err != nil && ctx.Err() == nil {
		p.cfg.Logger.Warn("purge old sessions failed; the next purge tries again", "error", err)
	}
}
