package app

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"rubato/internal/calls"
	"rubato/internal/claims"
	"rubato/internal/config"
	"rubato/internal/courier"
	"rubato/internal/dispatch"
	"rubato/internal/loop"
	callstore "rubato/internal/store/calls"
	chainstore "rubato/internal/store/chains"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/history"
	hoststore "rubato/internal/store/hosts"
	"rubato/internal/store/items"
	"rubato/internal/store/pg"
	budgetstore "rubato/internal/store/spending"
	"rubato/internal/telemetry"
	"rubato/internal/tracing"
	"rubato/internal/zombie"
)

// workerConns bounds the connections of a worker: one per loop, and the rest for writes that wait
// for each other's locks.
const workerConns = 10

// Worker is the scheduler-worker: it claims and runs endpoints, and sweeps lost runs.
type Worker struct {
	Settings config.Config
	Logger   *slog.Logger
	// Started is called before the worker claims its first endpoint. It may be nil.
	Started func(Addresses)
}

// Run works until ctx ends, then shuts down within the grace.
func (w Worker) Run(ctx context.Context) error {
	c, err := OpenCore(ctx, w.Settings, w.Logger, workerConns)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	return c.Run(ctx, w.Started, c.Worker())
}

// Worker returns the worker as a part, with its readiness checks.
func (c *Core) Worker() Part {
	l := c.workerLoops()
	return Part{Checks: append(append(l.worker.Checks(), l.sweeper.Checks()...), c.SecretsOpen()), Run: l.run}
}

// workerLoops are the concurrent loops of a worker.
type workerLoops struct {
	core     *Core
	worker   *dispatch.Worker
	sweeper  *zombie.Sweeper
	listener *pg.Listener
	courier  *courier.Courier
	advancer *chainstore.Advancer
}

// notified passes notifications of the database on to the loops of a worker.
type notified struct {
	*dispatch.Worker

	chains *chainstore.Advancer
}

// ChainsWoken implements pg.NotificationHandler.
func (n notified) ChainsWoken() { n.chains.ChainsWoken() }

func (c *Core) workerLoops() *workerLoops {
	s := c.Settings.Worker
	return &workerLoops{
		core: c,
		worker: dispatch.New(c.traced(dispatch.Config{
			Name:          hostname(),
			Version:       telemetry.Version(),
			Slots:         s.Slots,
			MinSlots:      s.MinSlots,
			Hosts:         c.hosts,
			Placement:     placementOf(c.Settings),
			Rules:         claims.Rules{Horizon: s.Horizon, LockTTL: s.LockTTL},
			PollInterval:  s.PollInterval,
			Grace:         s.ShutdownGrace,
			Claims:        items.NewClaims(c.DB),
			Executions:    items.NewExecutions(c.States),
			Suspensions:   items.NewSuspensions(c.States),
			Chains:        c.Chains(),
			PublicURL:     c.Settings.API.PublicURL,
			Egress:        c.Outbound(),
			Allowances:    c.Allowances,
			Secrets:       c.Vault,
			Breakers:      hoststore.New(c.DB),
			SharedHosts:   c.Settings.Egress.SharedHosts,
			LatencyLimits: c.Settings.Egress.LatencyLimits,
			Logger:        c.Logger,
			Registerer:    c.Registry,
		})),
		sweeper: zombie.New(zombie.Config{
			Store:           items.NewSweeps(c.States),
			Interval:        s.SweepInterval,
			StaleAfter:      s.StaleAfter,
			Settle:          s.Settle,
			Horizon:         s.Horizon,
			LockTTL:         s.LockTTL,
			RunRetention:    s.RunRetention,
			BodyRetention:   s.BodyRetention,
			AuditRetention:  s.AuditRetention,
			LetterRetention: s.LetterRetention,
			Logger:          c.Logger,
			Registerer:      c.Registry,
		}),
		listener: pg.NewListener(c.Settings.Database.DirectURL, c.Logger),
		courier:  c.courier(),
		advancer: c.advancer(),
	}
}

// advancer returns the loop that advances the runs of chains.
func (c *Core) advancer() *chainstore.Advancer {
	return chainstore.NewAdvancer(chainstore.Config{
		DB:        c.DB,
		Endpoints: endpointstore.NewStore(c.States),
		Service:   c.Endpoints(),
		Calls:     calls.NewService(callstore.New(c.DB), c.Targets()),
		Cancels:   history.NewRuns(c.DB),
		Loops:     c.Loops,
		Logger:    c.Logger,

		Registerer: c.Registry,
	})
}

// traced wraps the stores of a worker so that its runs are traced. Without a collector it returns
// cfg unchanged.
func (c *Core) traced(cfg dispatch.Config) dispatch.Config {
	if c.Traces == nil {
		return cfg
	}
	follow := tracing.NewRuns(c.Traces, cfg.Executions)
	cfg.Claims, cfg.Executions, cfg.Tracer = tracing.NewClaims(c.Traces, cfg.Claims), follow, follow
	return cfg
}

// run runs all loops until ctx ends and the worker has shut down.
func (l *workerLoops) run(ctx context.Context) error {
	s := l.core.Settings.Worker
	l.core.Logger.Info("worker started", "slots", s.Slots, "slots_min", s.MinSlots, "version", telemetry.Version())
	// Allow lists are read before the first run. If that fails, Allowances.Run logs it and retries.
	_ = l.core.Allowances.Refresh(ctx)
	// So are shared budgets, because an endpoint that seems to have none would forget its tempo.
	prices := budgetstore.NewPrices(l.core.States, l.core.Logger)
	_ = prices.Refresh(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.worker.Run(ctx) })
	keep := func(name loop.Name, body func(context.Context)) {
		group.Go(func() error { l.core.Loops.Run(ctx, name, body); return nil })
	}
	keep(loop.Allowances, l.core.Allowances.Run)
	keep(loop.Budgets, prices.Run)
	keep(loop.Secrets, l.core.Vault.Run)
	keep(loop.Sweep, l.sweeper.Run)
	keep(loop.Courier, l.courier.Run)
	keep(loop.Chains, l.advancer.Run)
	keep(loop.Listener, func(ctx context.Context) { l.listener.Run(ctx, notified{l.worker, l.advancer}) })
	return group.Wait()
}
