package storetest

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// SetNow sets the database's time for all statements of db. The zero instant restores the clock of
// the database. It must not be called while statements run.
func SetNow(db *pg.DB, at time.Time) {
	db.Now = func() *time.Time { return pg.Optional(at) }
}

// Explain returns the generic plan of a statement on the connections of the hot path. It is made
// once per connection and does not depend on the values.
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
	a := StatementOf(s)
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

// ExplainUncached returns the plan that a statement gets on connections that plan each execution.
func ExplainUncached(ctx context.Context, db *pg.DB, s pg.Statement) (string, error) {
	a := StatementOf(s)
	rows, err := db.Pool.Query(ctx, "EXPLAIN "+a.SQL, a.Args...)
	if err != nil {
		return "", err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return strings.Join(lines, "\n"), err
}

// Statement is SQL with its arguments.
type Statement struct {
	SQL  string
	Args []any
}

// StatementOf returns the SQL and the arguments that s would send.
func StatementOf(s pg.Statement) Statement {
	r := &pg.Recorder{}
	_ = s(r) // It always fails: nothing is sent.
	return Statement{SQL: r.SQL, Args: r.Args}
}
