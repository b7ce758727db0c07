package chains

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/chains"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/failpoint"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/pg"
)

// turn is one advance of one run in its transaction.
type turn struct {
	*Advancer

	tx   pgx.Tx
	row  *dbsqlc.ChainRun
	plan *chains.Plan
	now  time.Time
	// soon means that the run waits for something besides its steps.
	soon bool
	// again means that the moves were not all made, and can be made at once.
	again     bool
	revisions []*endpointstore.Revision
	cancel    []runs.ID
	// dropped are the due times of calls that were not sent.
	dropped []time.Time
	// sent means that calls were inserted, which are due at once.
	sent bool
	// status is the state of the run afterwards.
	status chains.Status
}

// days returns the days of history that the moves write.
func (t *turn) days() (list []time.Time) {
	if t != nil {
		for _, r := range t.revisions {
			list = append(list, r.Days()...)
		}
		for _, due := range t.dropped {
			list = append(list, pg.DayOf(due))
		}
	}
	return list
}

func (t *turn) id() chains.RunID { return chains.RunID(t.row.ID) }

// by is the author of the one-off runs.
func (t *turn) by() auditlog.Actor {
	return auditlog.Actor{TenantID: t.row.TenantID, Name: "chain " + t.row.Chain}
}

func (t *turn) advance(ctx context.Context) (err error) {
	record, err := recordOf(t.row)
	if err != nil {
		return err
	}
	if t.plan, err = chains.Parse(record.Definition); err != nil {
		return fmt.Errorf("parsing the definition of chain run %s: %w", t.id(), err)
	}
	if t.now, err = t.db.DecisionTime(ctx, t.tx); err != nil {
		return fmt.Errorf("reading the database's time: %w", err)
	}
	// The wakes first: a step that ends from here on wakes the run again.
	if err := t.db.Q.ChainItemsWake(ctx, t.tx, t.row.ID); err != nil {
		return fmt.Errorf("taking the wakes of chain run %s: %w", t.id(), err)
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	run, err := t.load(ctx, record)
	if err != nil {
		return err
	}
	moves := chains.Advance(run, t.now)
	if n := bounded(moves.List); n < len(moves.List) { // The others follow from the steps as they are afterwards.
		moves = chains.Moves{
			List:   moves.List[:n],
			Status: record.Status,
			Reason: record.Reason,
		}
		// Cancels come last. They are repeated until the runs have ended, which takes its time.
		t.again = t.again || moves.List[0].Kind != chains.Cancel
	}
	if err := t.apply(ctx, moves.List); err != nil {
		return err
	}
	if err := t.write(ctx, moves); err != nil {
		return err
	}
	t.status = moves.Status
	failpoint.Hit(failpoint.Advancing)
	return nil
}

// load reads the steps of the run.
func (t *turn) load(ctx context.Context, record chains.Record) (run chains.Run, err error) {
	run = chains.Run{
		ID:              record.ID,
		Plan:            t.plan,
		Status:          record.Status,
		Reason:          record.Reason,
		Deadline:        record.Deadline,
		CancelRequested: !record.CancelRequestedAt.IsZero(),
	}
	if run.Input, err = chains.Decode(record.Input); err != nil {
		return run, fmt.Errorf("decoding the input of chain run %s: %w", t.id(), err)
	}
	rows, err := t.db.Q.ChainStepStates(ctx, t.tx, t.row.ID)
	if err != nil {
		return run, fmt.Errorf("reading the steps of chain run %s: %w", t.id(), err)
	}
	for _, row := range rows {
		s := chains.Step{
			Key:    chains.Key{Name: row.Name, Index: int(row.Element)},
			Status: chains.StepStatus(row.Status),
			Reason: row.Reason,
			Order:  pg.OrZero(row.Ended),
			Undo:   chains.UndoStatus(row.Undo),
		}
		var broken error
		if s.Output, broken = chains.Decode(row.Output); broken == nil {
			s.Item, broken = chains.DecodeValue(row.Item)
		}
		if broken != nil {
			return run, fmt.Errorf("decoding the values of step %s of chain run %s: %w", row.Name, t.id(), broken)
		}
		run.Steps = append(run.Steps, s)
	}
	return run, nil
}

// settle writes the ends of one-off runs to their steps, in the order in which they ended.
func (t *turn) settle(ctx context.Context) error {
	rows, err := t.db.Q.ChainItemsOver(ctx, t.tx, dbsqlc.ChainItemsOverParams{RunID: t.row.ID, MaxRows: maxMoves})
	if err != nil {
		return fmt.Errorf("reading the runs of chain run %s that ended: %w", t.id(), err)
	}
	t.again = len(rows) == maxMoves && !rows[0].Live
	for _, row := range rows {
		if row.Live { // Withdrawn during its run, which ends later.
			t.soon = true
			continue
		}
		if row.Status == "" {
			row.Status, row.Reason, row.Error = string(runs.Lost), "item_lost", "its one-off run is gone and has no record"
		}
		if row.Undo {
			err = t.undone(ctx, row)
		} else {
			err = t.ended(ctx, row)
		}
		if err != nil {
			return err
		}
		if err := t.db.Q.ChainItemSettle(ctx, t.tx, dbsqlc.ChainItemSettleParams{EndpointID: row.EndpointID, Slot: row.Slot}); err != nil {
			return fmt.Errorf("settling a run of chain run %s: %w", t.id(), err)
		}
	}
	return nil
}

// ended writes the end of the run of a step, and records its compensation.
func (t *turn) ended(ctx context.Context, row *dbsqlc.ChainItemsOverRow) error {
	p := dbsqlc.ChainStepEndParams{
		RunID:     t.row.ID,
		Name:      row.Name,
		Element:   row.Element,
		Status:    string(chains.StepFailed),
		Reason:    row.Reason,
		Error:     row.Error,
		StartedAt: &row.StartedAt,
		EndedAt:   row.FinishedAt,
	}
	switch runs.Status(row.Status) { //nolint:exhaustive // All others are failures.
	case runs.Succeeded:
		p.Status, p.Reason = string(chains.StepSucceeded), ""
		p.Output, p.Error = t.plan.Outputs(chains.Key{Name: row.Name, Index: int(row.Element)}, row.Body)
		p.Error = pg.Storable(p.Error)
		if t.plan.Compensated(row.Name) {
			p.Undo = string(chains.UndoRecorded)
		}
	case runs.Canceled:
		p.Status = string(chains.StepCanceled)
	case runs.Skipped:
		if runs.Reason(row.Reason) == runs.DeadlinePassed { // See expire.
			p.Status, p.Reason, p.Error = string(chains.StepCanceled), t.canceledBy(), ""
		}
	}
	changed, err := t.db.Q.ChainStepEnd(ctx, t.tx, p)
	return t.one(changed, err, "ending step "+row.Name)
}

// canceledBy returns why the waiting run of a step was not sent.
func (t *turn) canceledBy() string {
	if t.row.CancelRequestedAt != nil {
		return chains.ReasonCanceled
	}
	return chains.ReasonTimedOut
}

// undone writes the end of the run of a compensation.
func (t *turn) undone(ctx context.Context, row *dbsqlc.ChainItemsOverRow) error {
	p := dbsqlc.ChainUndoParams{
		RunID:   t.row.ID,
		Name:    row.Name,
		Element: row.Element,
		Was:     string(chains.UndoActive),
		Undo:    string(chains.UndoDone),
	}
	if runs.Status(row.Status) != runs.Succeeded {
		p.Undo, p.UndoError = string(chains.UndoFailed), row.Reason+": "+row.Error
	}
	changed, err := t.db.Q.ChainUndo(ctx, t.tx, p)
	return t.one(changed, err, "ending the compensation of step "+row.Name)
}

// one returns an error unless a statement changed one row.
func (t *turn) one(changed int64, err error, doing string) error {
	if err == nil && changed != 1 {
		err = fmt.Errorf("%d rows changed", changed)
	}
	if err != nil {
		return fmt.Errorf("%s of chain run %s: %w", doing, t.id(), err)
	}
	return nil
}

// write stores the state of the run and when to look at it again.
func (t *turn) write(ctx context.Context, moves chains.Moves) error {
	p := dbsqlc.ChainRunWriteParams{
		ID:        t.row.ID,
		Status:    string(moves.Status),
		Reason:    moves.Reason,
		AdvanceAt: t.now.Add(idle),
		Now:       t.now,
	}
	if at := t.row.DeadlineAt; moves.Status == chains.Running && at != nil && at.After(t.now) && at.Before(p.AdvanceAt) {
		p.AdvanceAt = *at
	}
	if t.soon {
		p.AdvanceAt = t.now.Add(lookAgain)
	}
	if t.again {
		p.AdvanceAt = t.now
	}
	if moves.Output != nil {
		raw, err := json.Marshal(moves.Output)
		if err != nil {
			return fmt.Errorf("encoding the outputs of chain run %s: %w", t.id(), err)
		}
		p.Output = raw
	}
	changed, err := t.db.Q.ChainRunWrite(ctx, t.tx, p)
	if err := t.one(changed, err, "writing the state"); err != nil || !moves.Status.Over() {
		return err
	}
	err = t.db.Q.ChainWaiterWake(ctx, t.tx, dbsqlc.ChainWaiterWakeParams{URL: endpoints.ChainURL(t.id().String()), Now: t.db.Now()})
	if err != nil {
		return fmt.Errorf("waking the run that started chain run %s: %w", t.id(), err)
	}
	return nil
}

// after does what may only happen after the commit: it counts the end of the run, wakes workers for
// the queued runs, and requests the cancels of live runs, which are repeated until they end.
func (t *turn) after(ctx context.Context) {
	for _, r := range t.revisions {
		t.endpoints.Returning(ctx, r)
	}
	if t.status.Over() {
		t.metrics.ended.WithLabelValues(string(t.status)).Inc()
	}
	if t.sent {
		t.db.Wake(ctx, t.now, t.now)
	}
	for _, id := range t.cancel {
		_, err := t.cancels.Cancel(ctx, runs.Cancel{
			By:     t.by(),
			RunID:  id,
			Reason: "the run of its chain was canceled or timed out",
		})
		if errs.CodeOf(err) == errs.Internal && err != nil {
			t.logger.Error("a step of a chain could not be canceled", "chain_run", t.id().String(), "error", err)
		}
	}
}
