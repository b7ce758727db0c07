package store

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"rubato/internal/store/dbsqlc"
)

// SetNow makes every statement that depends on time take at for the database's time. The zero instant gives the database its own
// clock back. It must not be called while statements run.
func (db *DB) SetNow(at time.Time) {
	db.now = func() *time.Time { return optional(at) }
}

// Translate is translate.
func Translate(err error) error { return translate(err) }

// Statement is statement.
type Statement = statement

// Pipeline is pipeline through the pool.
func (db *DB) Pipeline(ctx context.Context, statements ...Statement) error {
	return pipeline(ctx, db.hot, statements...)
}

// Explain returns the plan that a statement gets on the connections of the hot path.
func (db *DB) Explain(ctx context.Context, s Statement) (string, error) {
	return explain(ctx, db.hot, s)
}

// ExplainPlainly returns the plan that a statement gets on the others.
func (db *DB) ExplainPlainly(ctx context.Context, s Statement) (string, error) {
	return explain(ctx, db.pool, s)
}

func explain(ctx context.Context, pool *pgxpool.Pool, s Statement) (string, error) {
	r := &recorder{}
	if err := s(r); !errors.Is(err, errRecorded) {
		return "", err
	}
	rows, err := pool.Query(ctx, "EXPLAIN "+r.sql, r.args...)
	if err != nil {
		return "", err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return strings.Join(lines, "\n"), err
}

// SetStandstill sets how long a sweeper may stand still.
func (s *Sweeps) SetStandstill(d time.Duration) { s.standstill = d }

// Asked is SQL with its arguments.
type Asked struct {
	SQL  string
	Args []any
}

// ListStatement returns what a list of endpoints asks the database.
func ListStatement(p dbsqlc.EndpointListParams) Asked {
	var c capture
	e := NewEndpoints(&DB{q: dbsqlc.New()})
	_, _ = e.rows(context.Background(), &c, p)
	return c.Asked
}

// RunsStatement returns what a list of runs asks the database.
func RunsStatement(p dbsqlc.RunListParams) Asked {
	var c capture
	_, _ = dbsqlc.New().RunList(context.Background(), &c, p)
	return c.Asked
}

// NewsStatement returns what a look at the feed asks the database first.
func NewsStatement(p dbsqlc.RunNewsListParams) Asked {
	var c capture
	_, _ = dbsqlc.New().RunNewsList(context.Background(), &c, p)
	return c.Asked
}

// FindStatement returns what a look at the feed asks the database about the runs that it found.
func FindStatement(p dbsqlc.RunFindParams) Asked {
	var c capture
	_, _ = dbsqlc.New().RunFind(context.Background(), &c, p)
	return c.Asked
}

// capture keeps a statement instead of running it.
type capture struct{ Asked }

var errCaptured = errors.New("captured")

func (c *capture) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, errCaptured
}

func (c *capture) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	c.Asked = Asked{SQL: sql, Args: args}
	return nil, errCaptured
}

func (c *capture) QueryRow(context.Context, string, ...any) pgx.Row { return nil }
