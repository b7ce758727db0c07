package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"rubato/internal/store/dbsqlc"
)

// statement is a call of one generated query. It writes its answer where its closure says.
type statement func(tx dbsqlc.DBTX) error

// sender is what takes a pipeline: a connection, or a transaction on one.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	Conn() *pgx.Conn
}

// pipelineOn is pipeline on a connection of a pool: its statements are one transaction of their own, which commits with the last of them.
// Each still sees what was committed before itself began.
func pipelineOn(ctx context.Context, pool *pgxpool.Pool, statements ...statement) error {
	return pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error { return pipeline(ctx, conn, statements...) })
}

// pipeline sends statements that need nothing of each other's answers in one round trip.
//
// The generated queries know no pipelines. So each statement is called twice: once to record what it would send, and once more to read
// what came back.
func pipeline(ctx context.Context, to sender, statements ...statement) error {
	if len(statements) == 0 {
		return nil
	}
	batch, size := &pgx.Batch{}, 0
	for _, s := range statements {
		r := &recorder{}
		if err := s(r); !errors.Is(err, errRecorded) {
			return fmt.Errorf("recording a statement: %w", err)
		}
		size += wireSize(r.args)
		query := batch.Queue(r.sql, r.args...)
		if r.rows {
			query.Query(func(rows pgx.Rows) error { return s(replayer{rows: rows}) })
		} else {
			query.Exec(func(tag pgconn.CommandTag) error { return s(replayer{tag: tag}) })
		}
	}
	to.Conn().PgConn().Frontend().Send(outboxOf(to.Conn(), size))
	return to.SendBatch(ctx, batch).Close()
}

// errRecorded is what a recorder answers in the place of a database.
var errRecorded = errors.New("the statement is recorded and not sent")

// recorder notes the statement that it is given.
type recorder struct {
	sql  string
	args []any
	rows bool // the statement answers with rows
}

func (r *recorder) note(sql string, args []any, rows bool) error {
	r.sql, r.args, r.rows = sql, args, rows
	return errRecorded
}

// Exec implements dbsqlc.DBTX.
func (r *recorder) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, r.note(sql, args, false)
}

// Query implements dbsqlc.DBTX.
func (r *recorder) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	return nil, r.note(sql, args, true)
}

// QueryRow implements dbsqlc.DBTX.
func (r *recorder) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	return failedRow{r.note(sql, args, true)}
}

type failedRow struct{ err error }

// Scan implements pgx.Row.
func (r failedRow) Scan(...any) error { return r.err }

// replayer answers a statement with what the database has sent for it.
type replayer struct {
	rows pgx.Rows
	tag  pgconn.CommandTag
}

// Exec implements dbsqlc.DBTX.
func (r replayer) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) { return r.tag, nil }

// Query implements dbsqlc.DBTX.
func (r replayer) Query(context.Context, string, ...any) (pgx.Rows, error) { return r.rows, nil }

// QueryRow implements dbsqlc.DBTX.
func (r replayer) QueryRow(context.Context, string, ...any) pgx.Row { return r }

// Scan implements pgx.Row.
func (r replayer) Scan(into ...any) error {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	return r.rows.Scan(into...)
}
