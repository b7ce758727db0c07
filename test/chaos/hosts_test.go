package chaos

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/hosts"
)

// TestKilledProber kills a worker with a probe that decides about an open host. The seat of the
// probe is free once its lock has ended, and the host is called again. At most three requests are
// sent in each window, and the death adds one window at most.
func TestKilledProber(t *testing.T) {
	t.Parallel()
	s := newStack(t, nil)
	s.startWorkers(4)
	name := strings.TrimPrefix(s.target.URL, "http://")
	_, err := answer[client.Host](s.api.PatchHostWithBody(t.Context(), name, "application/json", strings.NewReader(`{"windowMs":4000}`)))
	require.NoError(t, err)
	s.target.fails.Store(true)
	s.register(load{n: 20, path: "1000", every: 2 * time.Second, limit: 5 * time.Second})
	eventually(t, "the host to be open", func() bool { return s.count("SELECT count(*) FROM hosts WHERE state <> 'closed'") == 1 })
	tripped := time.Now().Add(1500 * time.Millisecond) // The requests in flight have arrived, and the window is not over.

	var probers [][16]byte
	eventually(t, "probes to be in flight", func() bool {
		rows, err := s.pool.Query(t.Context(), `SELECT DISTINCT l.worker_id FROM live_runs l, hosts h
			WHERE h.state = 'half_open' AND l.endpoint_id = ANY (h.seat_endpoints)`)
		require.NoError(t, err)
		probers, err = pgx.CollectRows(rows, pgx.RowTo[[16]byte])
		require.NoError(t, err)
		return len(probers) > 0
	})
	windows := s.count("SELECT openings FROM hosts")
	s.target.fails.Store(false)
	for _, w := range s.workers {
		if w.id == probers[0] {
			w.signal(t, syscall.SIGKILL)
			require.True(t, w.killed(t))
		}
	}
	killed := time.Now()
	eventually(t, "the host to be closed", func() bool { return s.count("SELECT count(*) FROM hosts WHERE state = 'closed'") == 1 })
	var closed time.Time
	require.NoError(t, s.pool.QueryRow(t.Context(), "SELECT since FROM hosts").Scan(&closed))
	probes := 0
	for _, r := range s.target.requests() {
		if r.Arrived.After(tripped) && r.Arrived.Before(closed) {
			probes++
		}
	}

	s.conclude(verdict{
		name: "killed prober", fault: "kill -9 of a worker with a probe of an open host", fired: "1 kill", ended: killed,
	})
	require.Positive(t, probes)
	require.LessOrEqual(t, probes, hosts.MaxProbes*(windows+1), "%d windows before the kill", windows)
}
