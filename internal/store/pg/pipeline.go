package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"rubato/internal/store/dbsqlc"
)

// Statement is a call of one generated query. Its closure stores the result.
type Statement func(tx dbsqlc.DBTX) error

// sender executes a pipeline: a connection, or a transaction on one.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	Conn() *pgx.Conn
}

// PipelineOn runs a pipeline on a pooled connection as one transaction, which commits with its last
// statement. Each statement still has a snapshot of its own.
func PipelineOn(ctx context.Context, pool *pgxpool.Pool, statements ...Statement) error {
	return pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error { return Pipeline(ctx, conn, statements...) })
}

// Pipeline sends independent statements in one round trip. Generated queries do not support
// pipelines, therefore each statement is called twice: first on a recorder that captures its SQL
// and parameters, then on a replayer that reads its result.
func Pipeline(ctx context.Context, to sender, statements ...Statement) error {
	if len(statements) == 0 {
		return nil
	}
	batch, size := &pgx.Batch{}, 0
	for _, s := range statements {
		r := &Recorder{}
		if err := s(r); !errors.Is(err, errRecorded) {
			return fmt.Errorf("recording a statement: %w", err)
		}
		size += wireSize(r.Args)
		query := batch.Queue(r.SQL, r.Args...)
		if r.rows {
			query.Query(func(rows pgx.Rows) error { return s(replayer{rows: rows}) })
		} else {
			query.Exec(func(tag pgconn.CommandTag) error { return s(replayer{tag: tag}) })
		}
	}
	to.Conn().PgConn().Frontend().Send(outboxOf(to.Conn(), size))
	return to.SendBatch(ctx, batch).Close()
}

// errRecorded is the recorder's answer to every statement.
var errRecorded = errors.New("the statement is recorded and not sent")

// Recorder captures one statement.
type Recorder struct {
	SQL  string
	Args []any
	rows bool // the statement returns rows
}

func (r *Recorder) note(sql string, args []any, rows bool) error {
	r.SQL, r.Args, r.rows = sql, args, rows
	return errRecorded
}

// Exec implements dbsqlc.DBTX.
func (r *Recorder) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, r.note(sql, args, false)
}

// Query implements dbsqlc.DBTX.
func (r *Recorder) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	return nil, r.note(sql, args, true)
}

// QueryRow implements dbsqlc.DBTX.
func (r *Recorder) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	return failedRow{r.note(sql, args, true)}
}

type failedRow struct{ err error }

// Scan implements pgx.Row.
func (r failedRow) Scan(...any) error { return r.err }

// replayer answers a statement with the database's result.
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
