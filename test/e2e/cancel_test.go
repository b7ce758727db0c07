package e2e

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/store/pg"
)

// A cancel through the API ends a request to a target that would never answer: at once if the
// notification reaches the worker, else at the next poll. The notification is lost by listening on
// another database.
func TestCancelFromTheAPIReachesTheWorker(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"ByMessage": false, "WithMessagesLost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := newSchema(t)
			direct := database
			if lost {
				direct = newSchema(t)
			}
			a := startDaemons(t, "DATABASE_URL="+database, "RUBATO_DATABASE_DIRECT_URL="+direct)
			arrived, gone := make(chan struct{}, 10), make(chan time.Time, 10)
			target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				arrived <- struct{}{}
				<-r.Context().Done()
				gone <- time.Now()
			}))
			t.Cleanup(target.Close)
			e := a.register(t, client.EndpointSpec{Name: "hang", URL: target.URL, BaselineIntervalMs: new(int64(3600_000))})
			receive(t, "the request", arrived)
			running := a.endpoint(t, e.ID).Running
			require.NotNil(t, running)

			asked := time.Now()
			run := read[client.Run](t)(a.CancelRun(t.Context(), running.RunID, client.CancelRequest{Reason: new("wrong dates")}))
			require.NotNil(t, run.CancelRequestedAt)
			took := receive(t, "the end of the request", gone).Sub(asked)
			t.Logf("the request was hung up %s after the cancel", took)

			ended := a.awaitRuns(t, e.ID, 1)[0]
			require.Equal(t, client.RunStatusCanceled, ended.Status)
			require.Equal(t, "canceled by bootstrap: wrong dates", *ended.Error)
			res, err := a.CancelRun(t.Context(), running.RunID, client.CancelRequest{})
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusConflict, res.StatusCode)
			var kinds []client.RunEventKind
			for _, event := range read[client.RunEventList](t)(a.ListRunEvents(t.Context(), running.RunID)).Items {
				kinds = append(kinds, event.Kind)
			}
			require.Equal(t, []client.RunEventKind{"claimed", "started", "cancel_requested", "finished"}, kinds)
			after := a.endpoint(t, e.ID)
			require.Zero(t, after.FailureCount)
			require.NotNil(t, after.NextRunAt)
			anchor := ended.ScheduledFor
			// Without notifications the start may wait for a poll, and the schedule then counts
			// from it.
			if ended.StartedAt.Sub(anchor) > time.Second {
				anchor = *ended.StartedAt
			}
			// Schedules have a resolution of milliseconds.
			require.WithinDuration(t, anchor.Add(time.Hour), *after.NextRunAt, time.Millisecond)
		})
	}
}

func newSchema(t *testing.T) string {
	t.Helper()
	return devpgtest.NewDatabase(t, devpgtest.Template{Key: pg.SchemaKey(), Migrate: migrate})
}

const allowed = "RUBATO_EGRESS_ALLOW=127.0.0.0/8"

// startDaemons starts an API server and a worker and connects to the server when both are ready.
func startDaemons(t *testing.T, env ...string) *api {
	t.Helper()
	home, listen, admin := t.TempDir(), freeAddress(t), freeAddress(t)
	server := append([]string{
		"RUBATO_LISTEN=" + listen, "RUBATO_ADMIN_LISTEN=" + freeAddress(t), "RUBATO_BOOTSTRAP_API_KEY=" + bootstrapKey,
	}, env...)
	start(t, home, append(server, allowed), "api")
	start(t, home, append([]string{"RUBATO_ADMIN_LISTEN=" + admin, allowed}, env...), "scheduler-worker")
	for _, url := range []string{"http://" + listen, "http://" + admin} {
		eventually(t, url+" to be ready", func() bool { return status(url+"/readyz") == http.StatusOK })
	}
	return connect(t, "http://"+listen, bootstrapKey)
}

// receive waits for a value of a channel, within the limit of every wait.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		require.Fail(t, "timeout", "waited in vain for %s", what)
		panic("not reached")
	}
}
