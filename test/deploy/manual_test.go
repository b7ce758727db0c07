package deploy

import (
	"context"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/internal/devpg/devpgtest"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/items"
	"rubato/internal/store/pg"
)

var sqlBlock = regexp.MustCompile("(?s)```sql\n(.*?)```")

// TestStatementsOfTheManualWork runs every SQL statement of the operations manual, one by one.
func TestStatementsOfTheManualWork(t *testing.T) {
	t.Parallel()
	url := devpgtest.NewDatabase(t, devpgtest.Template{Key: pg.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := pg.MigrateUp(ctx, url)
		return err
	}})
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	blocks := sqlBlock.FindAllStringSubmatch(string(read(t, "docs/operations.md")), -1)
	require.Greater(t, len(blocks), 5)
	for _, block := range blocks {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "CREATE ROLE rubato_app") // The role to which the manual grants rights.
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), block[1])
		require.NoError(t, err, block[1])
		require.NoError(t, tx.Rollback(t.Context()))
	}
}

// TestTheManualFindsTheSweeper holds the sweeper's lock and finds its holder with the manual's
// query.
func TestTheManualFindsTheSweeper(t *testing.T) {
	t.Parallel()
	url := devpgtest.NewDatabase(t, devpgtest.Template{Key: pg.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := pg.MigrateUp(ctx, url)
		return err
	}})
	db, err := pg.Open(t.Context(), pg.Config{URL: url, ApplicationName: "sweeping"})
	require.NoError(t, err)
	defer db.Close()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	find := regexp.MustCompile("(?s)```sql\n(SELECT a.pid.*?rubato.sweeper.*?)```").FindSubmatch(read(t, "docs/operations.md"))
	require.NotNil(t, find)
	holders := func() int {
		rows, err := conn.Query(t.Context(), string(find[1]))
		require.NoError(t, err)
		list, err := pgx.CollectRows(rows, pgx.RowToMap)
		require.NoError(t, err)
		for _, holder := range list {
			require.Equal(t, "sweeping", holder["application_name"])
		}
		return len(list)
	}
	require.Zero(t, holders())
	alone, err := items.NewSweeps(endpointstore.NewStates(db, 0)).Lead(t.Context(), func(context.Context) error {
		require.Equal(t, 1, holders())
		return nil
	})
	require.NoError(t, err)
	require.True(t, alone)
}
