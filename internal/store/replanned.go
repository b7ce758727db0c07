package store

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"rubato/internal/store/dbsqlc"
)

// replanned sends rare statements that are planned each time, even on connections with cached
// plans, because a plan made for an empty table would be slow for a full one.
type replanned struct{ dbsqlc.DBTX }

// The statement is unnamed, so that the server caches no plan; its result description is cached.
const planAnew = pgx.QueryExecModeCacheDescribe

// Exec implements dbsqlc.DBTX.
func (r replanned) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return r.DBTX.Exec(ctx, sql, append([]any{planAnew}, args...)...)
}

// Query implements dbsqlc.DBTX.
func (r replanned) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return r.DBTX.Query(ctx, sql, append([]any{planAnew}, args...)...)
}

// QueryRow implements dbsqlc.DBTX.
func (r replanned) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return r.DBTX.QueryRow(ctx, sql, append([]any{planAnew}, args...)...)
}
