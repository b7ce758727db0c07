package storetest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// Hold executes sql in a transaction of another session and leaves the transaction open. It is
// rolled back at the end of the test unless the caller ends it before.
func (b *Bundle) Hold(t *testing.T, sql string, args ...any) pgx.Tx {
	t.Helper()
	tx := b.begin(t)
	_, err := tx.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
	return tx
}

// begin begins a transaction that is rolled back at the end of the test.
func (b *Bundle) begin(t *testing.T) pgx.Tx {
	t.Helper()
	tx, err := b.Pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}
