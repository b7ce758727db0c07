package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"

	"golang.org/x/sync/errgroup"

	"rubato/internal/apidocs"
	"rubato/internal/auth"
	"rubato/internal/config"
	"rubato/internal/dispatch"
	"rubato/internal/mcp"
	"rubato/internal/store"
	"rubato/internal/telemetry"
	"rubato/internal/web"
)

// apiConns bounds the connections of an API server: its statements take milliseconds.
const apiConns = 10

// API is the API server.
type API struct {
	Settings config.Config
	Logger   *slog.Logger
	Started  func(Addresses) // called when everything listens; nil: nobody asks
}

// Run serves until ctx ends, then lets the requests under way end.
func (a API) Run(ctx context.Context) error {
	l, err := listen(ctx, config.Listen, a.Settings.API.Listen)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	c, err := openCore(ctx, a.Settings, a.Logger, apiConns, l.Addr().String())
	if err != nil {
		return err
	}
	defer c.close(ctx)
	if err := c.ensureKey(ctx, "bootstrap", a.Settings.API.BootstrapKey); err != nil {
		return err
	}
	health := telemetry.NewHealth(a.Logger, c.databaseAnswers(), c.secretsOpen())
	defer c.outbound().Close()
	tester := c.tester()
	defer tester.Close()
	admin, err := c.admin(ctx, health)
	if err != nil {
		return err
	}
	tell(a.Started, addressesOf(l, admin))
	a.Logger.Info("the API server serves", "url", baseURL(l.Addr()), "version", telemetry.Version())
	return serveWhile(ctx, admin, health, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		public := c.publicServer(l, health, tester, nil) //nolint:contextcheck // Pages take the context of their request.
		group.Go(func() error { return public.run(ctx) })
		group.Go(func() error { c.forgetAnswers(ctx); return nil })
		group.Go(func() error { c.allowed.run(ctx); return nil })
		return group.Wait()
	})
}

// ensureKey makes sure that an admin key exists, where one is named.
func (c *core) ensureKey(ctx context.Context, name, key string) error {
	if key == "" {
		return nil
	}
	err := store.NewKeys(c.db).EnsureKey(ctx, auth.Params{Name: name, Key: key, Scopes: []auth.Scope{auth.Admin}})
	if err != nil {
		return fmt.Errorf("making sure that the %s key exists: %w", name, err)
	}
	return nil
}

// publicServer returns the server of the API's own listener, which serves the console, agents and the page of the contract too, and the
// metrics where the settings say so. A ticket lets somebody into the console once; nil: nobody.
func (c *core) publicServer(l net.Listener, health *telemetry.Health, tester *dispatch.Tester, ticket *web.Ticket) *server {
	api := c.api(health, tester)
	pages := c.console(api, ticket)
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", pages)
	mux.Handle("/console/", pages)
	if c.settings.API.Metrics {
		mux.Handle("GET /metrics", telemetry.Metrics(c.registry))
	}
	apidocs.Register(mux)
	agents := mcp.Handler(mcp.Config{API: api, Auth: c.keys, Logger: c.logger, Version: telemetry.Version()})
	mux.Handle(mcp.Path, agents)
	mux.Handle(mcp.ReadOnlyPath, agents)
	mux.Handle("/", api)
	s := newServer(l, asWritten(mux, api), c.logger)
	s.http.RegisterOnShutdown(api.Drain)
	s.http.RegisterOnShutdown(pages.Drain)
	return s
}

// asWritten hands requests whose path is not written in its shortest form to the API, which knows no such route and says so. The mux
// would send a client elsewhere, by a page that no program expects.
func asWritten(mux, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		written := r.URL.EscapedPath()
		if clean := path.Clean(written); clean != written && clean+"/" != written {
			api.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// console returns the handler of the console, a client of the API.
func (c *core) console(api http.Handler, ticket *web.Ticket) *web.Server {
	figures := store.NewConsole(c.db)
	return web.New(web.Config{
		API: api, Auth: c.keys, Decisions: figures, Figures: figures, Sessions: store.NewConsoleSessions(c.db),
		Ticket: ticket, Logger: c.logger,
	})
}

// serveWhile runs work, and beside it, from its begin to its end, the admin server, the checks of health and the care of the heap: a program
// that drains still tells how it does. admin may be nil.
func serveWhile(ctx context.Context, admin *server, health *telemetry.Health, work func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	watched, done := context.WithCancel(context.WithoutCancel(ctx))
	if admin != nil {
		group.Go(func() error { return admin.run(watched) })
	}
	group.Go(func() error { health.Run(watched); return nil })
	group.Go(func() error { tendHeap(watched); return nil })
	group.Go(func() error {
		defer done()
		return work(ctx)
	})
	return group.Wait()
}

func addressesOf(l net.Listener, admin *server) Addresses {
	var a Addresses
	if l != nil {
		a.API = baseURL(l.Addr())
	}
	if admin != nil {
		a.Admin = baseURL(admin.listener.Addr())
	}
	return a
}

func tell[T any](listener func(T), news T) {
	if listener != nil {
		listener(news)
	}
}
