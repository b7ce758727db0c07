package chaos

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// freeAddress returns an address without a listener, below the ports that the system gives to
// connections.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		at := fmt.Sprintf("127.0.0.1:%d", 15_000+rand.IntN(15_000))
		if l, err := net.Listen("tcp", at); err == nil {
			require.NoError(t, l.Close())
			return at
		}
	}
}

// get sends a request to the admin listener of a worker. The status is 0 if it does not answer.
func (w *worker) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.admin+path, nil)
	require.NoError(t, err)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, strings.TrimSpace(string(text))
}

// ready reports whether the readiness check of a worker passes.
func (w *worker) ready(t *testing.T) bool {
	t.Helper()
	status, _ := w.get(t, "/readyz")
	return status == http.StatusOK
}

// metric returns the value of a series, named with its labels as in the exposition.
func (w *worker) metric(t *testing.T, series string) float64 {
	t.Helper()
	status, text := w.get(t, "/metrics")
	require.Equal(t, http.StatusOK, status, text)
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if name, value, found := strings.Cut(lines.Text(), " "); found && name == series {
			number, err := strconv.ParseFloat(value, 64)
			require.NoError(t, err)
			return number
		}
	}
	require.Fail(t, "no such series", "%s", series)
	return 0
}

// awaitReady waits until every worker is ready, or none is.
func (s *stack) awaitReady(ready bool) {
	s.t.Helper()
	for _, w := range s.workers {
		eventually(s.t, fmt.Sprintf("a worker to say that it is ready: %v", ready), func() bool { return w.ready(s.t) == ready })
	}
}

// requireAlive fails if a worker has ended or does not answer.
func (s *stack) requireAlive() {
	s.t.Helper()
	for _, w := range s.workers {
		status, text := w.get(s.t, "/healthz")
		require.Equal(s.t, http.StatusOK, status, text)
	}
}
