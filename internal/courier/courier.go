package courier

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"rubato/internal/failpoint"
	"rubato/internal/loop"
	"rubato/internal/notices"
)

const (
	// refreshPeriod is the delay until a change of rules takes effect. The store relies on it being
	// well below ten seconds.
	refreshPeriod = 2 * time.Second
	// claimPeriod is the poll interval for due notices.
	claimPeriod = time.Second
	// watchPeriod is the poll interval for episodes.
	watchPeriod = 5 * time.Second

	// claimPause is the minimum time between two claims while notices are in flight.
	claimPause = 100 * time.Millisecond

	// slots bounds the notices in flight; ruleFull and tenantFull bound them per rule and per
	// tenant. Because of these bulkheads, a hanging receiver delays only the notices of its own
	// rule.
	slots      = 48
	ruleFull   = 4
	tenantFull = 16

	// sendTimeout bounds one attempt. It is well below notices.Lock, so that the result is recorded
	// while the claim holds.
	sendTimeout = 15 * time.Second
	stepTimeout = 10 * time.Second
)

// Outbox is the queue of notices.
type Outbox interface {
	// Claim locks due notices within the given capacity for the duration of lock. After that time
	// other processes may claim them.
	Claim(ctx context.Context, room notices.Capacity, lock time.Duration) ([]*notices.Delivery, error)
	// End stores the final state of a notice. It returns false if another process has claimed the
	// notice since, because the fence no longer matches.
	End(ctx context.Context, p *notices.Delivery, state notices.State, r notices.Result) (bool, error)
	// Postpone reschedules a notice after a time, with the same fence. held marks a notice that a
	// maintenance window holds back.
	Postpone(ctx context.Context, p *notices.Delivery, wait time.Duration, held bool, r notices.Result) (bool, error)
	// Backlog returns the number of undelivered notices and the age of the oldest.
	Backlog(ctx context.Context) (waiting int, oldest time.Duration, err error)
}

// EpisodeStore maintains rules and episodes.
type EpisodeStore interface {
	// Refresh reloads the rule cache that finishes in this process read.
	Refresh(ctx context.Context) error
	// Watch opens and closes the episodes that no run reports, and writes reminders.
	Watch(ctx context.Context) error
}

// Store is everything that a [Courier] reads and writes.
type Store interface {
	Outbox
	EpisodeStore
}

// Config holds the dependencies of a courier. Every field is required.
type Config struct {
	Store      Store
	Channels   *Channels
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Courier delivers notices. Call Run once on the result of New.
type Courier struct {
	store    Store
	channels *Channels
	logger   *slog.Logger
	metrics  *metrics
	inFlight *inFlight
	loops    *loop.Runner
}

// New returns a courier. It does nothing until Run.
func New(c Config) *Courier {
	logger := c.Logger.With("component", "courier")
	return &Courier{
		store:    c.Store,
		channels: c.Channels,
		logger:   logger,
		metrics:  newMetrics(c.Registerer),
		inFlight: newInFlight(),
		loops:    loop.NewRunner(logger, c.Registerer),
	}
}

// Run delivers notices until ctx ends, and returns after the sends in flight have ended. Errors and
// panics of a step do not stop it.
func (c *Courier) Run(ctx context.Context) {
	group := new(errgroup.Group)
	for _, l := range []struct {
		name   string
		period time.Duration
		step   func(context.Context) error
	}{
		{"refresh", refreshPeriod, c.store.Refresh},
		{"watch", watchPeriod, c.watch},
		{"deliver", claimPeriod, c.deliver},
	} {
		group.Go(func() error {
			c.loops.Run(ctx, loop.Courier, func(ctx context.Context) { c.repeat(ctx, l.name, l.period, l.step) })
			return nil
		})
	}
	_ = group.Wait()
	c.inFlight.sends.Wait()
}

// repeat runs a step periodically. It logs the first of consecutive failures, so that an outage
// does not flood the log.
func (c *Courier) repeat(ctx context.Context, name string, period time.Duration, step func(context.Context) error) {
	for failing := false; ; {
		err := c.contain(ctx, name, step)
		if err != nil && !failing && ctx.Err() == nil {
			c.logger.Warn("notices step failed, will retry", "step", name, "error", err)
		}
		failing = err != nil
		if !pause(ctx, period+rand.N(period/10), nil) { //nolint:gosec // Spreads processes, guards nothing.
			return
		}
	}
}

// contain runs one step and recovers its panic, so that the other steps go on.
func (c *Courier) contain(ctx context.Context, name string, step func(context.Context) error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			c.metrics.panics.Inc()
			c.logger.Error("notices step panicked", "step", name, "error", fault, "stack", string(debug.Stack()))
			err = &loop.PanicError{Loop: loop.Courier, Fault: fault}
		}
	}()
	return step(ctx)
}

