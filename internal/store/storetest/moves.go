package storetest

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// ExecUntriggered runs statements past the triggers of legal moves, as a restore from a backup
// does.
func (b *Bundle) ExecUntriggered(t *testing.T, statements ...string) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), b.Pool, func(tx pgx.Tx) error {
		for _, sql := range append([]string{"SET LOCAL session_replication_role = replica"}, statements...) {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				return err
			}
		}
		return nil
	}))
}
