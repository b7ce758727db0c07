package chains

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/chains"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/pg"
)

const (
	// maxMoves bounds the moves of one transaction, and the ends of runs that it writes, because the
	// runs of other tenants wait meanwhile. The rest follows in another turn of the run.
	maxMoves = 100
	// rowsPerMove is how many inserted elements take about as long as another move.
	rowsPerMove = 20
	// maxEndpointLocks bounds the moves of one transaction that lock endpoints.
	maxEndpointLocks = 50
)

// bounded returns how many of the moves one transaction carries out, at least one.
func bounded(moves []chains.Move) int {
	weight := 0
	for i, m := range moves {
		if weight += 1 + len(m.Items)/rowsPerMove; weight > maxMoves && i > 0 {
			return i
		}
	}
	return len(moves)
}

// apply carries out the moves. Those that lock endpoints come last and in the order of the
// endpoints, as finishes lock them, so that no two transactions wait for each other.
func (t *turn) apply(ctx context.Context, moves []chains.Move) error {
	var locking []chains.Move
	for _, m := range moves {
		var err error
		switch m.Kind {
		case chains.Expand:
			err = t.expand(ctx, m)
		case chains.End:
			err = t.end(ctx, m)
		case chains.EndUndo:
			err = t.undo(ctx, m, chains.UndoRecorded, chains.UndoFailed, m.Reason+": "+m.Error)
		case chains.Cancel:
			err = t.expire(ctx, m.Key)
		case chains.Start, chains.Undo:
			if m.Call != nil {
				err = t.send(ctx, m)
			} else {
				locking = append(locking, m)
			}
		}
		if err != nil {
			return err
		}
	}
	slices.SortStableFunc(locking, func(a, b chains.Move) int { return slices.Compare(a.Endpoint[:], b.Endpoint[:]) })
	if len(locking) > maxEndpointLocks {
		locking, t.again = locking[:maxEndpointLocks], true
	}
	for _, m := range locking {
		if err := t.queue(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// end ends a step without a run.
func (t *turn) end(ctx context.Context, m chains.Move) error {
	changed, err := t.db.Q.ChainStepEnd(ctx, t.tx, dbsqlc.ChainStepEndParams{
		RunID:   t.row.ID,
		Name:    m.Key.Name,
		Element: int32(m.Key.Index),
		Status:  string(m.Status),
		Reason:  m.Reason,
		Error:   pg.Storable(m.Error),
		EndedAt: t.now,
	})
	return t.one(changed, err, "ending step "+m.Key.Name)
}

// expand inserts the elements of a step.
func (t *turn) expand(ctx context.Context, m chains.Move) error {
	p := dbsqlc.ChainStepsInsertParams{RunID: t.row.ID}
	for i, item := range m.Items {
		raw, err := json.Marshal(item)
		if err != nil {
			return fmt.Errorf("encoding an element of step %s of chain run %s: %w", m.Key.Name, t.id(), err)
		}
		p.Names, p.Elements, p.Items = append(p.Names, m.Key.Name), append(p.Elements, int32(i)), append(p.Items, string(raw))
	}
	if err := t.db.Q.ChainStepsInsert(ctx, t.tx, p); err != nil {
		return fmt.Errorf("inserting the elements of step %s of chain run %s: %w", m.Key.Name, t.id(), err)
	}
	return t.start(ctx, m.Key)
}

// start marks a step as active.
func (t *turn) start(ctx context.Context, k chains.Key) error {
	changed, err := t.db.Q.ChainStepStart(ctx, t.tx, dbsqlc.ChainStepStartParams{
		RunID:     t.row.ID,
		Name:      k.Name,
		Element:   int32(k.Index),
		StartedAt: t.now,
	})
	return t.one(changed, err, "starting step "+k.Name)
}

// undo moves the compensation of a step.
func (t *turn) undo(ctx context.Context, m chains.Move, from, to chains.UndoStatus, why string) error {
	changed, err := t.db.Q.ChainUndo(ctx, t.tx, dbsqlc.ChainUndoParams{
		RunID:     t.row.ID,
		Name:      m.Key.Name,
		Element:   int32(m.Key.Index),
		Was:       string(from),
		Undo:      string(to),
		UndoError: pg.Storable(why),
	})
	return t.one(changed, err, "compensating step "+m.Key.Name)
}

// expire keeps a waiting one-off run from being sent, and notes a live one to be canceled after the
// commit.
func (t *turn) expire(ctx context.Context, k chains.Key) error {
	ids, err := t.db.Q.ChainItemExpire(ctx, t.tx, dbsqlc.ChainItemExpireParams{
		RunID:   t.row.ID,
		Name:    k.Name,
		Element: int32(k.Index),
		Now:     t.now,
	})
	if err != nil {
		return fmt.Errorf("canceling step %s of chain run %s: %w", k.Name, t.id(), err)
	}
	t.soon = true
	for _, id := range ids {
		t.cancel = append(t.cancel, runs.ID(id))
	}
	return t.dropCalls(ctx, k)
}

// queue queues the one-off run of a step or a compensation. A full queue leaves the step as it is.
// A request that is refused fails it.
func (t *turn) queue(ctx context.Context, m chains.Move) error {
	request := endpoints.OneOffRequest{Override: m.Override}
	if m.Kind == chains.Undo {
		request.Priority = "critical"
	}
	change, _ := t.service.OneOffChange(t.by(), request)
	r := &endpointstore.Revision{
		Act:    auditlog.Act{By: t.by(), Action: auditlog.RunNow},
		ID:     m.Endpoint,
		Change: change,
	}
	t.revisions = append(t.revisions, r)
	err := pgx.BeginFunc(ctx, t.tx, func(tx pgx.Tx) error { return t.insert(ctx, tx, m, r) })
	if err == nil {
		return t.queued(ctx, m)
	}
	refused, is := errors.AsType[*errs.Error](pg.Translate(err))
	if !is || refused.Code == errs.Unavailable {
		return fmt.Errorf("queueing step %s of chain run %s: %w", m.Key.Name, t.id(), err)
	}
	t.revisions = t.revisions[:len(t.revisions)-1]
	if refused.Code == errs.Exhausted {
		t.soon = true
		return nil
	}
	return t.refuse(ctx, m, refused)
}

// refuse fails the step or compensation of a move whose request is refused.
func (t *turn) refuse(ctx context.Context, m chains.Move, refused *errs.Error) error {
	t.again = true
	if m.Kind == chains.Undo {
		return t.undo(ctx, m, chains.UndoRecorded, chains.UndoFailed, refused.Error())
	}
	m.Status, m.Reason, m.Error = chains.StepFailed, chains.ReasonRequestRefused, refused.Error()
	return t.end(ctx, m)
}

// insert inserts the one-off run of a move.
func (t *turn) insert(ctx context.Context, tx pgx.Tx, m chains.Move, r *endpointstore.Revision) error {
	if err := t.endpoints.ChangeIn(ctx, tx, r); err != nil {
		return err
	}
	if r.Changed.Spec.StartsChain() {
		return errs.New(errs.Conflict, "nested_chain", "the endpoint of the step starts a chain; a step sends one request")
	}
	slot := r.Changed.State.OneOffs.Added.Slot
	changed, err := t.db.Q.OneOffChained(ctx, tx, dbsqlc.OneOffChainedParams{
		EndpointID: dbsqlc.UUID(m.Endpoint),
		Slot:       slot,
		Undo:       m.Kind == chains.Undo,
	})
	if err := t.one(changed, err, "marking the run of step "+m.Key.Name); err != nil {
		return err
	}
	return t.db.Q.ChainItemInsert(ctx, tx, dbsqlc.ChainItemInsertParams{
		EndpointID: dbsqlc.UUID(m.Endpoint),
		Slot:       slot,
		RunID:      t.row.ID,
		Name:       m.Key.Name,
		Element:    int32(m.Key.Index),
		Undo:       m.Kind == chains.Undo,
	})
}

// queued marks the step of a move whose one-off run is queued.
func (t *turn) queued(ctx context.Context, m chains.Move) error {
	if m.Kind == chains.Undo {
		return t.undo(ctx, m, chains.UndoRecorded, chains.UndoActive, "")
	}
	return t.start(ctx, m.Key)
}
