package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"rubato/internal/store/dbsqlc"
)

// SetNow makes every statement that depends on time take at for the database's time. The zero instant gives the database its own
// clock back. It must not be called while statements run.
func (db *DB) SetNow(at time.Time) {
	db.now = func() *time.Time { return optional(at) }
}

// Translate is translate.
func Translate(err error) error { return translate(err) }

// Statement is SQL with its arguments.
type Statement struct {
	SQL  string
	Args []any
}

// ListStatement returns what a list of endpoints asks the database.
func ListStatement(p dbsqlc.EndpointListParams) Statement {
	var c capture
	e := NewEndpoints(&DB{q: dbsqlc.New()})
	_, _ = e.rows(context.Background(), &c, p)
	return c.Statement
}

// RunsStatement returns what a list of runs asks the database.
func RunsStatement(p dbsqlc.RunListParams) Statement {
	var c capture
	_, _ = dbsqlc.New().RunList(context.Background(), &c, p)
	return c.Statement
}

// NewsStatement returns what a look at the feed asks the database first.
func NewsStatement(p dbsqlc.RunNewsListParams) Statement {
	var c capture
	_, _ = dbsqlc.New().RunNewsList(context.Background(), &c, p)
	return c.Statement
}

// FindStatement returns what a look at the feed asks the database about the runs that it found.
func FindStatement(p dbsqlc.RunFindParams) Statement {
	var c capture
	_, _ = dbsqlc.New().RunFind(context.Background(), &c, p)
	return c.Statement
}

// capture keeps a statement instead of running it.
type capture struct{ Statement }

var errCaptured = errors.New("captured")

func (c *capture) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, errCaptured
}

func (c *capture) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	c.Statement = Statement{SQL: sql, Args: args}
	return nil, errCaptured
}

func (c *capture) QueryRow(context.Context, string, ...any) pgx.Row { return nil }
