// Package apiserver assembles the API server: the REST API, the console and MCP for agents on one
// listener. It also offers two functions that need no listener: offline governor decisions, and the
// forwarding of an agent's calls.
package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"golang.org/x/sync/errgroup"

	"rubato/internal/app"
	"rubato/internal/auth"
	"rubato/internal/config"
	"rubato/internal/loop"
	keystore "rubato/internal/store/keys"
	"rubato/internal/telemetry"
	"rubato/internal/web"
)

// conns bounds the connections of an API server. It is small because its statements take
// milliseconds.
const conns = 10

// API is the API server.
type API struct {
	Settings config.Config
	Logger   *slog.Logger
	// Started is called once the server listens. It may be nil.
	Started func(app.Addresses)
}

// Run serves until ctx ends, then waits for requests under way.
func (a API) Run(ctx context.Context) error {
	l, err := app.Listen(ctx, config.Listen, a.Settings.API.Listen)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	c, err := app.OpenCore(ctx, a.Settings, a.Logger, conns, l.Addr().String())
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	if err := EnsureKey(ctx, c, "bootstrap", a.Settings.API.BootstrapKey); err != nil {
		return err
	}
	started := func(at app.Addresses) {
		if at.API = app.BaseURL(l.Addr()); a.Started != nil {
			a.Started(at)
		}
	}
	allowances := app.Part{Run: func(ctx context.Context) error {
		c.Loops.Run(ctx, loop.Allowances, c.Allowances.Run)
		return nil
	}}
	return c.Run(ctx, started, Part(c, l, nil), allowances)
}

// EnsureKey makes sure that an API key with the admin scope exists. It does nothing if key is
// empty.
func EnsureKey(ctx context.Context, c *app.Core, name, key string) error {
	if key == "" {
		return nil
	}
	err := keystore.NewKeys(c.DB).EnsureKey(ctx, auth.Params{
		Name:   name,
		Key:    key,
		Scopes: []auth.Scope{auth.Admin},
	})
	if err != nil {
		return fmt.Errorf("making sure that the %s key exists: %w", name, err)
	}
	return nil
}

// Part returns the API server on a listener as a part. The caller must run a loop that refreshes
// c.Allowances; a worker in the same process does. ticket is a one-time login to the console; nil
// for none.
func Part(c *app.Core, l net.Listener, ticket *web.Ticket) app.Part {
	s := server{Core: c, ticket: ticket}
	return app.Part{Checks: []telemetry.Check{c.DatabaseAnswers(), c.SecretsOpen()}, Run: func(ctx context.Context) error {
		c.Logger.Info("API server started", "url", app.BaseURL(l.Addr()), "version", telemetry.Version())
		tester := s.tester()
		defer tester.Close()
		group, ctx := errgroup.WithContext(ctx)
		public := s.listen(l, tester) //nolint:contextcheck // Pages use the context of their request.
		group.Go(func() error { return public.Run(ctx) })
		group.Go(func() error { c.Loops.Run(ctx, loop.Answers, s.sweepAnswers); return nil })
		return group.Wait()
	}}
}
