package pg

import (
	"context"
	"fmt"

	"rubato/internal/errs"
	"rubato/internal/idempotency"
	"rubato/internal/store/dbsqlc"
)

// execute marks the idempotency key of the context as executed, within the transaction of the
// request. It fails if another attempt holds the key by now, so that the transaction rolls back and
// has no effect. Without a key it does nothing.
func (db *DB) execute(ctx context.Context, tx dbsqlc.DBTX) error {
	a, keyed := idempotency.From(ctx)
	if !keyed {
		return nil
	}
	rows, err := db.Q.IdempotencyExecute(ctx, tx, dbsqlc.IdempotencyExecuteParams{
		TenantID: a.TenantID,
		Route:    a.Route,
		KeyHash:  a.Hash[:],
		Token:    a.Token,
	})
	if err != nil {
		return fmt.Errorf("marking an idempotency key: %w", err)
	}
	if rows != 1 {
		return errs.New(errs.Conflict, "idempotency_in_progress", "another request with this Idempotency-Key has overtaken this one")
	}
	return nil
}
