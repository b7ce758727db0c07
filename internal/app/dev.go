package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"rubato/internal/auth"
	"rubato/internal/config"
	"rubato/internal/devpg"
	"rubato/internal/telemetry"
)

const (
	// devConns is for API and worker together; the private Postgres has nobody else to serve.
	devConns = 20
	// readyPoll is how often a starting dev server asks itself whether it is ready.
	readyPoll = 20 * time.Millisecond
	// postgresStop bounds the stop of the private Postgres, which takes 0.1 s: what is committed is kept either way.
	postgresStop = 1500 * time.Millisecond
)

// DevDefaults returns how the settings of `rubato dev` differ: it is for one person on one machine, and stops within 5 s.
func DevDefaults() config.Program {
	return config.Program{Defaults: map[string]string{
		config.Listen: "127.0.0.1:8080", config.AdminListen: "", config.Grace: "3s",
		config.PublicMetrics: "true", // There is no admin listener to serve them.
		config.LogLevel:      "warn", // Nothing that works should stand between a newcomer and the banner.
		config.LogFormat:     "text",
		// The advisor that works without a key costs nothing, and nobody waits for minutes to see a tempo change.
		config.PlannerAnalyses: "600", config.PlannerSpacing: "3s", config.PlannerDwell: "5s", config.PlannerChanges: "240",
	}}
}

// Dev is everything in one process: API server, worker, planner and a private Postgres, unless the settings name a database. Targets on the
// loopback interface may be called.
type Dev struct {
	Settings  config.Config
	DataDir   string // made if missing; one dev server at a time can use it
	Demo      bool   // also serve a small target and register endpoints on it
	Home      Home   // where the command line looks for the running dev server
	Logger    *slog.Logger
	Listening func(Credentials) // called once the address is known, before the database is there; nil: nobody asks
	Ready     func(Credentials) // called once /readyz answers 200; nil: nobody asks
}

// Run serves and works until ctx ends, then drains. The data stays for the next start.
func (d Dev) Run(ctx context.Context) error {
	d.Settings.Egress.Allow = append(slices.Clip(d.Settings.Egress.Allow), loopback()...)
	dir, err := openDataDir(d.DataDir)
	if err != nil {
		return err
	}
	defer dir.close()
	l, err := listen(ctx, "--listen", d.Settings.API.Listen)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	access, err := d.credentials(dir, l)
	if err != nil {
		return err
	}
	if len(d.Settings.Secrets.Keys) == 0 {
		if d.Settings.Secrets.Keys, err = dir.secretKeys(); err != nil {
			return err
		}
	}
	tell(d.Listening, access)

	stopPostgres, err := d.startPostgres(ctx, dir)
	if err != nil {
		return err
	}
	defer stopPostgres()
	if _, err := MigrateUp(ctx, d.Settings); err != nil {
		return err
	}
	c, err := openCore(ctx, d.Settings, d.Logger, devConns, l.Addr().String())
	if err != nil {
		return err
	}
	defer c.close(ctx)
	if err := errors.Join(c.ensureKey(ctx, "dev", access.Key), c.ensureKey(ctx, "bootstrap", d.Settings.API.BootstrapKey)); err != nil {
		return err
	}
	if err := dir.keep(access); err != nil {
		return err
	}
	defer d.Home.retract()
	if err := d.Home.announce(dir.in(credentialsFile)); err != nil {
		d.Logger.Warn("the command line will not find this server by itself: name it with --server and --api-key", "error", err)
	}
	return d.serve(ctx, c, l, access)
}

// serve runs every part until ctx ends or one of them fails.
func (d Dev) serve(ctx context.Context, c *core, l net.Listener, access Credentials) error {
	loops := c.loops()
	defer c.outbound().Close()
	tester := c.tester()
	defer tester.Close()
	planner, err := c.planner()
	if err != nil {
		return err
	}
	health := telemetry.NewHealth(c.logger, slices.Concat(loops.worker.Checks(), planner.Checks(), []telemetry.Check{c.databaseAnswers(), c.secretsOpen()})...)
	admin, err := c.admin(ctx, health)
	if err != nil {
		return err
	}
	return serveWhile(ctx, admin, health, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		if d.Demo { // Before anything runs: an endpoint of an earlier start still leads to where that one's target was.
			target, err := c.openDemo(ctx, access.Key)
			if err != nil {
				return err
			}
			group.Go(func() error { return target.run(ctx) })
		}
		public := c.publicServer(l, health, tester, access.ticket) //nolint:contextcheck // Pages take the context of their request.
		group.Go(func() error { return public.run(ctx) })
		group.Go(func() error { return loops.run(ctx) })
		group.Go(func() error { planner.Run(ctx); return nil })
		group.Go(func() error { c.forgetAnswers(ctx); return nil })
		group.Go(func() error {
			if awaitReady(ctx, access.URL) {
				tell(d.Ready, access)
			}
			return nil
		})
		return group.Wait()
	})
}

// credentials returns the address and the key of this server: the key that the settings name, else that of the last start, else a
// fresh one.
func (d Dev) credentials(dir *dataDir, l net.Listener) (Credentials, error) {
	access := Credentials{URL: baseURL(l.Addr()), Key: d.Settings.Client.Key}
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
func (d *Dev) startPostgres(ctx context.Context, dir *dataDir) (stop func(), err error) {
	if d.Settings.Database.URL != "" {
		return func() {}, nil
	}
	cluster, err := devpg.Start(ctx, devpg.Config{Dir: dir.in("postgres"), Durable: true, Logger: d.Logger})
	if err != nil {
		return nil, err
	}
	d.Settings.Database = config.Database{URL: cluster.URL(), DirectURL: cluster.URL()}
	tended, endTending := context.WithCancel(ctx)
	var tending sync.WaitGroup
	tending.Go(func() { cluster.Tend(tended) })
	return func() {
		endTending()
		tending.Wait()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), postgresStop)
		defer cancel()
		if err := cluster.Stop(limited); err != nil {
			d.Logger.Warn("stopping the private Postgres failed; its data is kept", "error", err)
		}
	}, nil
}

// awaitReady returns true once the server at a URL says that it is ready, and false when ctx ends before.
func awaitReady(ctx context.Context, url string) bool {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		if status, _, err := probe(ctx, url+"/readyz"); err == nil && status == http.StatusOK {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
}

func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}
