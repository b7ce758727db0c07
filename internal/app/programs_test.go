package app_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/app"
	"rubato/internal/app/apiserver"
	"rubato/internal/app/dev"
	"rubato/internal/config"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/errs"
	"rubato/internal/store/pg"
	"rubato/internal/telemetry"
	"rubato/internal/waittest"
)

// settings returns those of a program with port 0 everywhere.
func settings(t *testing.T, database string, more ...string) config.Config {
	t.Helper()
	environ := append([]string{"DATABASE_URL=" + database, "RUBATO_LISTEN=127.0.0.1:0", "RUBATO_ADMIN_LISTEN=127.0.0.1:0", "RUBATO_SHUTDOWN_GRACE=1s"}, more...)
	cfg, err := config.Load(environ, config.Program{})
	require.NoError(t, err)
	return cfg
}

func migrated(t *testing.T) string {
	t.Helper()
	return devpgtest.NewDatabase(t, devpgtest.Template{Key: pg.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := pg.MigrateUp(ctx, url)
		return err
	}})
}

// background runs a program until the test ends, and requires that it ends without an error. It
// returns the value that the program passes to started.
func background[T any](t *testing.T, run func(ctx context.Context, started func(T)) error) T {
	t.Helper()
	news, ended := make(chan T, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() { ended <- run(ctx, func(v T) { news <- v }) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, app.Interrupted(ctx, <-ended))
	})
	select {
	case v := <-news:
		return v
	case err := <-ended:
		ended <- nil
		require.FailNow(t, "the program ended before it started", "%v", err)
		panic("not reached")
	}
}

func TestAPIServesOnBothListeners(t *testing.T) {
	t.Parallel()
	cfg := settings(t, migrated(t), "RUBATO_BOOTSTRAP_API_KEY=first-key")
	api := func(ctx context.Context, started func(app.Addresses)) error {
		return apiserver.API{Settings: cfg, Logger: slog.New(slog.DiscardHandler), Started: started}.Run(ctx)
	}
	a := background(t, api)
	b := background(t, api) // Two on one database, both making sure of the key.
	require.NotEqual(t, a, b)

	for _, url := range []string{a.API, a.Admin} {
		require.Equal(t, http.StatusOK, statusOf(t, url+"/readyz"), url)
		require.Equal(t, http.StatusOK, statusOf(t, url+"/healthz"), url)
	}
	require.Equal(t, http.StatusOK, statusOf(t, a.Admin+"/metrics"))
	require.Equal(t, http.StatusNotFound, statusOf(t, a.API+"/metrics"), "metrics are not public")
	require.Equal(t, http.StatusOK, statusOf(t, a.API+"/docs"))
	require.Equal(t, http.StatusOK, statusOf(t, a.API+"/openapi.yaml"), "which the page reads")
	require.Equal(t, http.StatusUnauthorized, statusOf(t, a.API+"/v1/endpoints"))
	require.Equal(t, http.StatusNotFound, statusOf(t, a.API+"/debug/pprof/"), "profiles are not public")
	require.Equal(t, http.StatusOK, statusOf(t, a.Admin+"/debug/pprof/"))
	for _, url := range []string{a.API, b.API} {
		require.Equal(t, http.StatusOK, statusWith(t, url+"/v1/endpoints", "first-key"))
	}
}

func TestMetricsArePublicWhereTheSettingsSaySo(t *testing.T) {
	t.Parallel()
	cfg := settings(t, migrated(t), "RUBATO_PUBLIC_METRICS=true")
	at := background(t, func(ctx context.Context, started func(app.Addresses)) error {
		return apiserver.API{Settings: cfg, Logger: slog.New(slog.DiscardHandler), Started: started}.Run(ctx)
	})
	require.Contains(t, bodyOf(t, at.API+"/metrics"), "rubato_http_requests_total")
	require.Equal(t, http.StatusNotFound, statusOf(t, at.API+"/debug/pprof/"), "profiles never are")
}

