package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch"
	"rubato/internal/runs"
	"rubato/internal/zombie"
)

// Beat tells of a worker; the database stamps it with its own clock, so at moves the stamp.
func (b *Bundle) Beat(t *testing.T, by Worker, state dispatch.State, at time.Time) {
	t.Helper()
	err := b.Executions.Beat(t.Context(), dispatch.Presence{
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

// SettleAll settles what is lost without belief in silence; there must be so many.
func (b *Bundle) SettleAll(t *testing.T, want int) {
	t.Helper()
	list := b.Lost(t, Doubting)
	require.Len(t, list, want)
	for _, run := range list {
		settled, err := b.Sweeps.Settle(t.Context(), Doubting, run)
		require.NoError(t, err)
		require.True(t, settled)
	}
}

// Lost lists lost runs, marked as the sweeper marks them.
func (b *Bundle) Lost(t *testing.T, signal zombie.Signal) []runs.Run {
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

// Doubting is what a sweeper goes by that has not watched for long.
var Doubting = zombie.Signal{StaleAfter: 90 * time.Second}
