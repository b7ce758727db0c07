package store

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"rubato/internal/store/dbsqlc"
)

// replanned sends statements that are planned anew each time, also on connections that keep their plans: for the few whose plan made for
// an empty table would be a bad one for a full one, and that are rare.
type replanned struct{ dbsqlc.DBTX }

// The statement has no name at the server, so no plan of it stays there; what it answers with is described once.
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

// endpointRows reads configurations. An index of names or of tenants serves as well as the key while there are no endpoints.
func (db *DB) endpointRows(ctx context.Context, tx dbsqlc.DBTX, ids [][16]byte) ([]*dbsqlc.Endpoint, error) {
	return db.q.EndpointGetMany(ctx, replanned{tx}, ids)
}
