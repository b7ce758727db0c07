package pg

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// TestManualStatesConnectionsOfWorker keeps the sizing in docs/operations.md true, because
// operators set max_connections by it.
func TestManualStatesConnectionsOfWorker(t *testing.T) {
	t.Parallel()
	db, err := Open(t.Context(), Config{URL: "postgres://nobody@127.0.0.1:1/nothing", MaxConns: 10})
	require.NoError(t, err)
	defer db.Close()
	held := int32(1) // The listener's.
	for _, pool := range []*pgxpool.Pool{db.Pool, db.Hot, db.Vital, db.Sweeps} {
		held += pool.Config().MaxConns
	}
	manual, err := os.ReadFile("../../../docs/operations.md")
	require.NoError(t, err)
	sizing := fmt.Sprintf("A worker holds up to %d connections (10 for lookups, %d for runs, %d for heartbeats, %d for the sweeper, 1 for notifications)",
		held, db.Hot.Config().MaxConns, db.Vital.Config().MaxConns, db.Sweeps.Config().MaxConns)
	require.True(t, strings.Contains(strings.Join(strings.Fields(string(manual)), " "), sizing), "docs/operations.md lacks the sentence: %s", sizing)
}
