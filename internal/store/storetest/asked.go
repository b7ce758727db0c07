package storetest

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// SetNow makes every statement that depends on time take at for the database's time. The zero
// instant gives the database its own clock back. It must not be called while statements run.
func SetNow(db *pg.DB, at time.Time) {
	db.Now = func() *time.Time { return pg.Optional(at) }
}

// Explain returns the plan that a statement gets on the connections of the hot path: the one that
// is made once, whatever the values.
func Explain(ctx context.Context, db *pg.DB, s pg.Statement) (plan string, err error) {
	err = pgx.BeginFunc(ctx, db.Hot, func(tx pgx.Tx) error {
		plan, err = explainKept(ctx, tx, s)
		return err
	})
	return plan, err
}

// ExplainChange returns the plan that a statement gets in a change of one endpoint.
func ExplainChange(ctx context.Context, db *pg.DB, s pg.Statement) (plan string, err error) {
	err = db.TxAfter(ctx, nil, func(tx pg.OpenTx) error {
		plan, err = explainKept(ctx, tx, s)
		return err
	})
	return plan, err
}

func explainKept(ctx context.Context, tx dbsqlc.DBTX, s pg.Statement) (string, error) {
	a := AskedBy(s)
	if _, err := tx.Exec(ctx, "PREPARE explained AS "+a.SQL); err != nil {
		return "", err
	}
	defer func() { _, _ = tx.Exec(ctx, "DEALLOCATE explained") }()
	values := strings.TrimSuffix(strings.Repeat("NULL, ", len(a.Args)), ", ")
	rows, err := tx.Query(ctx, "EXPLAIN EXECUTE explained("+values+")")
	if err != nil {
		return "", err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return strings.Join(lines, "\n"), err
}

// ExplainPlainly returns the plan that a statement gets on the others.
func ExplainPlainly(ctx context.Context, db *pg.DB, s pg.Statement) (string, error) {
	return explain(ctx, db.Pool, s)
}

func explain(ctx context.Context, pool *pgxpool.Pool, s pg.Statement) (string, error) {
	a := AskedBy(s)
	rows, err := pool.Query(ctx, "EXPLAIN "+a.SQL, a.Args...)
	if err != nil {
		return "", err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return strings.Join(lines, "\n"), err
}

// Asked is SQL with its arguments.
type Asked struct {
	SQL  string
	Args []any
}

// AskedBy returns what a statement would send.
func AskedBy(s pg.Statement) Asked {
	r := &pg.Recorder{}
	_ = s(r) // It always fails: nothing is sent.
	return Asked{SQL: r.SQL, Args: r.Args}
}
