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
	// refreshPeriod is how soon a change of rules is in force. The store counts on it to be a good deal less than ten seconds.
	refreshPeriod = 2 * time.Second
	// claimPeriod is how often notices that are due are looked for.
	claimPeriod = time.Second
	// watchPeriod is how often episodes are looked after.
	watchPeriod = 5 * time.Second

	// claimPause is the least time between two claims while notices are being sent.
	claimPause = 100 * time.Millisecond

	// How many notices are on their way at once, and as many of a rule, and of a tenant, as make it full. So receivers that hang keep no more
	// waiting than those of their rule.
	slots      = 48
	ruleFull   = 4
	tenantFull = 16

	// sendTimeout bounds one attempt: a good deal less than notices.Lock, so that its record comes in time.
	sendTimeout = 15 * time.Second
	stepTimeout = 10 * time.Second
)

// Outbox is where notices wait.
type Outbox interface {
	// Claim takes notices that are due, as many as there is room for, for as long as lock; after it anybody may take them again.
	Claim(ctx context.Context, room notices.Capacity, lock time.Duration) ([]*notices.Delivery, error)
	// End ends a notice, unless somebody else has claimed it since; it reports whether it did.
	End(ctx context.Context, p *notices.Delivery, state notices.State, r notices.Result) (bool, error)
	// Postpone lets a notice be sent after a time, likewise. held says that a maintenance window keeps it.
	Postpone(ctx context.Context, p *notices.Delivery, wait time.Duration, held bool, r notices.Result) (bool, error)
	// Backlog returns how many notices wait, and for how long the oldest of them has.
	Backlog(ctx context.Context) (waiting int, oldest time.Duration, err error)
}

// Keeper looks after rules and episodes.
type Keeper interface {
	// Refresh brings what the finishes of this process know of rules up to date.
	Refresh(ctx context.Context) error
	// Watch opens and closes the episodes of which no run tells, and writes reminders.
	Watch(ctx context.Context) error
}

// Store is everything that a [Courier] works on.
type Store interface {
	Outbox
	Keeper
}

// Config is what a courier is made of. Every field is required.
type Config struct {
	Store      Store
	Channels   *Channels
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Courier delivers notices. Use New, then Run once.
type Courier struct {
	store    Store
	channels *Channels
	logger   *slog.Logger
	metrics  *metrics
	inFlight *inFlight
	loops    *loop.Runner
}

// New returns a courier that does nothing until Run.
func New(c Config) *Courier {
	logger := c.Logger.With("component", "courier")
	return &Courier{
		store: c.Store, channels: c.Channels, logger: logger, metrics: newMetrics(c.Registerer), inFlight: newInFlight(),
		loops: loop.NewRunner(logger, c.Registerer),
	}
}

// Run delivers until ctx ends. Nothing that it meets ends it.
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

// repeat takes a step now and then. Of steps that fail in a row the first is told.
func (c *Courier) repeat(ctx context.Context, name string, period time.Duration, step func(context.Context) error) {
	for failing := false; ; {
		err := c.contain(ctx, name, step)
		if err != nil && !failing && ctx.Err() == nil {
			c.logger.Warn("notices: a step failed; it is tried again", "step", name, "error", err)
		}
		failing = err != nil
		if !pause(ctx, period+rand.N(period/10), nil) { //nolint:gosec // Spreads processes, guards nothing.
			return
		}
	}
}

// contain takes one step, and keeps its panic from the others.
func (c *Courier) contain(ctx context.Context, name string, step func(context.Context) error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			c.metrics.panics.Inc()
			c.logger.Error("notices: a step panicked", "step", name, "error", fault, "stack", string(debug.Stack()))
			err = &loop.PanicError{Loop: loop.Courier, Fault: fault}
		}
	}()
	return step(ctx)
}

// watch looks after episodes, and tells how much waits.
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

// deliver sends what is due, as there is room, until nothing is left or on its way.
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
		if len(list) > 0 { // Others may have something as well, of which less is on its way.
			continue
		}
		if !c.inFlight.await(ctx) {
			return nil
		}
	}
	return nil
}

// claim claims what there is room for.
func (c *Courier) claim(ctx context.Context) ([]*notices.Delivery, error) {
	room := c.inFlight.room()
	if room.Limit == 0 {
		return nil, nil
	}
	return c.store.Claim(ctx, room, notices.Lock)
}

// handle does with a parcel what is to be done. What was sent is recorded although ctx ends meanwhile.
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
	if ctx.Err() != nil && !r.Delivered() { // We stopped it ourselves: whoever is next sends it.
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
	c.logger.Error("a notice is given up", "notice", p.ID.String(), "rule", p.Rule, "attempts", p.Attempts, "error", r.Error)
	return c.end(ctx, p, notices.Dead, r)
}

func (c *Courier) end(ctx context.Context, p *notices.Delivery, state notices.State, r notices.Result) error {
	done, err := c.store.End(ctx, p, state, r)
	if err == nil && done {
		c.metrics.count(p.Channel.Kind, result(state))
	}
	return err
}
