package app

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"rubato/internal/claims"
	"rubato/internal/config"
	"rubato/internal/courier"
	"rubato/internal/dispatch"
	"rubato/internal/store"
	"rubato/internal/telemetry"
	"rubato/internal/tracing"
	"rubato/internal/zombie"
)

// workerConns bounds the connections of a worker: one for each of its loops, and some for records that wait for one another.
const workerConns = 10

// Worker is the scheduler-worker: it runs endpoints, and sweeps when its turn comes.
type Worker struct {
	Settings config.Config
	Logger   *slog.Logger
	Started  func(Addresses) // called when it begins to claim; nil: nobody asks
}

// Run works until ctx ends, then drains within the shutdown grace.
func (w Worker) Run(ctx context.Context) error {
	c, err := openCore(ctx, w.Settings, w.Logger, workerConns)
	if err != nil {
		return err
	}
	defer c.close(ctx)
	loops := c.loops()
	defer c.outbound().Close()
	health := telemetry.NewHealth(w.Logger, append(loops.worker.Checks(), c.secretsOpen())...)
	admin, err := c.admin(ctx, health)
	if err != nil {
		return err
	}
	tell(w.Started, addressesOf(nil, admin))
	w.Logger.Info("the worker works", "slots", w.Settings.Worker.Slots, "slots_min", w.Settings.Worker.MinSlots, "version", telemetry.Version())
	return serveWhile(ctx, admin, health, loops.run)
}

// loops is what makes a process a worker.
type loops struct {
	core     *core
	worker   *dispatch.Worker
	sweeper  *zombie.Sweeper
	listener *store.Listener
	courier  *courier.Courier
}

func (c *core) loops() *loops {
	s := c.settings.Worker
	return &loops{
		core: c,
		worker: dispatch.New(c.traced(dispatch.Config{
			Name:         hostname(),
			Version:      telemetry.Version(),
			Slots:        s.Slots,
			MinSlots:     s.MinSlots,
			PerHost:      c.settings.Egress.MaxPerHost,
			Rules:        claims.Rules{Horizon: s.Horizon, LockTTL: s.LockTTL},
			PollInterval: s.PollInterval,
			Grace:        s.ShutdownGrace,
			Claims:       store.NewClaims(c.db),
			Executions:   store.NewExecutions(c.db),
			Egress:       c.outbound(),
			Allowances:   c.allowed,
			Secrets:      c.vault,
			Logger:       c.logger,
			Registerer:   c.registry,
		})),
		sweeper: zombie.New(zombie.Config{
			Store:          store.NewSweeps(c.db),
			Interval:       s.SweepInterval,
			StaleAfter:     s.StaleAfter,
			Settle:         s.Settle,
			Horizon:        s.Horizon,
			LockTTL:        s.LockTTL,
			RunRetention:   s.RunRetention,
			BodyRetention:  s.BodyRetention,
			AuditRetention: s.AuditRetention,
			Logger:         c.logger,
			Registerer:     c.registry,
		}),
		listener: store.NewListener(c.settings.Database.DirectURL, c.logger),
		courier:  c.courier(),
	}
}

// traced returns a worker's configuration with traces of its runs, where somebody collects them.
func (c *core) traced(cfg dispatch.Config) dispatch.Config {
	if c.traces == nil {
		return cfg
	}
	follow := tracing.NewRuns(c.traces, cfg.Executions)
	cfg.Claims, cfg.Executions, cfg.Tracer = tracing.NewClaims(c.traces, cfg.Claims), follow, follow
	return cfg
}

// run works until ctx ends and the worker has drained.
func (l *loops) run(ctx context.Context) error {
	_ = l.core.allowed.refresh(ctx) // Before anything runs; where it fails now, the loop tells.
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.worker.Run(ctx) })
	group.Go(func() error { l.core.allowed.run(ctx); return nil })
	group.Go(func() error { l.core.vault.Run(ctx); return nil })
	group.Go(func() error { l.sweeper.Run(ctx); return nil })
	group.Go(func() error { l.courier.Run(ctx); return nil })
	group.Go(func() error { l.listener.Run(ctx, l.worker); return nil })
	return group.Wait()
}
