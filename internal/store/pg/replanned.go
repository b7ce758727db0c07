package pg

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"rubato/internal/store/dbsqlc"
)

// Replanned sends rare statements that are planned each time, even on connections with cached
// plans, because a plan made for an empty table would be slow for a full one.
type Replanned struct{ dbsqlc.DBTX }

// The statement is unnamed, so that the server caches no plan; its result description is cached.
const planAnew = pgx.QueryExecModeCacheDescribe

// Exec implements dbsqlc.DBTX.
func (r Replanned) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return r.DBTX.Exec(ctx, sql, append([]any{planAnew}, args...)...)
}

// Query implements dbsqlc.DBTX.
func (r Replanned) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return r.DBTX.Query(ctx, sql, append([]any{planAnew}, args...)...)
}

// QueryRow implements dbsqlc.DBTX.
func (r Replanned) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return r.DBTX.QueryRow(ctx, sql, append([]any{planAnew}, args...)...)
}
