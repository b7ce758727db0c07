package pg_test

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3/lock"
	"github.com/stretchr/testify/require"

	"rubato/internal/devpg/devpgtest"
	"rubato/internal/errs"
	"rubato/internal/store/pg"
	"rubato/internal/waittest"
)

// catalog describes every column, constraint, index, function and partition of a database.
func catalog(t *testing.T, url string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	rows, err := conn.Query(t.Context(), `
		SELECT 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
		WHERE c.relnamespace = 'public'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p')
		UNION ALL SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
		FROM pg_constraint WHERE connamespace = 'public'::regnamespace
		UNION ALL SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'public'
		UNION ALL SELECT 'function ' || pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
		UNION ALL SELECT 'table ' || relname || ' ' || coalesce(reloptions::text, '') || ' ' || coalesce(pg_get_expr(relpartbound, oid), '')
		FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
		ORDER BY 1`)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(lines, "\n")
}

func TestMigrationsGoUpAndDownAndUpAgain(t *testing.T) {
	t.Parallel()
	url := devpgtest.NewDatabase(t, devpgtest.Template{Key: "empty"})
	status, err := pg.MigrateStatus(t.Context(), url)
	require.NoError(t, err)
	require.NotEmpty(t, status)
	for _, m := range status {
		require.Zero(t, m.AppliedAt)
	}
	require.Empty(t, catalog(t, url), "who only looks leaves nothing behind")
	applied, err := pg.MigrateUp(t.Context(), url)
	require.NoError(t, err)
	require.Len(t, applied, len(status))
	first := catalog(t, url)
	require.Contains(t, first, "column schedules.claim_token")
	again, err := pg.MigrateUp(t.Context(), url)
	require.NoError(t, err)
	require.Empty(t, again)

	for range status {
		name, err := pg.MigrateDown(t.Context(), url)
		require.NoError(t, err)
		require.NotEmpty(t, name)
	}
	name, err := pg.MigrateDown(t.Context(), url)
	require.NoError(t, err)
	require.Empty(t, name, "nothing is left to take back")
	for line := range strings.SplitSeq(catalog(t, url), "\n") {
		require.Contains(t, line, "goose_db_version", "all that is left is the list of what is applied")
	}
	_, err = pg.MigrateUp(t.Context(), url)
	require.NoError(t, err)
	require.Equal(t, first, catalog(t, url))
	status, err = pg.MigrateStatus(t.Context(), url)
	require.NoError(t, err)
	for _, m := range status {
		require.NotZero(t, m.AppliedAt)
	}
}

func TestProgramsThatMigrateAtOnceWaitForEachOther(t *testing.T) {
	t.Parallel()
	url := devpgtest.NewDatabase(t, devpgtest.Template{Key: "empty"})
	var all sync.WaitGroup
	applied := make(chan int, 3)
	for range cap(applied) {
		all.Go(func() {
			names, err := pg.MigrateUp(t.Context(), url)
			if err != nil {
				t.Error(err)
			}
			applied <- len(names)
		})
	}
	all.Wait()
	status, err := pg.MigrateStatus(t.Context(), url)
	require.NoError(t, err)
	require.Equal(t, len(status), <-applied+<-applied+<-applied, "each migration is applied once")
}

// TestSchemaStatusDoesNotWaitForMigration has one under way: programs that start meanwhile must not
// stand in line behind it.
func TestSchemaStatusDoesNotWaitForMigration(t *testing.T) {
	t.Parallel()
	url := devpgtest.NewDatabase(t, devpgtest.Template{Key: "empty"})
	_, err := pg.MigrateUp(t.Context(), url)
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	_, err = conn.Exec(t.Context(), "SELECT pg_advisory_lock($1)", lock.DefaultLockID)
	require.NoError(t, err)
	status, err := pg.MigrateStatus(waittest.Context(t), url)
	require.NoError(t, err)
	require.NotZero(t, status[0].AppliedAt)
}

