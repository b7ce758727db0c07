package chains

import (
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
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

// StartNext starts one chain by the outcome of a run, and reports whether there was one. If the
// chain is gone or the inputs do not fit, an event of the run says so.
func (a *Advancer) StartNext(ctx context.Context) (found bool, err error) {
	var result string
	err = a.db.Tx(ctx, func(tx pgx.Tx) error {
		result = ""
		rows, err := a.db.Q.ChainStartTake(ctx, tx)
		if found = err == nil && len(rows) > 0; !found || rows[0].Chained || rows[0].Unchanged {
			return err
		}
		result, err = a.startByOutcome(ctx, tx, rows[0])
		return err
	})
	if err != nil {
		return false, fmt.Errorf("starting a chain by the outcome of a run: %w", pg.Translate(err))
	}
	if result != "" {
		a.metrics.starts.WithLabelValues(result).Inc()
	}
	return found, nil
}

// startByOutcome starts the chain of a row, and records the event.
func (a *Advancer) startByOutcome(ctx context.Context, tx pgx.Tx, row *dbsqlc.ChainStartTakeRow) (result string, err error) {
	run := runs.Run{ID: runs.ID(row.RunID), ScheduledFor: row.ScheduledFor}
	started, err := a.startAfter(ctx, tx, row)
	if refused, is := errors.AsType[*errs.Error](err); is && refused.Code != errs.Unavailable {
		return startRefused, history.AddEvent(ctx, tx, a.db, run, runs.Event{
			Kind: runs.EventChainRefused,
			Why:  fmt.Sprintf("%s=%s: %s", row.Outcome, row.Chain, refused.Error()),
		})
	}
	if err != nil {
		return "", err
	}
	return startMade, history.AddEvent(ctx, tx, a.db, run, runs.Event{
		Kind: runs.EventChainStarted,
		Why:  fmt.Sprintf("%s=%s: %s", row.Outcome, row.Chain, started),
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
