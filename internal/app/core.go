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
	"rubato/internal/config"
	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/loop"
	"rubato/internal/oauth2"
	"rubato/internal/secrets"
	"rubato/internal/store"
	"rubato/internal/telemetry"
	"rubato/internal/tracing"
)

const (
	product = "rubato"

	// databasePatience is how long a starting program waits for a database that is away: as long as one takes to restart.
	databasePatience = 30 * time.Second
	databaseRetry    = 500 * time.Millisecond
)

// Core is what the parts of one process share.
type Core struct {
	Settings   config.Config
	Logger     *slog.Logger
	Registry   *prometheus.Registry
	Loops      *loop.Runner
	DB         *store.DB
	Allowances *Allowances
	Traces     *tracing.Provider // nil: nobody collects traces
	Keyring    *secrets.Keyring
	Keys       *auth.Authenticator
	Vault      *secrets.Vault

	metrics  *tracing.Metrics // nil: they are scraped, and sent nowhere
	own      []string         // no outbound call may reach these, besides what the settings name; as host:port
	dial     sync.Once
	outbound *egress.Client // see Outbound
	// mailTokens are for the mail server. They are made with outbound, because they are got through it.
	mailTokens *oauth2.Cache
	health     *telemetry.Health // of the program that runs
}

// OpenCore opens the database and waits until it answers. conns bounds the connections of people's requests and of loops that have none of
// their own; own are listeners of this process whose port the settings do not tell, as host:port. The core has to be closed.
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
	db, err := store.Open(ctx, store.Config{
		URL: settings.Database.URL, MaxConns: conns, ApplicationName: product, Slots: settings.Worker.Slots, Tracers: traces.Tracers(),
		Contain: func(step func()) error { return loops.Contain(loop.Finish, step) },
	})
	if err != nil {
		return nil, errors.Join(err, traces.Close(ctx))
	}
	c := &Core{
		Settings: settings, Logger: logger, Registry: registry, Loops: loops, DB: db, Traces: traces, Keyring: keyring, own: own,
		Allowances: newAllowances(store.NewTenants(db), logger), Keys: auth.NewAuthenticator(store.NewKeys(db)),
		Vault: secrets.NewVault(store.NewSecrets(db), keyring, logger),
	}
	c.Registry.MustRegister(telemetry.NewDatabase(store.NewGauges(db), logger))
	if err = c.sendMetrics(ctx, service); err == nil {
		err = c.awaitDatabase(ctx)
	}
	if err != nil {
		c.Close(ctx)
		return nil, err
	}
	return c, nil
}

// Close ends what the parts share, after the last of them. The end of ctx does not cut it short.
func (c *Core) Close(ctx context.Context) {
	if c.outbound != nil {
		c.mailTokens.Close()
		c.outbound.Close()
	}
	if err := c.metrics.Close(ctx); err != nil { // Before the database, which some of them are read from.
		c.Logger.Warn("the last metrics are lost", "error", err)
	}
	c.DB.Close()
	if err := c.Traces.Close(ctx); err != nil {
		c.Logger.Warn("the last traces are lost", "error", err)
	}
}

// openTraces returns what makes traces, nil where the settings name no collector.
func openTraces(ctx context.Context, t config.Trace, service tracing.Service, logger *slog.Logger) (*tracing.Provider, error) {
	return tracing.Open(ctx, tracing.Config{
		On: t.On(), Endpoint: t.URL(), Sampler: t.Sampler, Ratio: t.SamplerArg, Service: service,
	}, logger)
}

// serviceOf names this process to a collector.
func serviceOf(t config.Trace) tracing.Service {
	return tracing.Service{Name: t.Service, Version: telemetry.Version(), Instance: uuid.NewString()}
}

// sendMetrics starts to send the metrics of the process to a collector if the settings ask for it.
func (c *Core) sendMetrics(ctx context.Context, service tracing.Service) (err error) {
	t := c.Settings.Trace
	c.metrics, err = tracing.OpenMetrics(ctx, tracing.MetricsConfig{
		On: t.MetricsOn(), Endpoint: t.MetricsURL(), Service: service,
	}, c.Registry, c.Logger)
	return err
}

// awaitDatabase returns when the database answers and holds our schema.
func (c *Core) awaitDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, databasePatience, fmt.Errorf("the database did not answer for %s", databasePatience))
	defer cancel()
	for warned := false; ; warned = true {
		err := c.DB.Ping(ctx)
		if err == nil {
			return c.checkSchema(ctx)
		}
		if errs.CodeOf(err) != errs.Unavailable {
			return fmt.Errorf("asking the database whether it is there: %w", err)
		}
		if !warned {
			c.Logger.Warn("the database cannot be reached; waiting for it", "error", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(databaseRetry):
		}
	}
}

// checkSchema refuses a database that was never migrated. One that is a migration ahead or behind is fine: programs and schema may
// be rolled out in any order.
func (c *Core) checkSchema(ctx context.Context) error {
	list, err := store.MigrateStatus(ctx, c.Settings.Database.DirectURL)
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

// Endpoints returns what is done to endpoints, under the rules of whom may be called.
func (c *Core) Endpoints() *endpoints.Service {
	service := endpoints.NewService(store.NewEndpoints(c.DB), c.Targets())
	service.LimitWaiting(c.Settings.API.Waiting)
	return service
}

// hostname names this machine for people; it decides nothing.
func hostname() string {
	name, _ := os.Hostname()
	return cmp.Or(name, "unknown")
}
