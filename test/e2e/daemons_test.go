package e2e

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/store/pg"
)

const bootstrapKey = "an-admin-key-of-the-tests"

// The daemons start under the names that scripts rely on, share the work, and stop on a signal.
func TestDaemonsShareADatabase(t *testing.T) {
	t.Parallel()
	tgt, _ := newTarget(t)
	home := t.TempDir()
	database := "DATABASE_URL=" + devpgtest.NewDatabase(t, devpgtest.Template{Key: "empty"})

	early := start(t, home, []string{database, "RUBATO_ADMIN_LISTEN=127.0.0.1:0"}, "scheduler-worker")
	require.Equal(t, 1, early.wait(t, patience))
	require.Contains(t, early.output(), "run `rubato migrate up`")
	prepared := start(t, home, []string{database}, "rubato", "migrate", "up")
	require.Equal(t, 0, prepared.wait(t, patience), prepared.output())
	require.Contains(t, prepared.output(), "applied ")

	listen := freeAddress(t)
	daemons := map[string]*process{}
	admins := map[string]string{"api": freeAddress(t), "worker 1": freeAddress(t), "worker 2": freeAddress(t)}
	daemons["api"] = start(t, home, []string{
		database, "RUBATO_LISTEN=" + listen, "RUBATO_ADMIN_LISTEN=" + admins["api"], "RUBATO_BOOTSTRAP_API_KEY=" + bootstrapKey,
		"RUBATO_EGRESS_ALLOW=127.0.0.0/8",
	}, "api")
	for _, worker := range []string{"worker 1", "worker 2"} {
		daemons[worker] = start(t, home, []string{
			database, "RUBATO_ADMIN_LISTEN=" + admins[worker], "RUBATO_EGRESS_ALLOW=127.0.0.0/8", "RUBATO_SHUTDOWN_GRACE=2s",
		}, "scheduler-worker")
	}
	for name, admin := range admins {
		eventually(t, name+" to be ready", func() bool { return status("http://"+admin+"/readyz") == http.StatusOK })
		require.Equal(t, http.StatusOK, status("http://"+admin+"/metrics"), name)
	}
	healthy := start(t, home, []string{database, "RUBATO_ADMIN_LISTEN=" + admins["worker 1"]}, "scheduler-worker", "--health")
	require.Equal(t, 0, healthy.wait(t, patience), healthy.output())
	require.Equal(t, http.StatusOK, status("http://"+listen+"/readyz"))

	a := connect(t, "http://"+listen, bootstrapKey)
	res, err := a.CreateEndpoint(t.Context(), client.EndpointSpec{Name: "private", URL: "http://10.0.0.1/", BaselineIntervalMs: new(int64(everySecond))})
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode, "private targets are refused unless opened")
	e := a.register(t, client.EndpointSpec{Name: "tick", URL: tgt.URL + "/tick", BaselineIntervalMs: new(int64(everySecond))})
	eventually(t, "three runs", func() bool {
		return len(slices.DeleteFunc(a.finished(t, e.ID), func(r client.Run) bool { return r.Status != client.RunStatusSucceeded })) >= 3
	})
	list := start(t, home, []string{"RUBATO_URL=" + a.URL, "RUBATO_API_KEY=" + bootstrapKey}, "rubato", "endpoints", "get", e.ID)
	require.Equal(t, 0, list.wait(t, patience), list.output())
	require.Contains(t, list.output(), "every 1s")

	for name, p := range daemons {
		p.signal(t, syscall.SIGTERM)
		require.Equal(t, 0, p.wait(t, patience), "%s: %s", name, p.output())
	}
	sick := start(t, home, []string{database, "RUBATO_ADMIN_LISTEN=" + admins["worker 1"]}, "scheduler-worker", "--health")
	require.Equal(t, 1, sick.wait(t, patience))
}

func TestDaemonOnABusyAdminPortNamesTheSetting(t *testing.T) {
	t.Parallel()
	tgt, _ := newTarget(t)
	busy := strings.TrimPrefix(tgt.URL, "http://")
	database := "DATABASE_URL=" + devpgtest.NewDatabase(t, devpgtest.Template{Key: pg.SchemaKey(), Migrate: migrate})

	worker := start(t, t.TempDir(), []string{database, "RUBATO_ADMIN_LISTEN=" + busy}, "scheduler-worker")

	require.Equal(t, 1, worker.wait(t, patience))
	require.Contains(t, worker.output(), "another program listens on "+busy+" already: stop it, or choose another address with RUBATO_ADMIN_LISTEN")
}

func migrate(ctx context.Context, url string) error {
	_, err := pg.MigrateUp(ctx, url)
	return err
}

func status(url string) int {
	res, err := http.Get(url)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}
