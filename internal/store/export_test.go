package store

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
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
