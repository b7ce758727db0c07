package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/dispatch"
	"rubato/internal/runs"
	"rubato/internal/zombie"
)

// beat tells of a worker; the database stamps it with its own clock, so at moves the stamp.
func (b *bundle) beat(t *testing.T, by worker, state dispatch.State, at time.Time) {
	t.Helper()
	err := b.executions.Beat(t.Context(), dispatch.Presence{ID: by, Name: "host", Version: "v1", State: state, Slots: 4, Busy: 1})
	require.NoError(t, err)
	b.exec(t, "UPDATE workers SET heartbeat_at = $2 WHERE id = $1", [16]byte(by), at)
}

// run reads a run of the default tenant.
func (b *bundle) run(t *testing.T, id runs.ID) runs.Run {
	t.Helper()
	run, err := b.runs.Get(t.Context(), tenant.TenantID, id)
	require.NoError(t, err)
	return run
}

// settleAll settles what is lost without belief in silence; there must be so many.
func (b *bundle) settleAll(t *testing.T, want int) {
	t.Helper()
	list := b.lost(t, doubting)
	require.Len(t, list, want)
	for _, run := range list {
		settled, err := b.sweeps.Settle(t.Context(), doubting, run)
		require.NoError(t, err)
		require.True(t, settled)
	}
}

// lost lists lost runs, marked as the sweeper marks them.
func (b *bundle) lost(t *testing.T, signal zombie.Signal) []runs.Run {
	t.Helper()
	var list []runs.Run
	for _, byDeadline := range []bool{true, false} {
		found, err := b.sweeps.ListLost(t.Context(), zombie.Search{Signal: signal, ByDeadline: byDeadline, Limit: 100})
		require.NoError(t, err)
		for _, l := range found {
			require.Equal(t, byDeadline, l.Reason == zombie.Deadline)
			l.Run.Outcome = runs.Outcome{Status: runs.Lost, Reason: runs.WorkerLost, MaybeSent: true, Error: "lost"}
			list = append(list, l.Run)
		}
	}
	return list
}

// doubting is what a sweeper goes by that has not watched for long.
var doubting = zombie.Signal{StaleAfter: 90 * time.Second}
