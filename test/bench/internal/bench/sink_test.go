package bench

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/waittest"
)

// startSink serves a sink until the test ends, and returns its URL.
func startSink(t *testing.T) (*sink, string) {
	t.Helper()
	l, err := net.Listen("tcp", loopback)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	s, served := newSink(), make(chan error, 1)
	go func() { served <- s.serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-served)
	})
	return s, "http://" + l.Addr().String()
}

func TestSinkRecordsRequests(t *testing.T) {
	t.Parallel()
	s, url := startSink(t)
	due := time.Now().Truncate(time.Millisecond)
	send := func(path, run, body string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Rubato-Run-Id", run)
		req.Header.Set("Rubato-Scheduled-For", due.UTC().Format(time.RFC3339Nano))
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.NoError(t, res.Body.Close())
	}
	send(path(groupPlain, 7), "run_a", "a body that must not be taken for a request")
	send(path(groupPlain, 7), "run_a", "")
	send(path(groupOther, 123456), "run_b", "x")

	require.EqualValues(t, 3, s.count.Load())
	came := arrivals(s.take())
	require.Len(t, came, 3)
	require.Zero(t, s.count.Load(), "what was taken is forgotten")
	require.Equal(t, 1, came.duplicates())
	require.Zero(t, came.early())
	require.Len(t, came.of(groupPlain, due, due.Add(time.Millisecond)), 2)
	require.Empty(t, came.of(groupPlain, due.Add(time.Millisecond), due.Add(time.Hour)))
	for _, a := range came {
		require.Equal(t, due.UnixNano(), a.Due)
		require.Equal(t, a, arrivalFrom(a.append(nil)), "an arrival survives its way to the bench")
		if a.Group == groupOther {
			require.EqualValues(t, 123456, a.N)
		}
	}
}

func TestTheSinkHangsWhereItIsAskedTo(t *testing.T) {
	t.Parallel()
	s, url := startSink(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path(groupHang, 1), http.NoBody)
		if err == nil {
			_, err = http.DefaultClient.Do(req)
		}
		ended <- err
	}()
	waittest.Until(t, func() bool { return s.count.Load() == 1 })
	select {
	case err := <-ended:
		require.FailNow(t, "it was answered", "%v", err)
	default:
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestEarlyRequestIsDetected(t *testing.T) {
	t.Parallel()
	list := arrivals{{At: 10, Due: 11}, {At: 11, Due: 11}, {At: 12, Due: 11}}
	require.Equal(t, 1, list.early())
}
