package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"rubato/internal/app"
	"rubato/internal/config"
	"rubato/internal/errs"
	"rubato/internal/telemetry"
)

const anyDatabase = "DATABASE_URL=postgres://db/rubato"

func TestDaemonMapsItsEndToAnExitCode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args    []string
		environ []string
		err     error
		code    int
		out     string
	}{
		"Help":            {[]string{"--help"}, nil, nil, app.ExitOK, "RUBATO_HORIZON"},
		"Version":         {[]string{"--version"}, nil, nil, app.ExitOK, telemetry.Version()},
		"UnknownFlag":     {[]string{"--frobnicate"}, nil, nil, app.ExitUsage, "frobnicate"},
		"Argument":        {[]string{"now"}, nil, nil, app.ExitUsage, "daemon takes no arguments"},
		"NoDatabase":      {nil, nil, nil, app.ExitUsage, "DATABASE_URL is not set"},
		"UnknownSetting":  {nil, []string{anyDatabase, "RUBATO_SLOT=1"}, nil, app.ExitUsage, "did you mean RUBATO_SLOTS?"},
		"Stopped":         {nil, []string{anyDatabase}, nil, app.ExitOK, ""},
		"Failed":          {nil, []string{anyDatabase}, errors.New("the sky fell"), app.ExitFailure, "daemon: the sky fell"},
		"NobodyIsHealthy": {[]string{"--health"}, []string{anyDatabase, "RUBATO_ADMIN_LISTEN=127.0.0.1:1"}, nil, app.ExitFailure, "checking readiness"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			d := app.Daemon{Name: "daemon", Doc: "tests", Run: func(context.Context, config.Config, *slog.Logger) error { return tc.err }}
			require.Equal(t, tc.code, d.Main(t.Context(), tc.args, tc.environ, &out))
			require.Contains(t, out.String(), tc.out)
		})
	}
}

func TestDaemonGetsItsSettingsAndItsLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := app.Daemon{Name: "daemon", Run: func(_ context.Context, settings config.Config, logger *slog.Logger) error {
		logger.Info("slots", "n", settings.Worker.Slots)
		return nil
	}}

	d.Main(t.Context(), nil, []string{anyDatabase, "RUBATO_SLOTS=12", "RUBATO_LOG_FORMAT=text"}, &out)

	require.Contains(t, out.String(), "INF slots n=12\n")
}

func TestSignalDuringStartIsNotAFailure(t *testing.T) {
	t.Parallel()
	running, stop := context.WithCancel(t.Context())
	cut := errors.Join(errors.New("pinging"), context.Canceled)

	require.ErrorIs(t, app.Interrupted(running, cut), context.Canceled, "nobody stopped it")
	stop()
	require.NoError(t, app.Interrupted(running, cut))
	require.Error(t, app.Interrupted(running, errors.New("the sky fell")))
}

func TestHealthCheckAsksTheAdminListener(t *testing.T) {
	t.Parallel()
	admin := serveHealth(t, nil)
	address := strings.TrimPrefix(admin, "http://")

	require.NoError(t, app.CheckReady(t.Context(), address))
	_, port, _ := strings.Cut(address, ":")
	require.NoError(t, app.CheckReady(t.Context(), ":"+port), "an address on every interface is asked on the loopback one")
	require.ErrorContains(t, app.CheckReady(t.Context(), "127.0.0.1:0"), "no fixed port")

	sick := serveHealth(t, errors.New("no claim has succeeded for 3s"))
	err := app.CheckReady(t.Context(), strings.TrimPrefix(sick, "http://"))
	require.ErrorContains(t, err, "not ready: claims: no claim has succeeded for 3s, since 20")
	require.Equal(t, http.StatusServiceUnavailable, statusOf(t, sick+"/readyz"))
}

// serveHealth serves an admin listener with one check, and returns its URL.
func serveHealth(t *testing.T, fault error) string {
	t.Helper()
	claims := telemetry.Check{Name: "claims", Ask: func(context.Context) error { return fault }}
	health := telemetry.NewHealth(slog.New(slog.DiscardHandler), claims)
	admin := httptest.NewServer(telemetry.Admin(prometheus.NewRegistry(), health))
	t.Cleanup(admin.Close)
	return admin.URL
}

func TestExitCodeFollowsTheKindOfError(t *testing.T) {
	t.Parallel()
	for code, want := range map[errs.Code]int{
		errs.NotFound: app.ExitNotFound, errs.Invalid: app.ExitUsage, errs.Malformed: app.ExitUsage, errs.Conflict: app.ExitConflict, errs.Precondition: app.ExitConflict,
		errs.Unavailable: app.ExitFailure, errs.Internal: app.ExitFailure,
	} {
		require.Equal(t, want, app.ExitCode(fmt.Errorf("doing it: %w", errs.New(code, "", "no"))), code)
	}
	require.Equal(t, app.ExitFailure, app.ExitCode(errors.New("the sky fell")))
}
