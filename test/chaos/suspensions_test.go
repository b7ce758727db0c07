package chaos

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"rubato/client"
)

// acceptingTarget answers every request by 202, and keeps the last callback URL of each path.
type acceptingTarget struct {
	*httptest.Server

	mu        sync.Mutex
	callbacks map[string]string
}

func newAcceptingTarget(t *testing.T) *acceptingTarget {
	t.Helper()
	target := &acceptingTarget{callbacks: map[string]string{}}
	target.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target.mu.Lock()
		target.callbacks[r.URL.Path] = r.Header.Get("Rubato-Callback-Url")
		target.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(target.Close)
	return target
}

// registerAsynchronous registers n endpoints with asynchronous runs, each due at once.
func (s *stack) registerAsynchronous(n int, base string) {
	s.t.Helper()
	group, ctx := errgroup.WithContext(s.t.Context())
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error {
			_, err := answer[client.Endpoint](s.api.CreateEndpoint(ctx, client.EndpointSpec{
				Name:               fmt.Sprintf("export %d", i),
				URL:                fmt.Sprintf("%s/%d", base, i),
				Method:             new(client.MethodPOST),
				Idempotent:         new(true),
				BaselineIntervalMs: new(int64(24 * time.Hour / time.Millisecond)),
				Async:              &client.AsyncInput{TimeoutMs: new(int64(time.Hour / time.Millisecond))},
			}))
			return err
		})
	}
	require.NoError(s.t, group.Wait())
}

// TestSuspendedRunsSurviveEveryWorker suspends many runs with one slot. Workers are killed
// meanwhile and at the end, so that no worker is left. Then each target reports twice: each run
// ends once.
func TestSuspendedRunsSurviveEveryWorker(t *testing.T) {
	t.Parallel()
	n := 60
	if long() {
		n = 10_000
	}
	s, target := newStack(t, nil), newAcceptingTarget(t)
	s.registerAsynchronous(n, target.URL)
	one := map[string]string{"RUBATO_SLOTS": "1", "RUBATO_PUBLIC_URL": strings.TrimSuffix(s.api.Server, "/")}
	for _, until := range []int{n / 4, n / 2, n} {
		worker := s.startWorker(one)
		eventually(t, "the runs to be suspended", func() bool { return s.count("SELECT count(*) FROM suspensions") >= until })
		worker.signal(t, syscall.SIGKILL)
		worker.gone(t)
	}
	require.Equal(t, n, s.count("SELECT count(*) FROM schedules WHERE run_id IS NOT NULL"), "every run waits, without a worker")

	var ended, refused atomic.Int32
	reports, ctx := errgroup.WithContext(t.Context())
	reports.SetLimit(16)
	for _, callback := range target.callbacks {
		for range 2 {
			reports.Go(func() error {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, callback, strings.NewReader(`{"status":"succeeded","body":{"rows":7}}`))
				if err != nil {
					return err
				}
				r.Header.Set("Content-Type", "application/json")
				res, err := http.DefaultClient.Do(r)
				if err != nil {
					return err
				}
				switch res.StatusCode {
				case http.StatusOK:
					ended.Add(1)
				case http.StatusConflict:
					refused.Add(1)
				default:
					return fmt.Errorf("a report was answered by %s", res.Status)
				}
				return res.Body.Close()
			})
		}
	}
	require.NoError(t, reports.Wait())
	require.EqualValues(t, n, ended.Load())
	require.EqualValues(t, n, refused.Load())
	require.Equal(t, n, s.count("SELECT count(*) FROM runs WHERE status = 'succeeded'"))
	require.Zero(t, s.count("SELECT count(*) FROM suspensions"))
}
