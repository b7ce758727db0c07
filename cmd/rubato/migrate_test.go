package main

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/internal/app"
	"rubato/internal/devpg/devpgtest"
)

// TestAFailedMigrationListsItsAppliedSteps blocks a later step with a table of the same name.
func TestAFailedMigrationListsItsAppliedSteps(t *testing.T) {
	t.Parallel()
	database := devpgtest.NewDatabase(t, devpgtest.Template{Key: "empty"})
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(t.Context(), "CREATE TABLE notice_rules (mine text)")
	require.NoError(t, err)
	var out, complaints strings.Builder
	s := &session{stdout: &out, stderr: &complaints, environ: []string{"DATABASE_URL=" + database}}

	require.Equal(t, app.ExitFailure, s.run(t.Context(), []string{"migrate", "up"}))

	require.True(t, strings.HasPrefix(out.String(), "applied 00001_tenants_and_keys.sql\n"), out.String())
	require.NotContains(t, out.String(), "00009_notices.sql")
	require.Contains(t, complaints.String(), "version:9")

	out.Reset()
	require.Equal(t, app.ExitFailure, s.run(t.Context(), []string{"migrate", "up"}))
	require.Empty(t, out.String(), "nothing was applied, and it is no more true that there is nothing to do")
}

// TestAMigrationIsRevertedOnlyWithYes reverts the newest migration of a database of its own.
func TestAMigrationIsRevertedOnlyWithYes(t *testing.T) {
	t.Parallel()
	database := devpgtest.NewDatabase(t, devpgtest.Template{Key: "empty"})
	migrate := func(args ...string) (code int, said string) {
		var out strings.Builder
		s := &session{
			stdin:   strings.NewReader("yes\n"), // No terminal.
			stdout:  &out,
			stderr:  &out,
			environ: []string{"DATABASE_URL=" + database},
		}
		return s.run(t.Context(), append([]string{"migrate"}, args...)), out.String()
	}
	code, said := migrate("up")
	require.Equal(t, app.ExitOK, code, said)

	code, said = migrate("down")

	require.Equal(t, app.ExitUsage, code)
	require.Contains(t, said, "add --yes")
	_, said = migrate("status")
	require.NotContains(t, said, "pending")

	code, said = migrate("down", "--yes")

	require.Equal(t, app.ExitOK, code, said)
	require.Regexp(t, `^undone \d+_`, said)
	_, said = migrate("status")
	require.Equal(t, 1, strings.Count(said, "pending"), said)
}
