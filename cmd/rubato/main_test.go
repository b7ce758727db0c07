package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/app"
	"rubato/internal/app/dev"
	"rubato/internal/config"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/store/pg"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"rubato": main})
}

// Each script has an empty environment: no server, no database, no settings.
func TestOffline(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata/offline", RequireExplicitExec: true, RequireUniqueNames: true})
}

// startTarget serves something to call until the test ends: /ok answers 200, /bad 500, /hang when
// the caller has gone.
func startTarget(t *testing.T) (url string) {
	t.Helper()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/bad":
			w.WriteHeader(http.StatusInternalServerError)
		case "/hang":
			<-r.Context().Done()
		}
		_, _ = w.Write([]byte("hello"))
	}))
	t.Cleanup(target.Close)
	return target.URL
}

// The scripts share one server, and a target for their endpoints to call.
func TestAgainstAServer(t *testing.T) {
	t.Parallel()
	target := startTarget(t)
	home := t.TempDir()
	database := newDatabase(t)
	access := startServer(t, home, database)
	t.Run("scripts", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Dir: "testdata/server", RequireExplicitExec: true, RequireUniqueNames: true,
			Setup: func(e *testscript.Env) error {
				e.Setenv("XDG_DATA_HOME", home)
				e.Setenv("SERVER", access.URL)
				e.Setenv("KEY", access.Key)
				e.Setenv("DATABASE", database)
				e.Setenv("TARGET", target)
				return nil
			},
		})
	})
}

func newDatabase(t *testing.T) string {
	t.Helper()
	return devpgtest.NewDatabase(t, devpgtest.Template{
		Key: pg.SchemaKey(),
		Migrate: func(ctx context.Context, url string) error {
			_, err := pg.MigrateUp(ctx, url)
			return err
		},
	})
}

// startServer runs a dev server in this process, as the scripts' own commands find it, until the
// test ends.
func startServer(t *testing.T, home, database string) dev.Credentials {
	t.Helper()
	return startDev(t, home, database, false)
}

// startDev is startServer with or without the demo.
func startDev(t *testing.T, home, database string, demo bool) dev.Credentials {
	t.Helper()
	settings, err := config.Load([]string{"DATABASE_URL=" + database, "RUBATO_LISTEN=127.0.0.1:0"}, dev.Defaults())
	require.NoError(t, err)
	ready := make(chan dev.Credentials, 1)
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		ended <- dev.Server{
			Settings: settings, DataDir: filepath.Join(home, "data"), Demo: demo, Home: dev.FindHome([]string{"XDG_DATA_HOME=" + home}), Logger: slog.New(slog.DiscardHandler),
			Ready: func(c dev.Credentials) { ready <- c },
		}.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	select {
	case access := <-ready:
		return access
	case err := <-ended:
		ended <- err
		require.FailNow(t, "the server ended before it was ready", "%v", err)
		return dev.Credentials{}
	}
}

// Every command that is for people is documented.
func TestDocumentationNamesEveryCommand(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/cli.md")
	require.NoError(t, err)
	parser, err := kong.New(newCLI(), kong.Name("rubato"), kong.Bind(&session{}))
	require.NoError(t, err)
	leaves := parser.Model.Leaves(true)
	require.Len(t, leaves, strings.Count(strings.SplitN(string(page), "```", 3)[1], "\nrubato "), "no more and no less")
	for _, command := range leaves {
		require.Contains(t, string(page), "\nrubato "+command.Path()+" ", "docs/cli.md lacks a command")
	}
	for _, code := range []string{"| 0 |", "| 1 |", "| 2 |", "| 3 |", "| 4 |"} {
		require.Contains(t, string(page), code)
	}
}

// A pasted command line must survive a shell, for any characters in the key.
func TestBannerQuotesForTheShell(t *testing.T) {
	t.Parallel()
	line := curl(dev.Credentials{URL: "http://127.0.0.1:8080", Key: "it's$(rm)\"secret"})
	require.Contains(t, line, `-H 'Authorization: Bearer it'\''s$(rm)"secret'`)
	require.NotContains(t, line, "\n")
}

func TestExitCodeByKindOfFailure(t *testing.T) {
	t.Parallel()
	for status, want := range map[int32]int{
		400: app.ExitUsage, 413: app.ExitUsage, 415: app.ExitUsage, 422: app.ExitUsage, 404: app.ExitNotFound,
		409: app.ExitConflict, 412: app.ExitConflict, 401: app.ExitFailure, 403: app.ExitFailure, 500: app.ExitFailure, 503: app.ExitFailure,
	} {
		require.Equal(t, want, exitCode(&client.Problem{Status: status}), "%d", status)
	}
	require.Equal(t, app.ExitUsage, exitCode(&config.Error{}))
	require.Equal(t, app.ExitUsage, exitCode(usageError{"no"}))
	require.Equal(t, app.ExitFailure, exitCode(errors.New("the sky fell")))
	err := app.AllowTenant(t.Context(), config.Config{}, "default", []string{"300.0.0.0/8"})
	require.Equal(t, app.ExitUsage, exitCode(err), "%v", err)
}
