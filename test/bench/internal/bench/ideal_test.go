package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"rubato/internal/devpg/devpgtest"
	"rubato/internal/waittest"
)

func TestTheIdealPipelineDoesTheWork(t *testing.T) {
	t.Parallel()
	s, url := startSink(t)
	cluster := devpgtest.Cluster(t)
	pool, err := pgxpool.New(t.Context(), cluster.URL())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	w := workload{Jobs: 1200, Due: time.Now().Add(time.Second).Truncate(time.Millisecond), Span: 300 * time.Millisecond}
	work := task{workload: w, Database: cluster.URL(), Target: url + "/p/", Callers: 8}
	require.NoError(t, fillIdeal(t.Context(), &database{name: "test", pool: pool}, work))
	text, err := json.Marshal(work)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	ended, told := make(chan error, 1), make(chan processMessage, 1)
	go func() {
		ended <- idealFrom(ctx, text, func(n processMessage) error { told <- n; return nil })
	}()
	waittest.Until(t, func() bool {
		var n int
		err := pool.QueryRow(t.Context(), "SELECT count(*) FROM ideal_runs WHERE status_code = 200").Scan(&n)
		return err == nil && n == w.Jobs
	})
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Len(t, told, 1)

	came := arrivals(s.take()).of(groupPlain, w.Due, w.end())
	require.Len(t, came, w.Jobs)
	require.Zero(t, came.duplicates())
	require.Zero(t, came.early())
	var waiting int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM ideal_jobs WHERE due_at < now() + interval '1 day'").Scan(&waiting))
	require.Zero(t, waiting, "every job has its next due time")
}

// A caller ends when its recorders have ended. Otherwise the process would never exit.
func TestUnrecordedCallerEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newCaller(1)
		client.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = http.ReadRequest(bufio.NewReader(theirs))
				_, _ = io.WriteString(theirs, "HTTP/1.1 204 No Content\r\n\r\n")
				_ = theirs.Close()
			}()
			return ours, nil
		}
		p := &pipeline{client: client, ready: make(chan job, 1), results: make(chan outcome)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.callLoop(ctx) }()
		p.ready <- job{url: "http://sink.example/p/0"}
		synctest.Wait() // It has called, and no recorder takes the result.

		cancel()

		require.ErrorIs(t, <-ended, context.Canceled)
		client.close()
	})
}
