package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"rubato/internal/auth"
	"rubato/internal/chains"
	"rubato/internal/config"
	"rubato/internal/dispatch/ready"
	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/loop"
	"rubato/internal/oauth2"
	"rubato/internal/secrets"
	chainstore "rubato/internal/store/chains"
	endpointstore "rubato/internal/store/endpoints"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
	"rubato/internal/store/views"
	"rubato/internal/telemetry"
	"rubato/internal/tracing"
)

const (
	product = "rubato"

	// databaseWait bounds the wait of a starting program for an unreachable database. A restart of
	// Postgres fits in it.
	databaseWait  = 30 * time.Second
	databaseRetry = 500 * time.Millisecond
)

// Core holds the resources that the parts of one process share: the connection pool, metrics,
// traces, keys and the client of outbound calls. OpenCore creates it.
type Core struct {
	Settings config.Config
	Logger   *slog.Logger
	Registry *prometheus.Registry
	Loops    *loop.Runner
	DB       *pg.DB
	// States is shared by all stores of endpoints, because it caches their configurations.
	States     *endpointstore.States
	Allowances *Allowances
	// Traces is nil if no collector is configured.
	Traces  *tracing.Provider
	Keyring *secrets.Keyring
	Keys    *auth.Authenticator
	Vault   *secrets.Vault

	// metrics pushes to a collector; nil if metrics are only scraped.
	metrics *tracing.Metrics
	// own lists listeners of this process, as host:port, that outbound calls must not reach. The
	// listeners that the settings name are refused anyway.
	own  []string
	dial sync.Once
	// outbound and mailTokens are created once, under dial; see Outbound.
	outbound *egress.Client
	// hosts bounds the requests in flight to each host, those of runs and all others of the
	// process.
	hosts *ready.Hosts
	// mailTokens caches access tokens for the mail server. It fetches them through outbound.
	mailTokens *oauth2.Cache
	// health reports the checks of the running parts. Run sets it.
	health *telemetry.Health
}

// OpenCore opens the database and waits until it answers. conns bounds the connection pool for
// requests and for loops without a connection of their own. own lists listeners, as host:port,
// whose port the settings do not fix. The caller must close the core.
func OpenCore(ctx context.Context, settings config.Config, logger *slog.Logger, conns int32, own ...string) (*Core, error) {
	keyring, err := keyringOf(settings.Secrets)
	if err != nil {
		return nil, err
	}
	service := serviceOf(settings.Trace)
	traces, err := openTraces(ctx, settings.Trace, service, logger)
	if err != nil {
		return nil, err
	}
	registry := telemetry.NewRegistry()
	loops := loop.NewRunner(logger, registry)
	db, err := pg.Open(ctx, pg.Config{
		URL:             settings.Database.URL,
		MaxConns:        conns,
		ApplicationName: product,
		Tracers:         traces.Tracers(),
		Contain:         func(step func()) error { return loops.Contain(loop.Finish, step) },
	})
	if err != nil {
		return nil, errors.Join(err, traces.Close(ctx))
	}
	c := &Core{
		Settings:   settings,
		Logger:     logger,
		Registry:   registry,
		Loops:      loops,
		DB:         db,
		States:     endpointstore.NewStates(db, settings.Worker.Slots),
		Traces:     traces,
		Keyring:    keyring,
		own:        own,
		hosts:      ready.NewHosts(settings.Egress.MaxPerHost),
		Allowances: newAllowances(keystore.NewTenants(db), logger),
		Keys:       auth.NewAuthenticator(keystore.NewKeys(db)),
		Vault:      secrets.NewVault(keystore.NewSecrets(db), keyring, logger),
	}
	c.States.Keyring = keyring
	c.Registry.MustRegister(telemetry.NewDatabase(views.NewGauges(db), logger))
	if err = c.sendMetrics(ctx, service); err == nil {
		err = c.awaitDatabase(ctx)
	}
	if err != nil {
		c.Close(ctx)
		return nil, err
	}
	return c, nil
}

// Close releases the shared resources. Call it after the last part has ended. It finishes even if
// ctx has ended.
func (c *Core) Close(ctx context.Context) {
	if c.outbound != nil {
		c.mailTokens.Close()
		c.outbound.Close()
	}
	// Metrics close before the database, because some of them are read from it.
	if err := c.metrics.Close(ctx); err != nil {
		c.Logger.Warn("sending the last metrics failed", "error", err)
	}
	c.DB.Close()
	if err := c.Traces.Close(ctx); err != nil {
		c.Logger.Warn("sending the last traces failed", "error", err)
	}
}

// openTraces returns the trace provider, or nil if the settings name no collector.
func openTraces(ctx context.Context, t config.Trace, service tracing.Service, logger *slog.Logger) (*tracing.Provider, error) {
	return tracing.Open(ctx, tracing.Config{
		On:       t.On(),
		Endpoint: t.URL(),
		Sampler:  t.Sampler,
		Ratio:    t.SamplerArg,
		Service:  service,
	}, logger)
}

// serviceOf returns the resource attributes under which a collector knows this process.
func serviceOf(t config.Trace) tracing.Service {
	return tracing.Service{
		Name:     t.Service,
		Version:  telemetry.Version(),
		Instance: uuid.NewString(),
	}
}

// sendMetrics starts to push the metrics of the process to a collector if the settings name one.
func (c *Core) sendMetrics(ctx context.Context, service tracing.Service) (err error) {
	t := c.Settings.Trace
	c.metrics, err = tracing.OpenMetrics(ctx, tracing.MetricsConfig{
		On:       t.MetricsOn(),
		Endpoint: t.MetricsURL(),
		Service:  service,
	}, c.Registry, c.Logger)
	return err
}

// awaitDatabase waits until the database answers, then checks that it has Rubato's schema.
func (c *Core) awaitDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, databaseWait, fmt.Errorf("the database did not answer for %s", databaseWait))
	defer cancel()
	for warned := false; ; warned = true {
		err := c.DB.Ping(ctx)
		if err == nil {
			return c.checkSchema(ctx)
		}
		if errs.CodeOf(err) != errs.Unavailable {
			return fmt.Errorf("connecting to the database: %w", err)
		}
		if !warned {
			c.Logger.Warn("database unreachable; waiting for it", "error", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(databaseRetry):
		}
	}
}

// checkSchema returns an error if no migration was ever applied. It accepts a schema that is a
// migration ahead or behind, because programs and schema may be rolled out in any order.
func (c *Core) checkSchema(ctx context.Context) error {
	list, err := pg.MigrateStatus(ctx, c.Settings.Database.DirectURL)
	if err != nil {
		return err
	}
	for _, m := range list {
		if !m.AppliedAt.IsZero() {
			return nil
		}
	}
	return errors.New("the database holds no schema yet: run `rubato migrate up`")
}

// Endpoints returns the service that registers and changes endpoints. It refuses URLs that the
// egress rules do not permit.
func (c *Core) Endpoints() *endpoints.Service {
	service := endpoints.NewService(endpointstore.NewStore(c.States), c.Targets())
	service.LimitWaiting(c.Settings.API.Waiting)
	return service
}

// Chains returns the service of chains.
func (c *Core) Chains() *chains.Service {
	store := chainstore.New(c.DB)
	return chains.NewService(store, store)
}

// hostname returns the name of this machine for display. No decision depends on it.
func hostname() string {
	name, _ := os.Hostname()
	return cmp.Or(name, "unknown")
}
