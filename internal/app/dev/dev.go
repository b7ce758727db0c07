// Package dev assembles `rubato dev`: API server, worker and planner in one process on a private
// Postgres, for one user on one machine. It manages that user's data directory, and the command
// line finds the running server through it.
package dev

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"rubato/internal/app"
	"rubato/internal/app/apiserver"
	"rubato/internal/auth"
	"rubato/internal/config"
	"rubato/internal/devpg"
)

const (
	// conns bounds the connections of API and worker together. It may be high because the private
	// Postgres has no other clients.
	conns = 20
	// readyPoll is the interval of readiness checks during the start.
	readyPoll = 20 * time.Millisecond
	// postgresStop bounds the stop of the private Postgres, which usually takes 0.1 s. Committed
	// data is safe even if the stop is cut short.
	postgresStop = 1500 * time.Millisecond
)

// Defaults returns the settings' defaults for `rubato dev`: it serves one user on one machine, and
// stops within 5 s.
func Defaults() config.Program {
	return config.Program{Defaults: map[string]string{
		config.Listen: "127.0.0.1:8080", config.AdminListen: "", config.Grace: "3s",
		// Metrics are on the public listener, because there is no admin listener.
		config.PublicMetrics: "true",
		// Only warnings, so that a new user sees the banner and nothing else.
		config.LogLevel:  "warn",
		config.LogFormat: "text",
		// The heuristic advisor costs nothing, so that the planner may act within seconds instead
		// of minutes.
		config.PlannerAnalyses: "600", config.PlannerSpacing: "3s", config.PlannerDwell: "5s", config.PlannerChanges: "240",
	}}
}

// Server runs API server, worker and planner in one process. It starts a private Postgres unless
// the settings name a database. It permits targets on the loopback interface.
type Server struct {
	Settings config.Config
	// DataDir is created if it is missing. Only one dev server at a time can use it.
	DataDir string
	// Demo also serves a small target and registers endpoints on it.
	Demo bool
	// Home is where the command line looks for the running dev server.
	Home   Home
	Logger *slog.Logger
	// Listening is called once the address is known and before the database starts. It may be nil.
	Listening func(Credentials)
	// Ready is called once /readyz answers 200. It may be nil.
	Ready func(Credentials)
}

// Run serves until ctx ends, then shuts down. The data stays for the next start.
func (s Server) Run(ctx context.Context) error {
	s.Settings.Egress.Allow = append(slices.Clip(s.Settings.Egress.Allow), loopback()...)
	dir, err := openDataDir(s.DataDir)
	if err != nil {
		return err
	}
	defer dir.close()
	l, err := app.Listen(ctx, "--listen", s.Settings.API.Listen)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	access, err := s.credentials(dir, l)
	if err != nil {
		return err
	}
	if s.Settings.API.PublicURL == "" {
		s.Settings.API.PublicURL = access.URL
	}
	if len(s.Settings.Secrets.Keys) == 0 {
		if s.Settings.Secrets.Keys, err = dir.secretKeys(); err != nil {
			return err
		}
	}
	notify(s.Listening, access)

	stopPostgres, err := s.startPostgres(ctx, dir)
	if err != nil {
		return err
	}
	defer stopPostgres()
	if _, err := app.MigrateUp(ctx, s.Settings); err != nil {
		return err
	}
	c, err := app.OpenCore(ctx, s.Settings, s.Logger, conns, l.Addr().String())
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	if err := errors.Join(apiserver.EnsureKey(ctx, c, "dev", access.Key), apiserver.EnsureKey(ctx, c, "bootstrap", s.Settings.API.BootstrapKey)); err != nil {
		return err
	}
	if err := dir.saveCredentials(access); err != nil {
		return err
	}
	defer s.Home.retract()
	if err := s.Home.announce(dir.in(credentialsFile)); err != nil {
		s.Logger.Warn("the command line will not find this server by itself: name it with --server and --api-key", "error", err)
	}
	return s.serve(ctx, c, l, access)
}

// serve runs every part until ctx ends or one of them fails.
func (s Server) serve(ctx context.Context, c *app.Core, l net.Listener, access Credentials) error {
	planner, err := c.Planner()
	if err != nil {
		return err
	}
	parts := []app.Part{c.Worker(), planner, apiserver.Part(c, l, access.ticket)}
	// The demo registers before the worker starts, because endpoints of an earlier start still have
	// the address of that start's target.
	if s.Demo {
		target, err := openDemo(ctx, c, access.Key)
		if err != nil {
			return err
		}
		defer target.Close()
		parts = append(parts, app.Part{Run: target.Run})
	}
	parts = append(parts, app.Part{Run: func(ctx context.Context) error {
		if awaitReady(ctx, l.Addr().String()) {
			notify(s.Ready, access)
		}
		return nil
	}})
	return c.Run(ctx, nil, parts...)
}

// credentials returns the address and the API key of this server. The key is that of the settings,
// else that of the last start, else a new one.
func (s Server) credentials(dir *dataDir, l net.Listener) (Credentials, error) {
	access := Credentials{URL: app.BaseURL(l.Addr()), Key: s.Settings.Client.Key}
	if access.Key != "" {
		return access.withTicket(), nil
	}
	kept, err := dir.savedKey()
	if err != nil {
		return Credentials{}, err
	}
	if access.Key = kept; kept == "" {
		access.Key = auth.NewKey()
	}
	return access.withTicket(), nil
}

// startPostgres starts the private Postgres of the data directory and restarts it if it crashes
// before ctx ends. It does nothing if the settings name a database. stop stops Postgres and waits
// for it.
func (s *Server) startPostgres(ctx context.Context, dir *dataDir) (stop func(), err error) {
	if s.Settings.Database.URL != "" {
		return func() {}, nil
	}
	cluster, err := devpg.Start(ctx, devpg.Config{
		Dir:     dir.in("postgres"),
		Durable: true,
		Logger:  s.Logger,
	})
	if err != nil {
		return nil, err
	}
	s.Settings.Database = config.Database{URL: cluster.URL(), DirectURL: cluster.URL()}
	supervised, stopSupervising := context.WithCancel(ctx)
	var supervision sync.WaitGroup
	supervision.Go(func() { cluster.Supervise(supervised) })
	return func() {
		stopSupervising()
		supervision.Wait()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), postgresStop)
		defer cancel()
		if err := cluster.Stop(limited); err != nil {
			s.Logger.Warn("stopping the private Postgres failed; its data is kept", "error", err)
		}
	}, nil
}

// awaitReady waits until the server on an address is ready. It returns false if ctx ends first.
func awaitReady(ctx context.Context, address string) bool {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for app.CheckReady(ctx, address) != nil {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}

func notify(listener func(Credentials), access Credentials) {
	if listener != nil {
		listener(access)
	}
}

func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}
