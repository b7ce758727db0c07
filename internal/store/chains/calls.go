package chains

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rubato/internal/calls"
	"rubato/internal/chains"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
	callstore "rubato/internal/store/calls"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// send inserts the call of a step or a compensation without an endpoint. A request that is refused
// fails it.
func (t *turn) send(ctx context.Context, m chains.Move) error {
	err := t.calls.Check(t.row.TenantID, calls.Request{Spec: *m.Call})
	if refused, is := errors.AsType[*errs.Error](err); is {
		return t.refuse(ctx, m, refused)
	}
	if err != nil {
		return fmt.Errorf("checking the call of step %s of chain run %s: %w", m.Key.Name, t.id(), err)
	}
	call := &calls.Call{
		ID:        calls.NewID(),
		TenantID:  t.row.TenantID,
		CreatedAt: t.now,
		Author:    t.by().Name,
		NotBefore: t.now.Truncate(time.Millisecond),
		Spec:      *m.Call,
		SentKey:   m.Override.SentKey,
	}
	if err := pg.Pipeline(ctx, t.tx, callstore.Inserts(ctx, t.db, []*calls.Call{call})...); err != nil {
		return fmt.Errorf("inserting the call of step %s of chain run %s: %w", m.Key.Name, t.id(), err)
	}
	err = t.db.Q.ChainItemInsert(ctx, t.tx, dbsqlc.ChainItemInsertParams{
		EndpointID: dbsqlc.UUID(call.ID),
		Slot:       call.NotBefore,
		RunID:      t.row.ID,
		Name:       m.Key.Name,
		Element:    int32(m.Key.Index),
		Undo:       m.Kind == chains.Undo,
	})
	if err != nil {
		return fmt.Errorf("recording the call of step %s of chain run %s: %w", m.Key.Name, t.id(), err)
	}
	t.sent = true
	return t.queued(ctx, m)
}

// dropCalls ends the waiting calls of a step, and notes the running ones to be canceled after the
// commit. A call that a finish has locked is looked at again soon.
func (t *turn) dropCalls(ctx context.Context, k chains.Key) error {
	open, err := t.db.Q.ChainCallsOpen(ctx, t.tx, dbsqlc.ChainCallsOpenParams{
		RunID:   t.row.ID,
		Name:    k.Name,
		Element: int32(k.Index),
	})
	if err != nil {
		return fmt.Errorf("reading the calls of step %s of chain run %s: %w", k.Name, t.id(), err)
	}
	for _, row := range open {
		if row.RunID != nil {
			t.cancel = append(t.cancel, runs.ID(*row.RunID))
			continue
		}
		t.dropped = append(t.dropped, row.Slot)
		err := pg.Pipeline(ctx, t.tx, callstore.Drop(ctx, t.db, callstore.DueOf(row), callstore.Unsent{
			ID:       endpoints.ID(row.EndpointID),
			TenantID: t.row.TenantID,
			At:       t.now,
			Status:   runs.Skipped,
			Reason:   runs.DeadlinePassed, // See ended.
			Why:      "the run of its chain was canceled or timed out",
		})...)
		if err != nil {
			return fmt.Errorf("dropping the call of step %s of chain run %s: %w", k.Name, t.id(), err)
		}
	}
	return nil
}