func TestWorkerServesHealthAndMetrics(t *testing.T) {
	t.Parallel()
	cfg := settings(t, migrated(t))

	at := background(t, func(ctx context.Context, started func(app.Addresses)) error {
		return app.Worker{Settings: cfg, Logger: slog.New(slog.DiscardHandler), Started: started}.Run(ctx)
	})

	require.Empty(t, at.API)
	waittest.Until(t, func() bool { return statusOf(t, at.Admin+"/readyz") == http.StatusOK }, "it is ready once the database has answered a claim")
	for _, name := range []string{"rubato_claims_claimed_total", "rubato_dispatch_slots", "rubato_zombie_leader", "rubato_build_info"} {
		require.Contains(t, bodyOf(t, at.Admin+"/metrics"), "\n"+name, "the metric is there from the start")
	}
}

func TestDevIsReadyOnADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	home := dev.FindHome([]string{"HOME=" + t.TempDir()})
	data, cfg := devpgtest.Dir(t), settings(t, "")
	serve := func(ctx context.Context, ready func(dev.Credentials)) error {
		return dev.Server{
			Settings: cfg, DataDir: data, Home: home, Logger: slog.New(slog.DiscardHandler), Ready: ready,
		}.Run(ctx)
	}
	var first dev.Credentials
	t.Run("first", func(t *testing.T) {
		first = background(t, serve)
		require.Equal(t, http.StatusOK, statusWith(t, first.URL+"/v1/endpoints", first.Key))
		found, err := home.FindServer()
		require.NoError(t, err)
		require.Equal(t, dev.Credentials{URL: first.URL, Key: first.Key}, found, "the link to the console is for who started it")
	})
	_, err := home.FindServer()
	require.ErrorIs(t, err, dev.ErrNoServer, "the note goes with the server")

	second := background(t, serve)
	require.Equal(t, first.Key, second.Key)
}

// A home that cannot be written costs the convenience, not the server.
func TestDevRunsWithoutAHome(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	cfg := settings(t, migrated(t), "RUBATO_API_KEY=chosen-key")
	data := t.TempDir()
	ready := background(t, func(ctx context.Context, ready func(dev.Credentials)) error {
		return dev.Server{
			Settings: cfg, DataDir: data, Home: dev.FindHome([]string{"XDG_DATA_HOME=/dev/null/home"}),
			Logger: slog.New(slog.NewTextHandler(&log, nil)), Ready: ready,
		}.Run(ctx)
	})
	require.Equal(t, "chosen-key", ready.Key)
	require.Contains(t, log.String(), "will not find this server by itself")
}

func TestDatabaseWithoutASchemaIsRefusedWithAHint(t *testing.T) {
	t.Parallel()
	cfg := settings(t, devpgtest.NewDatabase(t, devpgtest.Template{Key: "empty"}))
	logger := slog.New(slog.DiscardHandler)

	require.ErrorContains(t, apiserver.API{Settings: cfg, Logger: logger}.Run(t.Context()), "run `rubato migrate up`")
	require.ErrorContains(t, app.Worker{Settings: cfg, Logger: logger}.Run(t.Context()), "run `rubato migrate up`")
}

func TestProgramWaitsForAnUnreachableDatabase(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	warned := make(chan struct{})
	logger := slog.New(slog.NewTextHandler(signalling{to: &log, once: sync.OnceFunc(func() { close(warned) })}, nil))
	cfg := settings(t, "postgres://nobody:hunter2@127.0.0.1:1/none")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- app.Worker{Settings: cfg, Logger: logger}.Run(ctx) }()

	<-warned
	stop()

	require.NoError(t, app.Interrupted(ctx, <-ended), "whoever stops it while it waits has not broken it")
	require.Contains(t, log.String(), "waiting for it")
	require.NotContains(t, log.String(), "hunter2")
}

