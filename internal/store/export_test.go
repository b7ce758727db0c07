package store

import (
	"context"
	"time"
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
	return pipeline(ctx, db.pool, statements...)
}
