package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// cpuTime returns the CPU time that this process has used. On a machine that is shared it says more
// than the time that passed.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// reportCPU reports the CPU time of all iterations.
func reportCPU(b *testing.B, used time.Duration) {
	b.Helper()
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// backends reads the CPU time of what serves a database.
type backends struct{ conn *pgx.Conn }

func backendsOf(b *testing.B, url string) backends {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), url)
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close(context.WithoutCancel(b.Context())) }) // Which has ended by then.
	return backends{conn}
}

// used returns the CPU time that the backends of the database have used so far, but for the one
// that is asked; 0 where the system does not say. It reads nanoseconds: a batch takes less than one
// of the ticks that `go run ./test/bench` goes by.
func (s backends) used(b *testing.B) (total time.Duration) {
	b.Helper()
	rows, err := s.conn.Query(b.Context(), "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	require.NoError(b, err)
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	require.NoError(b, err)
	for _, pid := range pids {
		account, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		if err != nil {
			continue
		}
		running, _, _ := strings.Cut(string(account), " ")
		ns, err := strconv.ParseInt(running, 10, 64)
		require.NoError(b, err)
		total += time.Duration(ns)
	}
	return total
}

// reportBackends reports the CPU time of Postgres of all iterations.
func reportBackends(b *testing.B, used time.Duration) {
	b.Helper()
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "postgres-ns/op")
}