// watch updates the episodes, and then the backlog metrics.
func (c *Courier) watch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if err := c.store.Watch(ctx); err != nil {
		return err
	}
	waiting, oldest, err := c.store.Backlog(ctx)
	if err != nil {
		return err
	}
	c.metrics.backlog(waiting, oldest)
	return nil
}

// deliver claims and sends due notices until the outbox has none left and none are in flight.
func (c *Courier) deliver(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := c.inFlight.fault(); err != nil {
			return err
		}
		list, err := c.claim(ctx)
		if err != nil {
			return err
		}
		for _, p := range list {
			c.inFlight.begin(p)
			c.inFlight.sends.Go(func() {
				_ = c.loops.Contain(loop.Courier, func() {
					c.inFlight.end(p, c.contain(ctx, "send", func(ctx context.Context) error { return c.handle(ctx, p) }))
				})
			})
		}
		if len(list) > 0 { // Other rules may have due notices too, with fewer in flight.
			continue
		}
		if !c.inFlight.await(ctx) {
			return nil
		}
	}
	return nil
}

// claim claims as many notices as the in-flight bounds allow.
func (c *Courier) claim(ctx context.Context) ([]*notices.Delivery, error) {
	room := c.inFlight.room()
	if room.Limit == 0 {
		return nil, nil
	}
	return c.store.Claim(ctx, room, notices.Lock)
}

// handle sends one notice, or ends or postpones it without sending. The result of a send is
// recorded even if ctx ends meanwhile, so that a delivered notice is not sent twice.
func (c *Courier) handle(ctx context.Context, p *notices.Delivery) error {
	switch verdict, why := p.Judge(); verdict {
	case notices.Mute:
		return c.end(ctx, p, notices.Muted, notices.Result{Error: why})
	case notices.Postpone:
		if !p.Held {
			c.metrics.count(p.Channel.Kind, held)
		}
		_, err := c.store.Postpone(ctx, p, p.Hold(), true, notices.Result{})
		return err
	case notices.Queue:
		_, err := c.store.Postpone(ctx, p, notices.Turn, false, notices.Result{})
		return err
	case notices.GiveUp:
		return c.giveUp(ctx, p, notices.Result{Error: why})
	case notices.Send:
	}
	began := time.Now()
	sending, cancel := context.WithTimeout(ctx, sendTimeout)
	r := c.channels.send(sending, p)
	cancel()
	failpoint.Hit(failpoint.Noticed)
	if ctx.Err() != nil && !r.Delivered() { // The shutdown aborted the attempt; another process sends it after the lock expires.
		return nil
	}
	c.metrics.took(time.Since(began))
	p.Attempts++
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	defer cancel()
	switch {
	case r.Delivered():
		return c.end(ctx, p, notices.Delivered, r)
	case p.Attempts >= notices.MaxAttempts:
		return c.giveUp(ctx, p, r)
	default:
		c.metrics.count(p.Channel.Kind, retried)
		_, err := c.store.Postpone(ctx, p, notices.Wait(p.Attempts, r.Asked, rand.Float64()), false, r) //nolint:gosec // Spreads, guards nothing.
		return err
	}
}

func (c *Courier) giveUp(ctx context.Context, p *notices.Delivery, r notices.Result) error {
	c.logger.Error("notice became a dead letter", "notice", p.ID.String(), "rule", p.Rule, "attempts", p.Attempts, "error", r.Error)
	return c.end(ctx, p, notices.Dead, r)
}

func (c *Courier) end(ctx context.Context, p *notices.Delivery, state notices.State, r notices.Result) error {
	done, err := c.store.End(ctx, p, state, r)
	if err == nil && done {
		c.metrics.count(p.Channel.Kind, result(state))
	}
	return err
}
