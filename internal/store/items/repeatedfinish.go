package items

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

// classifyNotLive classifies runs that were not live when their worker finished them. Either an
// earlier attempt of this finish was committed and its answer was lost; then classifyNotLive
// returns the kept claims and the decision. Or another process had settled the run; then the answer
// is late.
func (s *Executions) classifyNotLive(ctx context.Context, tx pgx.Tx, gone []runs.Run, done *dispatch.Finished) error {
	if len(gone) == 0 {
		return nil
	}
	own, err := s.own(ctx, tx, gone)
	if err != nil {
		return err
	}
	kept := dbsqlc.ScheduleListKeptParams{WorkerID: gone[0].WorkerID, Now: s.db.Now()}
	for _, run := range gone {
		source, recorded := own[run.ID]
		if !recorded {
			done.Late = append(done.Late, run.ID)
			if err := s.late(ctx, tx, run); err != nil {
				return err
			}
			continue
		}
		done.Repeated = append(done.Repeated, run.ID)
		if source != "" { // Empty: the endpoint was archived and has no next run.
			done.Decided = append(done.Decided, governor.Source(source))
		}
		kept.EndpointIds = append(kept.EndpointIds, run.RowID())
		kept.Tokens = append(kept.Tokens, run.ClaimToken)
	}
	return s.kept(ctx, tx, kept, done)
}

// own returns the runs that their worker has recorded itself, with the source of each next due
// time.
func (s *Executions) own(ctx context.Context, tx pgx.Tx, list []runs.Run) (map[runs.ID]string, error) {
	params := dbsqlc.RunListFinishedParams{WorkerID: list[0].WorkerID}
	for _, run := range list {
		params.TenantIds = append(params.TenantIds, run.TenantID)
		params.RunIds = append(params.RunIds, run.ID)
		params.ScheduledFor = append(params.ScheduledFor, run.ScheduledFor)
		params.Tokens = append(params.Tokens, run.ClaimToken)
		params.Statuses = append(params.Statuses, string(run.Outcome.Status))
		params.Reasons = append(params.Reasons, string(run.Outcome.Reason))
	}
	rows, err := s.db.Q.RunListFinished(ctx, tx, params)
	if err != nil {
		return nil, fmt.Errorf("looking for an earlier record of %d runs: %w", len(list), err)
	}
	own := make(map[runs.ID]string, len(rows))
	for _, row := range rows {
		own[row.ID] = row.NextSource
	}
	return own, nil
}

// kept adds the claims that finishes left with their worker and whose answer was lost.
func (s *Executions) kept(ctx context.Context, tx pgx.Tx, params dbsqlc.ScheduleListKeptParams, done *dispatch.Finished) error {
	if len(params.EndpointIds) == 0 {
		return nil
	}
	rows, err := s.db.Q.ScheduleListKept(ctx, tx, params)
	if err != nil {
		return fmt.Errorf("looking for the claims that %d finishes kept: %w", len(params.EndpointIds), err)
	}
	for _, row := range rows {
		done.Kept = append(done.Kept, claims.Claim{
			EndpointID:   row.EndpointID,
			OwnerID:      pg.OrZero(row.OwnerID),
			CTID:         ctid(row.CTID),
			Token:        row.ClaimToken,
			Slot:         row.Slot,
			PlannedAt:    row.PlannedAt,
			Attempt:      int(row.Attempt),
			InfraAttempt: int(row.InfraAttempt),
			Source:       row.Source,
			Version:      row.Version,
			LockedUntil:  row.LockedUntil,
			Hinted:       row.Hinted,
			Priority:     int(row.Priority),
		})
	}
	return nil
}

// late stores the event of an answer that came after its run had been settled.
func (s *Executions) late(ctx context.Context, tx pgx.Tx, run runs.Run) error {
	return history.AddEvent(ctx, tx, s.db.DB, run, runs.Event{
		Kind:       runs.EventLateResult,
		WorkerID:   run.WorkerID,
		ClaimToken: run.ClaimToken,
		Status:     run.Outcome.Status,
		Reason:     run.Outcome.Reason,
		StatusCode: run.Outcome.StatusCode,
	})
}
