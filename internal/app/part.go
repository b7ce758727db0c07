package app

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"rubato/internal/config"
	"rubato/internal/loop"
	"rubato/internal/telemetry"
)

// Part is a component of a program, such as the worker or the planner.
type Part struct {
	// Checks hold when the part can do its work.
	Checks []telemetry.Check
	// Run blocks until its context ends and the part has shut down.
	Run func(context.Context) error
}

// Addresses are the base URLs of a program's listeners. Port 0 is replaced by the chosen port. An
// empty string means no such listener.
type Addresses struct {
	API   string
	Admin string
}

// Run runs parts until ctx ends or one of them fails, and returns when all have ended. The admin
// server, the health checks and the GC tuner run from before the parts start until after they end,
// so that a program that shuts down still reports its health. If started is not nil, Run calls it
// once the admin server listens and before the parts start.
func (c *Core) Run(ctx context.Context, started func(Addresses), parts ...Part) error {
	c.health = telemetry.NewHealth(c.Logger, checksOf(parts)...)
	admin, err := c.admin(ctx)
	if err != nil {
		return err
	}
	if started != nil {
		var at Addresses
		if admin != nil {
			at.Admin = BaseURL(admin.listener.Addr())
		}
		started(at)
	}
	return c.watch(ctx, admin, parts)
}

// watch runs the parts together with the admin server, the health checks and the GC tuner. admin
// may be nil.
func (c *Core) watch(ctx context.Context, admin *Server, parts []Part) error {
	group, ctx := errgroup.WithContext(ctx)
	watched, done := context.WithCancel(context.WithoutCancel(ctx))
	if admin != nil {
		group.Go(func() error { return admin.Run(watched) })
	}
	group.Go(func() error { c.Loops.Run(watched, loop.Health, c.health.Run); return nil })
	group.Go(func() error { c.Loops.Run(watched, loop.Heap, tuneGC); return nil })
	group.Go(func() error {
		defer done()
		work, ctx := errgroup.WithContext(ctx)
		for _, p := range parts {
			work.Go(func() error { return p.Run(ctx) })
		}
		return work.Wait()
	})
	return group.Wait()
}

// checksOf returns the checks of all parts, each name once: a check that several parts share runs
// once.
func checksOf(parts []Part) []telemetry.Check {
	var checks []telemetry.Check
	for _, p := range parts {
		for _, check := range p.Checks {
			if !slices.ContainsFunc(checks, func(other telemetry.Check) bool { return other.Name == check.Name }) {
				checks = append(checks, check)
			}
		}
	}
	return checks
}

// admin returns the server of the admin listener, or nil if the settings disable it.
func (c *Core) admin(ctx context.Context) (*Server, error) {
	if c.Settings.Admin.Listen == "" {
		return nil, nil //nolint:nilnil // The setting may disable the admin listener.
	}
	l, err := Listen(ctx, config.AdminListen, c.Settings.Admin.Listen)
	if err != nil {
		return nil, err
	}
	admin := NewServer(l, telemetry.Admin(c.Registry, c.health), c.Logger)
	admin.http.WriteTimeout = adminWriteTimeout
	return admin, nil
}
