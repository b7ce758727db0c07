package storetest

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/internal/store/dbsqlc"
	"rubato/internal/waittest"
)

// AwaitRowWaits returns once so many transactions of the database wait for the lock of a row.
func (b *Bundle) AwaitRowWaits(t *testing.T, n int) {
	t.Helper()
	waittest.Until(t, func() bool {
		return Query[int](t, b, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event IN ('transactionid', 'tuple')`) == n
	}, "%d should wait for a row", n)
}

// HoldSecrets returns a transaction that holds the lock of a batch of starts with secrets of a
// tenant.
func (b *Bundle) HoldSecrets(t *testing.T, owner [16]byte) pgx.Tx {
	t.Helper()
	tx := b.begin(t)
	require.NoError(t, dbsqlc.New().SecretsAdvisoryLockShared(t.Context(), tx, [][16]byte{owner}))
	return tx
}

// InFlight returns a transaction that holds the rows which a batch of starts of endpoints holds
// until its commit.
func (b *Bundle) InFlight(t *testing.T, ids ...[16]byte) pgx.Tx {
	t.Helper()
	return b.Hold(t, "SELECT FROM schedules WHERE endpoint_id = ANY ($1) FOR UPDATE", ids)
}

// EndRun ends runs in the database without a record, which is the state of an uncommitted finish.
const EndRun = "UPDATE schedules SET run_id = NULL, started_at = NULL, deadline_at = NULL, claim_token = claim_token + 1"
