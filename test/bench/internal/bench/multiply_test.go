package bench

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/internal/devpg/devpgtest"
)

func TestAMillionDueTimesAreShuffledWithoutDuplicates(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), devpgtest.Cluster(t).URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	for name, due := range map[string]string{"overdue": overdue, "faraway": faraway} {
		const n = 1_000_000
		var distinct int
		var past bool
		require.NoError(t, conn.QueryRow(t.Context(),
			"SELECT count(DISTINCT due), max(due) <= now() FROM (SELECT "+due+" AS due FROM generate_series(1, $1::int) n) x", n).Scan(&distinct, &past), name)
		require.Equal(t, n, distinct, name)
		require.Equal(t, name == "overdue", past, name)
	}
}
