package items

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/calls"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
	callstore "rubato/internal/store/calls"
	"rubato/internal/store/dbsqlc"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/pg"
)

// endCall records the run of a call. If it was the last one, the schedule of the call is deleted
// and its result is sent to the callback, in the same transaction. A nil decision means that none
// was possible.
func (b *batch) endCall(ctx context.Context, e *endpoints.Endpoint, run runs.Run, decided *endpoints.Recorded) error {
	if decided == nil {
		e.Ended, e.GivenUp = true, !e.Call.Detached() || e.Spec.DeadLetter
	}
	if e.Call.Detached() {
		return b.endDetached(ctx, result{run, e, decided})
	}
	if !e.Ended {
		b.history.Add(run, e.Version, 0, decided)
		b.decided = append(b.decided, decided.Due.Source)
		b.plan(e, true)
		return nil
	}
	b.history.Add(run, e.Version, 0, nil)
	b.delete(e, run)
	if e.GivenUp {
		b.givenUp = append(b.givenUp, endpointstore.GivenUp{Run: run, Endpoint: e})
	}
	if e.Call.Callback == "" {
		return nil
	}
	result, err := calls.ResultCall(e, run, b.now)
	if err != nil {
		return err
	}
	b.queued = append(b.queued, callstore.Inserts(ctx, b.db.DB, []*calls.Call{result})...)
	return nil
}

// delete adds the schedule of a call or of a detached run to those that are deleted.
func (b *batch) delete(e *endpoints.Endpoint, run runs.Run) {
	row, d := b.rows[e.ID], &b.ended
	d.EndpointIds = append(d.EndpointIds, dbsqlc.UUID(e.ID))
	d.CTIDs = append(d.CTIDs, row.CTID)
	d.Tokens = append(d.Tokens, row.ClaimToken)
	d.Revisions = append(d.Revisions, row.Revision)
	d.StartedAt = append(d.StartedAt, run.StartedAt)
	d.FinishedAt = append(d.FinishedAt, run.FinishedAt)
}

// dropCall ends a waiting call with an unusable configuration. It is recorded as a run that was not
// sent, because no person could mend it.
func (s *Executions) dropCall(ctx context.Context, tx pgx.Tx, m lockedEndpoint) error {
	return pg.Pipeline(ctx, tx, callstore.Drop(ctx, s.db.DB, m.endpoint.State.Due, callstore.Unsent{
		ID:       m.endpoint.ID,
		TenantID: m.endpoint.TenantID,
		At:       m.now,
		Status:   runs.Skipped,
		Reason:   runs.InternalError,
		Why:      "the stored call cannot be used: " + m.fault.Error(),
	})...)
}

// forgetCalls deletes calls that have ended and are older than the history.
func (s *Sweeps) forgetCalls(ctx context.Context, before time.Time) error {
	for more := true; more; {
		rows, err := s.db.Q.CallDropBefore(ctx, s.db.Sweeps, dbsqlc.CallDropBeforeParams{Before: before, MaxRows: ledgerPage})
		if err != nil {
			return fmt.Errorf("removing old calls: %w", pg.Translate(err))
		}
		more = rows > 0
	}
	return nil
}
