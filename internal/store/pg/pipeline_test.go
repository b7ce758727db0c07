package pg_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"rubato/internal/errs"
	"rubato/internal/store/dbsqlc"
	keystore "rubato/internal/store/keys"
	"rubato/internal/store/pg"
	"rubato/internal/store/storetest"
	"rubato/internal/waittest"
)

func TestAPipelineIsOneTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	insert := func(name string) pg.Statement {
		return func(q dbsqlc.DBTX) error {
			_, err := q.Exec(t.Context(), "INSERT INTO tenants (id, name) VALUES (gen_random_uuid(), $1)", name)
			return err
		}
	}

	err := pg.RunPipeline(t.Context(), b.DB, insert("first"), insert(""), insert("third"))

	require.Equal(t, errs.Invalid, errs.CodeOf(pg.Translate(err)), "the second has no name: %v", err)
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM tenants WHERE name IN ('first', 'third')"))
	require.NoError(t, pg.RunPipeline(t.Context(), b.DB, insert("first"), insert("third")))
	require.Equal(t, 2, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM tenants WHERE name IN ('first', 'third')"))
}

// TestPipelinedStatementSeesEarlierCommits: a statement in a pipeline has a snapshot of its own.
// The first one waits for a lock, and the second sees the commit of the lock's holder. A start
// relies on that when it has waited for a pause.
func TestPipelinedStatementSeesEarlierCommits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tx, err := b.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(7)")
	require.NoError(t, err)

	var name string
	done := make(chan error, 1)
	go func() {
		done <- pg.RunPipeline(t.Context(), b.DB,
			func(q dbsqlc.DBTX) error {
				_, err := q.Exec(t.Context(), "SELECT pg_advisory_xact_lock(7)")
				return err
			},
			func(q dbsqlc.DBTX) error {
				return q.QueryRow(t.Context(), "SELECT name FROM tenants WHERE id = $1", keystore.DefaultTenant).Scan(&name)
			})
	}()
	waittest.Until(t, func() bool {
		return storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 7") == 1
	}, "the pipeline waits for the lock")
	_, err = tx.Exec(t.Context(), "UPDATE tenants SET name = 'renamed'")
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))

	require.NoError(t, <-done)
	require.Equal(t, "renamed", name)
}

func TestPipelineReportsMissingRow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var name string
	err := pg.RunPipeline(t.Context(), b.DB, func(q dbsqlc.DBTX) error {
		return q.QueryRow(t.Context(), "SELECT name FROM tenants WHERE name = 'nobody'").Scan(&name)
	})
	require.ErrorIs(t, err, pgx.ErrNoRows)
}
