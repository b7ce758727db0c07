// Package dev assembles `rubato dev`: API server, worker and planner in one process on a private Postgres, for one person on one machine. It
// knows where that person's data is, and how the command line finds a server that runs.
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
	// conns is for API and worker together; the private Postgres has nobody else to serve.
	conns = 20
	// readyPoll is how often a starting dev server asks itself whether it is ready.
	readyPoll = 20 * time.Millisecond
	// postgresStop bounds the stop of the private Postgres, which takes 0.1 s: what is committed is kept either way.
	postgresStop = 1500 * time.Millisecond
)

// Defaults returns how the settings of `rubato dev` differ: it is for one person on one machine, and stops within 5 s.
func Defaults() config.Program {
	return config.Program{Defaults: map[string]string{
		config.Listen: "127.0.0.1:8080", config.AdminListen: "", config.Grace: "3s",
		config.PublicMetrics: "true", // There is no admin listener to serve them.
		config.LogLevel:      "warn", // Nothing that works should stand between a newcomer and the banner.
		config.LogFormat:     "text",
		// The advisor that works without a key costs nothing, and nobody waits for minutes to see a tempo change.
		config.PlannerAnalyses: "600", config.PlannerSpacing: "3s", config.PlannerDwell: "5s", config.PlannerChanges: "240",
	}}
}

// Server is everything in one process: API server, worker, planner and a private Postgres, unless the settings name a database. Targets on the
// loopback interface may be called.
type Server struct {
	Settings  config.Config
	DataDir   string // made if missing; one dev server at a time can use it
	Demo      bool   // also serve a small target and register endpoints on it
	Home      Home   // where the command line looks for the running dev server
	Logger    *slog.Logger
	Listening func(Credentials) // called once the address is known, before the database is there; nil: nobody asks
	Ready     func(Credentials) // called once /readyz answers 200; nil: nobody asks
}

// Run serves and works until ctx ends, then drains. The data stays for the next start.
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
	if len(s.Settings.Secrets.Keys) == 0 {
		if s.Settings.Secrets.Keys, err = dir.secretKeys(); err != nil {
			return err
		}
	}
	tell(s.Listening, access)

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
	if err := dir.keep(access); err != nil {
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
	if s.Demo { // Before anything runs: an endpoint of an earlier start still leads to where that one's target was.
		target, err := openDemo(ctx, c, access.Key)
		if err != nil {
			return err
		}
		defer target.Close()
		parts = append(parts, app.Part{Run: target.Run})
	}
	parts = append(parts, app.Part{Run: func(ctx context.Context) error {
		if awaitReady(ctx, l.Addr().String()) {
			tell(s.Ready, access)
		}
		return nil
	}})
	return c.Run(ctx, nil, parts...)
}

// credentials returns the address and the key of this server: the key that the settings name, else that of the last start, else a
// fresh one.
func (s Server) credentials(dir *dataDir, l net.Listener) (Credentials, error) {
	access := Credentials{URL: app.BaseURL(l.Addr()), Key: s.Settings.Client.Key}
	if access.Key != "" {
		return access.withTicket(), nil
	}
	kept, err := dir.keptKey()
	if err != nil {
		return Credentials{}, err
	}
	if access.Key = kept; kept == "" {
		access.Key = auth.NewKey()
	}
	return access.withTicket(), nil
}

// startPostgres starts the private Postgres of the data directory, unless the settings name a database, and brings it back where it dies
// before ctx ends. It returns how to stop it.
func (s *Server) startPostgres(ctx context.Context, dir *dataDir) (stop func(), err error) {
	if s.Settings.Database.URL != "" {
		return func() {}, nil
	}
	cluster, err := devpg.Start(ctx, devpg.Config{Dir: dir.in("postgres"), Durable: true, Logger: s.Logger})
	if err != nil {
		return nil, err
	}
	s.Settings.Database = config.Database{URL: cluster.URL(), DirectURL: cluster.URL()}
	tended, endTending := context.WithCancel(ctx)
	var tending sync.WaitGroup
	tending.Go(func() { cluster.Tend(tended) })
	return func() {
		endTending()
		tending.Wait()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), postgresStop)
		defer cancel()
		if err := cluster.Stop(limited); err != nil {
			s.Logger.Warn("stopping the private Postgres failed; its data is kept", "error", err)
		}
	}, nil
}

// awaitReady returns true once the server on an address says that it is ready, and false when ctx ends before.
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

func tell(listener func(Credentials), news Credentials) {
	if listener != nil {
		listener(news)
	}
}

func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}
