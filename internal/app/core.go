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

	"github.com/prometheus/client_golang/prometheus"

	"rubato/internal/auth"
	"rubato/internal/config"
	"rubato/internal/dispatch"
	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/httpapi"
	"rubato/internal/notices"
	"rubato/internal/secrets"
	"rubato/internal/signing"
	"rubato/internal/store"
	"rubato/internal/telemetry"
	"rubato/internal/tracing"
)

const (
	// databasePatience is how long a starting program waits for a database that is away: as long as one takes to restart.
	databasePatience = 30 * time.Second
	databaseRetry    = 500 * time.Millisecond
)

// Addresses say where a program listens, with the port that was taken where port 0 was asked for. Empty: no such listener.
type Addresses struct {
	API   string // base URL
	Admin string // base URL
}

// core is what the programs of one process share.
type core struct {
	settings config.Config
	logger   *slog.Logger
	registry *prometheus.Registry
	db       *store.DB
	allowed  *allowances
	own      []string          // no outbound call may reach these, besides what the settings name; as host:port
	traces   *tracing.Provider // nil: nobody collects traces
	keyring  *secrets.Keyring
	keys     *auth.Authenticator
	outbound func() *egress.Client // of every call of the process; made when it is first asked for
	vault    *secrets.Vault
}

// openCore opens the database and waits until it answers. own are listeners of this process whose port the settings do not tell, as host:port.
func openCore(ctx context.Context, settings config.Config, logger *slog.Logger, conns int32, own ...string) (*core, error) {
	keyring, err := keyringOf(settings.Secrets)
	if err != nil {
		return nil, err
	}
	traces, err := openTraces(ctx, settings.Trace, logger)
	if err != nil {
		return nil, err
	}
	db, err := store.Open(ctx, store.Config{
		URL: settings.Database.URL, MaxConns: conns, ApplicationName: product, Slots: settings.Worker.Slots, Tracers: traces.Tracers(),
	})
	if err != nil {
		return nil, errors.Join(err, traces.Close(ctx))
	}
	c := &core{
		settings: settings, logger: logger, registry: telemetry.NewRegistry(), db: db, own: own, traces: traces, keyring: keyring,
		keys: auth.NewAuthenticator(store.NewKeys(db)),
	}
	c.vault = secrets.NewVault(store.NewSecrets(c.db), c.keyring, c.logger)
	c.outbound = sync.OnceValue(c.egress)
	c.allowed = newAllowances(store.NewTenants(db), logger)
	c.registry.MustRegister(telemetry.NewDatabase(store.NewGauges(db), logger))
	if err := c.awaitDatabase(ctx); err != nil {
		c.close(ctx)
		return nil, err
	}
	return c, nil
}

// close ends what the programs share. The end of ctx does not cut it short.
func (c *core) close(ctx context.Context) {
	c.db.Close()
	if err := c.traces.Close(ctx); err != nil {
		c.logger.Warn("the last traces are lost", "error", err)
	}
}

// openTraces returns what makes traces, nil where the settings name no collector.
func openTraces(ctx context.Context, t config.Trace, logger *slog.Logger) (*tracing.Provider, error) {
	return tracing.Open(ctx, tracing.Config{
		On: t.On(), Endpoint: t.URL(), Sampler: t.Sampler, Ratio: t.SamplerArg, Service: t.Service, Version: telemetry.Version(),
	}, logger)
}

// awaitDatabase returns when the database answers and holds our schema.
func (c *core) awaitDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, databasePatience, fmt.Errorf("the database did not answer for %s", databasePatience))
	defer cancel()
	for warned := false; ; warned = true {
		err := c.db.Ping(ctx)
		if err == nil {
			return c.checkSchema(ctx)
		}
		if errs.CodeOf(err) != errs.Unavailable {
			return fmt.Errorf("asking the database whether it is there: %w", err)
		}
		if !warned {
			c.logger.Warn("the database cannot be reached; waiting for it", "error", err)
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
func (c *core) checkSchema(ctx context.Context) error {
	list, err := store.MigrateStatus(ctx, c.settings.Database.DirectURL)
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

// api returns the handler of the REST API.
func (c *core) api(health *telemetry.Health, tester *dispatch.Tester) *httpapi.Server {
	return httpapi.New(httpapi.Config{
		Bulk:       endpoints.NewBulk(store.NewEndpoints(c.db), c.targets()),
		Endpoints:  c.endpoints(),
		Feed:       store.NewFeed(c.db),
		Runs:       store.NewRuns(c.db),
		Stats:      store.NewStats(c.db),
		Secrets:    secrets.NewService(store.NewSecrets(c.db), c.keyring),
		Signing:    signing.NewService(store.NewSecrets(c.db), c.keyring),
		Auth:       c.keys,
		Keys:       auth.NewKeyring(store.NewKeys(c.db), c.keys),
		Audit:      store.NewAuditLog(c.db),
		Notices:    notices.NewService(store.NewNotices(c.db), c.noticePermissions, c.channels()),
		Once:       store.NewIdempotency(c.db),
		Planner:    store.NewPlannerReviews(c.db, c.plannerLimits()),
		Tester:     tester,
		Rate:       c.settings.API.Rate,
		Origins:    c.settings.API.Origins,
		Proxies:    c.settings.API.Proxies,
		Tracers:    c.traces.Tracers(),
		Ready:      readiness(health),
		Logger:     c.logger,
		Registerer: c.registry,
	})
}

// tester returns what tests endpoints. Close it when nobody tests any more.
func (c *core) tester() *dispatch.Tester {
	return dispatch.NewTester(dispatch.TesterConfig{
		Tests: store.NewTests(c.db), Egress: c.outbound(), Allowances: c.allowed, Secrets: c.vault, Logger: c.logger,
	})
}

func (c *core) endpoints() *endpoints.Service {
	return endpoints.NewService(store.NewEndpoints(c.db), c.targets())
}

// admin returns the server of the admin listener, or nil where the settings want none.
func (c *core) admin(ctx context.Context, health *telemetry.Health) (*server, error) {
	if c.settings.Admin.Listen == "" {
		return nil, nil //nolint:nilnil // No admin listener is a choice, not an error.
	}
	l, err := listen(ctx, config.AdminListen, c.settings.Admin.Listen)
	if err != nil {
		return nil, err
	}
	admin := newServer(l, telemetry.Admin(c.registry, health), c.logger)
	admin.http.WriteTimeout = adminWriteTimeout
	return admin, nil
}

// hostname names this machine for people; it decides nothing.
func hostname() string {
	name, _ := os.Hostname()
	return cmp.Or(name, "unknown")
}
