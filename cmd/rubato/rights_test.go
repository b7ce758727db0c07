package main

import (
	"context"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/internal/waittest"
)

// leastRole returns the URL of a database for a role that has the rights that the manual names, and
// no others.
func leastRole(t *testing.T, owner *pgx.Conn, database string) string {
	t.Helper()
	manual, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(manual), "### Rights\n")
	require.True(t, found)
	_, section, _ = strings.Cut(section, "```sql\n")
	grants, _, _ := strings.Cut(section, "```")
	role := "app_" + owner.Config().Database
	quoted := pgx.Identifier{role}.Sanitize()
	_, err = owner.Exec(t.Context(), "CREATE ROLE "+quoted+" LOGIN")
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.Background()
		_, err := owner.Exec(ctx, "DROP OWNED BY "+quoted+"; DROP ROLE "+quoted)
		require.NoError(t, err)
		require.NoError(t, owner.Close(ctx))
	})
	_, err = owner.Exec(t.Context(), strings.ReplaceAll(grants, "rubato_app", quoted))
	require.NoError(t, err)
	u, err := url.Parse(database)
	require.NoError(t, err)
	query := u.Query()
	query.Set("user", role)
	u.RawQuery, u.User = query.Encode(), nil
	return u.String()
}

// API server, worker and sweeper do all that they do with the rights that the manual names.
func TestTheRightsOfTheManualSuffice(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	owner, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	least := leastRole(t, owner, database)
	ahead := "runs_" + time.Now().UTC().AddDate(0, 0, 2).Format("20060102")
	_, err = owner.Exec(t.Context(), "SELECT history_create_day('2020-01-01'); DROP TABLE "+ahead)
	require.NoError(t, err)
	access := startServer(t, t.TempDir(), least)
	var name string
	require.NoError(t, owner.QueryRow(t.Context(), "SELECT usename FROM pg_stat_activity WHERE application_name LIKE 'rubato%' AND datname = current_database() LIMIT 1").Scan(&name))
	require.Equal(t, "app_"+owner.Config().Database, name)

	s := &session{stdin: strings.NewReader(""), stdout: new(strings.Builder), stderr: new(strings.Builder)}
	code := s.run(t.Context(), []string{
		"endpoints", "create", "--name", "a", "--url", startTarget(t) + "/ok", "--interval", "1s", "--server", access.URL, "--api-key", access.Key,
	})

	require.Zero(t, code, "%s", s.stderr)
	waittest.Until(t, func() bool {
		var done bool
		err := owner.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM runs WHERE status = 'succeeded') AND to_regclass($1) IS NOT NULL AND to_regclass('runs_20200101') IS NULL", ahead).Scan(&done)
		return err == nil && done
	})
}