func TestBusyListenersAreReportedBeforeTheDatabaseIsOpened(t *testing.T) {
	t.Parallel()
	taken, err := app.Listen(t.Context(), "test", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	cfg := settings(t, "postgres://127.0.0.1:1/none", "RUBATO_LISTEN="+taken.Addr().String())
	logger := slog.New(slog.DiscardHandler)

	err = apiserver.API{Settings: cfg, Logger: logger}.Run(t.Context())
	require.ErrorContains(t, err, "choose another address with RUBATO_LISTEN")
	err = dev.Server{Settings: cfg, DataDir: t.TempDir(), Logger: logger}.Run(t.Context())
	require.ErrorContains(t, err, "choose another address with --listen")
}

func TestMigrationsGoUpAndDown(t *testing.T) {
	t.Parallel()
	cfg := settings(t, devpgtest.NewDatabase(t, devpgtest.Template{Key: "empty"}))

	applied, err := app.MigrateUp(t.Context(), cfg)
	require.NoError(t, err)
	require.NotEmpty(t, applied)
	list, err := app.MigrateStatus(t.Context(), cfg)
	require.NoError(t, err)
	require.Len(t, list, len(applied))
	require.False(t, list[0].AppliedAt.IsZero())
	for range applied {
		undone, err := app.MigrateDown(t.Context(), cfg)
		require.NoError(t, err)
		require.NotEmpty(t, undone)
	}
	undone, err := app.MigrateDown(t.Context(), cfg)
	require.NoError(t, err)
	require.Empty(t, undone, "there is nothing left to take back")
	list, err = app.MigrateStatus(t.Context(), cfg)
	require.NoError(t, err)
	require.True(t, list[0].AppliedAt.IsZero())
}

func TestAdminServerOutlivesThePartsOfAProgram(t *testing.T) {
	t.Parallel()
	broken := errors.New("the work is broken")
	c, err := app.OpenCore(t.Context(), settings(t, migrated(t)), slog.New(slog.DiscardHandler), 1)
	require.NoError(t, err)
	defer c.Close(t.Context())
	ctx, stop := context.WithCancel(t.Context())
	var admin string
	fails := func(ctx context.Context) error {
		stop()
		<-ctx.Done()
		require.Equal(t, http.StatusOK, statusOf(t, admin+"/healthz"), "it still answers while the work drains") //nolint:contextcheck // The work's own context has ended.
		return broken
	}

	err = c.Run(ctx, func(at app.Addresses) { admin = at.Admin }, app.Part{Run: fails})

	require.ErrorIs(t, err, broken)
	_, err = new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(admin, "http://"))
	require.Error(t, err, "nobody listens any more")
}

// TestProgramIsReadyWhenAllItsPartsAreReady: a check that several parts share runs once and is
// reported once.
func TestProgramIsReadyWhenAllItsPartsAreReady(t *testing.T) {
	t.Parallel()
	c, err := app.OpenCore(t.Context(), settings(t, migrated(t)), slog.New(slog.DiscardHandler), 1)
	require.NoError(t, err)
	defer c.Close(t.Context())
	check := func(name string, err error) telemetry.Check {
		return telemetry.Check{Name: name, Ask: func(context.Context) error { return err }, Means: name + " fails"}
	}
	rests := func(context.Context) error { return nil }
	looks := func(ctx context.Context) error {
		told, known := errors.AsType[*errs.Error](c.Ready(ctx))
		require.True(t, known)
		require.Len(t, told.Fields, 1)
		require.Equal(t, "second", told.Fields[0].Field)
		return nil
	}

	require.NoError(t, c.Run(t.Context(), nil,
		app.Part{Checks: []telemetry.Check{check("first", nil), check("second", errors.New("no"))}, Run: rests},
		app.Part{Checks: []telemetry.Check{check("second", errors.New("no")), check("first", nil)}, Run: looks}))
}

func statusWith(t *testing.T, url, key string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}

// get returns the answer of a URL, over a new connection.
func get(t *testing.T, url string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(body)
}

func bodyOf(t *testing.T, url string) string {
	t.Helper()
	_, text := get(t, url)
	return text
}

func statusOf(t *testing.T, url string) int {
	t.Helper()
	status, _ := get(t, url)
	return status
}

// lockedBuffer is a buffer that loggers of several goroutines may write to.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// signalling is a writer that signals each write.
type signalling struct {
	to   *lockedBuffer
	once func()
}

func (s signalling) Write(p []byte) (int, error) {
	defer s.once()
	return s.to.Write(p)
}
