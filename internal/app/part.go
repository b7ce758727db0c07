package app

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"rubato/internal/config"
	"rubato/internal/loop"
	"rubato/internal/telemetry"
)

// Part is one of the things that a program does.
type Part struct {
	Checks []telemetry.Check           // they hold when it can do its work
	Run    func(context.Context) error // blocks until its context ends and it has drained
}

// Addresses say where a program listens, with the port that was taken where port 0 was asked for. Empty: no such listener.
type Addresses struct {
	API   string // base URL
	Admin string // base URL
}

// Run runs parts until ctx ends or one of them fails, and returns when all have ended. Beside them, from their begin to their end, run the
// admin server, the checks of health and the care of the heap: a program that drains still tells how it does. started is called once the
// admin server listens, before the parts begin; nil: nobody asks.
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

// watch runs parts, and beside them what watches them. admin may be nil.
func (c *Core) watch(ctx context.Context, admin *Server, parts []Part) error {
	group, ctx := errgroup.WithContext(ctx)
	watched, done := context.WithCancel(context.WithoutCancel(ctx))
	if admin != nil {
		group.Go(func() error { return admin.Run(watched) })
	}
	group.Go(func() error { c.Loops.Run(watched, loop.Health, c.health.Run); return nil })
	group.Go(func() error { c.Loops.Run(watched, loop.Heap, tendHeap); return nil })
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

// checksOf returns the checks of parts, each name once: what several of them need is asked for once.
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

// admin returns the server of the admin listener, or nil where the settings want none.
func (c *Core) admin(ctx context.Context) (*Server, error) {
	if c.Settings.Admin.Listen == "" {
		return nil, nil //nolint:nilnil // No admin listener is a choice, not an error.
	}
	l, err := Listen(ctx, config.AdminListen, c.Settings.Admin.Listen)
	if err != nil {
		return nil, err
	}
	admin := NewServer(l, telemetry.Admin(c.Registry, c.health), c.Logger)
	admin.http.WriteTimeout = adminWriteTimeout
	return admin, nil
}
