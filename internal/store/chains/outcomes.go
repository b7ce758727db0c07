package chains

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/chains"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/loop"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

// maxStartAttempts is how often the start of a chain is tried that fails. The waits between the
// attempts add up to a quarter of an hour.
const maxStartAttempts = 10

// StartNext starts one chain of each tenant by the outcome of a run, and reports whether there was
// one. If the chain is gone or the inputs do not fit, an event of the run says so. A start that
// fails is put behind the others and tried again after a backoff. The last attempt leaves the same
// event.
func (a *Advancer) StartNext(ctx context.Context) (found bool, err error) {
	due, err := a.db.Q.ChainStartsDue(ctx, a.db.Pool, dbsqlc.ChainStartsDueParams{Now: a.db.Now(), PerTenant: perTenant})
	if err != nil {
		return false, fmt.Errorf("looking for chains to start: %w", pg.Translate(err))
	}
	return oneOfEachTenant(due, func(row *dbsqlc.ChainStartsDueRow) (tenant dbsqlc.UUID, take func() (bool, error)) {
		return row.TenantID, func() (bool, error) { return a.startOrPutBack(ctx, row) }
	})
}

// startOrPutBack starts the chain of a row, or puts it behind the others if that fails or panics.
// taken is false if another worker has it. The error is that of the putting back.
func (a *Advancer) startOrPutBack(ctx context.Context, row *dbsqlc.ChainStartsDueRow) (taken bool, err error) {
	fault := a.loops.Contain(loop.Chains, func() { taken, err = a.take(ctx, row, a.startByOutcome) })
	if err = cmp.Or(fault, err); err == nil || ctx.Err() != nil {
		return taken, err
	}
	run := runs.ID(row.RunID)
	if row.Failures+1 >= maxStartAttempts {
		why := fmt.Sprintf("it was tried %d times, and the log of the workers has the cause", maxStartAttempts)
		if refused, is := errors.AsType[*errs.Error](err); is {
			why = refused.Error()
		}
		if taken, refusal := a.take(ctx, row, func(ctx context.Context, tx pgx.Tx, row *dbsqlc.ChainStartTakeRow) (string, error) {
			return a.refuseStart(ctx, tx, row, why)
		}); refusal == nil {
			a.logger.Error("a chain could not be started by the outcome of a run", "run_id", run.String(), "error", err)
			return taken, nil
		}
	}
	a.metrics.failures.WithLabelValues(failedStart).Inc()
	back := a.db.Q.ChainStartPutBack(ctx, a.db.Pool, dbsqlc.ChainStartPutBackParams{
		RunID:   row.RunID,
		Outcome: row.Outcome,
		Chain:   row.Chain,
		Now:     a.db.Now(),
	})
	if back != nil {
		return false, errors.Join(err, fmt.Errorf("putting the start of chain %s by run %s back: %w", row.Chain, run, pg.Translate(back)))
	}
	a.logger.Warn("a chain could not be started by the outcome of a run, and is tried again later", "run_id", run.String(), "error", err)
	return true, nil
}

// take deletes the row of a start and handles it in the same transaction. taken is false if another
// worker has it.
func (a *Advancer) take(
	ctx context.Context, due *dbsqlc.ChainStartsDueRow, handle func(context.Context, pgx.Tx, *dbsqlc.ChainStartTakeRow) (result string, err error),
) (taken bool, err error) {
	var result string
	err = a.db.Tx(ctx, func(tx pgx.Tx) error {
		result = ""
		rows, err := a.db.Q.ChainStartTake(ctx, tx, dbsqlc.ChainStartTakeParams{
			RunID:   due.RunID,
			Outcome: due.Outcome,
			Chain:   due.Chain,
		})
		if taken = err == nil && len(rows) > 0; !taken || rows[0].Chained || rows[0].Unchanged {
			return err
		}
		result, err = handle(ctx, tx, rows[0])
		return err
	})
	if err != nil {
		return false, fmt.Errorf("starting a chain by the outcome of a run: %w", pg.Translate(err))
	}
	if result != "" {
		a.metrics.starts.WithLabelValues(result).Inc()
	}
	return taken, nil
}

// startByOutcome starts the chain of a row, and records the event. An error that may be
// transient is returned, and the row stays.
func (a *Advancer) startByOutcome(ctx context.Context, tx pgx.Tx, row *dbsqlc.ChainStartTakeRow) (result string, err error) {
	var started chains.RunID
	err = pg.Translate(pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) (err error) { // The event of a refusal is recorded after the rollback.
		started, err = a.startAfter(ctx, tx, row)
		return err
	}))
	if refused, is := errors.AsType[*errs.Error](err); is && refused.Code != errs.Unavailable && refused.Code != errs.Exhausted {
		return a.refuseStart(ctx, tx, row, refused.Error())
	}
	if err != nil {
		return "", err
	}
	return startMade, a.recordStart(ctx, tx, row, runs.EventChainStarted, started.String())
}

// refuseStart records why the chain of a row is not started.
func (a *Advancer) refuseStart(ctx context.Context, tx pgx.Tx, row *dbsqlc.ChainStartTakeRow, why string) (result string, err error) {
	return startRefused, a.recordStart(ctx, tx, row, runs.EventChainRefused, why)
}

// recordStart records the event of a start.
func (a *Advancer) recordStart(ctx context.Context, tx pgx.Tx, row *dbsqlc.ChainStartTakeRow, kind runs.EventKind, what string) error {
	run := runs.Run{ID: runs.ID(row.RunID), ScheduledFor: row.ScheduledFor}
	return history.AddEvent(ctx, tx, a.db, run, runs.Event{
		Kind: kind,
		Why:  pg.Storable(fmt.Sprintf("%s=%s: %s", row.Outcome, row.Chain, what)),
	})
}

// startAfter starts the chain of a row with the inputs that it declares.
func (a *Advancer) startAfter(ctx context.Context, tx pgx.Tx, row *dbsqlc.ChainStartTakeRow) (id chains.RunID, err error) {
	chain, err := getChain(ctx, a.db, tx, row.TenantID, row.Chain)
	if err != nil {
		return id, err
	}
	plan, err := chain.Plan()
	if err != nil {
		return id, err
	}
	run := runs.ID(row.RunID)
	values := map[string]any{
		"run": map[string]any{
			"id": run.String(), "status": row.Status, "reasonCode": row.Reason, "statusCode": row.StatusCode,
			"scheduledFor": row.ScheduledFor.UTC().Format(time.RFC3339Nano),
		},
		"endpoint": map[string]any{"id": endpoints.ID(row.EndpointID).String()},
	}
	if json.Valid(row.Body) {
		values["response"] = json.RawMessage(row.Body)
	}
	given, err := plan.InputOf(values)
	if err != nil {
		return id, fmt.Errorf("encoding the input of chain %s: %w", row.Chain, err)
	}
	input, err := plan.ReadInput(given)
	if err != nil {
		return id, err
	}
	record, _, err := insertRun(ctx, tx, a.db, auditlog.Actor{TenantID: row.TenantID, Name: "run " + run.String()}, chains.Started{
		Chain: chain,
		Input: input,
		Key:   run.String() + "." + row.Outcome,
	})
	return record.ID, err
}