// TestAWaitingMigrationBlocksNoOtherSession: other sessions run on while a migration waits for a
// lock. A backup reads a table that a step down drops, and a writer changes a table that a step up
// refers to. The step down ends with an error that names the lock, and the step up is applied when
// the writer has ended.
func TestAWaitingMigrationBlocksNoOtherSession(t *testing.T) {
	t.Parallel()
	url := devpgtest.NewDatabase(t, devpgtest.Template{Key: "empty"})
	_, err := pg.MigrateUp(t.Context(), url)
	require.NoError(t, err)
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
		return conn
	}
	begin := func(statement string) pgx.Tx {
		tx, err := connect().Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), statement)
		require.NoError(t, err)
		return tx
	}
	other := connect()
	_, err = other.Exec(t.Context(), "SET statement_timeout = '2min'")
	require.NoError(t, err)
	goesOn := func(done <-chan error, statement string) {
		waittest.Until(t, func() bool {
			var waits bool
			err := other.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))").Scan(&waits)
			return err == nil && waits
		})
		require.Empty(t, done)
		_, err := other.Exec(t.Context(), statement)
		require.NoError(t, err)
	}

	const read, write = "SELECT count(*) FROM tenants", "UPDATE tenants SET name = name"
	backup := begin(read)
	done := make(chan error, 1)
	go func() {
		var err error
		for err == nil { // Steps that leave the table alone do not wait for it.
			_, err = pg.MigrateDown(t.Context(), url)
		}
		done <- err
	}()
	goesOn(done, read)
	require.ErrorContains(t, <-done, "keeps a table locked")
	require.NoError(t, backup.Commit(t.Context()))

	_, err = pg.MigrateDown(t.Context(), url)
	require.NoError(t, err)
	writer := begin("LOCK TABLE tenants IN ROW EXCLUSIVE MODE")
	go func() {
		_, err := pg.MigrateUp(t.Context(), url)
		done <- err
	}()
	goesOn(done, write)
	require.NoError(t, writer.Commit(t.Context()))
	require.NoError(t, <-done)
}

// TestReadOnlyRoleSeesAppliedMigrations looks with a role that may make no table, at a database
// that holds none.
func TestReadOnlyRoleSeesAppliedMigrations(t *testing.T) {
	t.Parallel()
	url := devpgtest.NewDatabase(t, devpgtest.Template{Key: "empty"})
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	name := pgx.Identifier{conn.Config().Database}.Sanitize()
	_, err = conn.Exec(t.Context(), "ALTER DATABASE "+name+" SET default_transaction_read_only = on")
	require.NoError(t, err)
	status, err := pg.MigrateStatus(t.Context(), url)
	require.NoError(t, err)
	require.Zero(t, status[0].AppliedAt)
}

// TestUnprivilegedMigrationNamesMissingPrivilege migrates as a role without privileges. The error
// names the missing privilege, without the failed statement.
func TestUnprivilegedMigrationNamesMissingPrivilege(t *testing.T) {
	t.Parallel()
	database := devpgtest.NewDatabase(t, devpgtest.Template{Key: "empty"})
	owner, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	role := "weak_" + owner.Config().Database
	quoted := pgx.Identifier{role}.Sanitize()
	_, err = owner.Exec(t.Context(), "CREATE ROLE "+quoted+" LOGIN")
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := owner.Exec(context.Background(), "DROP OWNED BY "+quoted+"; DROP ROLE "+quoted)
		require.NoError(t, err)
		require.NoError(t, owner.Close(context.Background()))
	})
	weak, err := url.Parse(database)
	require.NoError(t, err)
	query := weak.Query()
	query.Set("user", role)
	weak.RawQuery, weak.User = query.Encode(), nil

	_, err = pg.MigrateUp(t.Context(), weak.String())
	require.Equal(t, errs.Forbidden, errs.CodeOf(err))
	require.ErrorContains(t, err, `the role "`+role+`" lacks a right: permission denied for schema public`)
	_, err = pg.MigrateUp(t.Context(), database)
	require.NoError(t, err)
	_, err = pg.MigrateStatus(t.Context(), weak.String())
	require.ErrorContains(t, err, "lacks a right: permission denied for table goose_db_version")
	_, err = owner.Exec(t.Context(), "GRANT SELECT ON goose_db_version TO "+quoted)
	require.NoError(t, err)
	_, err = pg.MigrateDown(t.Context(), weak.String())
	require.ErrorContains(t, err, `.sql: the role "`+role+`" lacks a right: must be owner of `)
	require.NotContains(t, err.Error(), "SQLSTATE")
}

func TestTheSchemaKeyIsStable(t *testing.T) {
	t.Parallel()
	require.Len(t, pg.SchemaKey(), 16)
	require.Equal(t, pg.SchemaKey(), pg.SchemaKey())
}
