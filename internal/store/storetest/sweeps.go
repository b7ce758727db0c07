package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch"
	"rubato/internal/runs"
	"rubato/internal/zombie"
)

// Beat records a heartbeat of a worker at an instant. The database stamps heartbeats with its own
// clock, so the stamp is moved afterwards.
func (b *Bundle) Beat(t *testing.T, by Worker, state dispatch.State, at time.Time) {
	t.Helper()
	_, err := b.Executions.Beat(t.Context(), dispatch.Presence{
		ID:      by,
		Name:    "host",
		Version: "v1",
		State:   state,
		Slots:   4,
		Busy:    1,
	})
	require.NoError(t, err)
	b.Exec(t, "UPDATE workers SET heartbeat_at = $2 WHERE id = $1", [16]byte(by), at)
}

// Run reads a run of the default tenant.
func (b *Bundle) Run(t *testing.T, id runs.ID) runs.Run {
	t.Helper()
	run, err := b.Runs.Get(t.Context(), Tenant.TenantID, id)
	require.NoError(t, err)
	return run
}

// SettleLost settles the lost runs under SilenceDistrusted, and requires that there are want of
// them.
func (b *Bundle) SettleLost(t *testing.T, want int) {
	t.Helper()
	list := b.ListLost(t, SilenceDistrusted)
	require.Len(t, list, want)
	for _, run := range list {
		settled, err := b.Sweeps.Settle(t.Context(), SilenceDistrusted, run)
		require.NoError(t, err)
		require.True(t, settled)
	}
}

// ListLost lists lost runs with the outcome that the sweeper gives them.
func (b *Bundle) ListLost(t *testing.T, signal zombie.Signal) []runs.Run {
	t.Helper()
	var list []runs.Run
	for _, byDeadline := range []bool{true, false} {
		found, err := b.Sweeps.ListLost(t.Context(), zombie.Search{
			Signal:     signal,
			ByDeadline: byDeadline,
			Limit:      100,
		})
		require.NoError(t, err)
		for _, l := range found {
			require.Equal(t, byDeadline, l.Reason == zombie.Deadline)
			l.Run.Outcome = runs.Outcome{
				Status:    runs.Lost,
				Reason:    runs.WorkerLost,
				MaybeSent: true,
				Error:     "lost",
			}
			list = append(list, l.Run)
		}
	}
	return list
}

// SilenceDistrusted is the signal of a sweeper that has observed the workers for too short a time
// to settle a run because of silence alone.
var SilenceDistrusted = zombie.Signal{StaleAfter: 90 * time.Second}
