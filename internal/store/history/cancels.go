package history

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

var _ runs.Canceler = (*Runs)(nil)

// Cancel implements runs.Canceler. It locks the row of the live run. A concurrent finish commits
// either before the lock, and the run is over, or after it, and sees the cancel request.
func (s *Runs) Cancel(ctx context.Context, c runs.Cancel) (run runs.Run, err error) {
	days := func() []time.Time { return []time.Time{pg.DayOf(c.RunID.Slot())} }
	return run, s.db.WithPartitions(ctx, days, func() error {
		return s.db.Tx(ctx, func(tx pgx.Tx) error {
			live, err := s.db.Q.RunLockLive(ctx, tx, dbsqlc.RunLockLiveParams{RunID: c.RunID, TenantID: c.By.TenantID})
			if pg.IsMissing(err) {
				return s.notLive(ctx, tx, c)
			}
			if err != nil {
				return fmt.Errorf("locking live run %s: %w", c.RunID, err)
			}
			run = LiveRunOf(live)
			if run.CancelRequestedAt.IsZero() {
				if err := s.requestCancel(ctx, tx, c, &run); err != nil {
					return err
				}
			}
			// Notify for a repeated request as well, because the first notification may be lost.
			return s.db.Q.CancelNotify(ctx, tx, run.WorkerID)
		})
	})
}

// requestCancel stores the cancel request in the live row and adds it to the events and the audit
// log.
func (s *Runs) requestCancel(ctx context.Context, tx pgx.Tx, c runs.Cancel, run *runs.Run) error {
	at, err := s.db.Q.RunCancel(ctx, tx, dbsqlc.RunCancelParams{
		EndpointID: run.RowID(),
		RunID:      run.ID,
		Token:      run.ClaimToken,
		Now:        s.db.Now(),
		Author:     pg.Storable(c.By.Name),
		Reason:     pg.Storable(c.Reason),
	})
	// No row is an error too, because the row is locked and was live.
	if err != nil {
		return fmt.Errorf("requesting the cancellation of run %s: %w", run.ID, err)
	}
	run.CancelRequestedAt = at
	if err := AddEvent(ctx, tx, s.db, *run, runs.Event{
		At:     at,
		Kind:   runs.EventCancelRequested,
		Author: c.By.Name,
		Why:    c.Reason,
	}); err != nil {
		return err
	}
	asked := map[string]any{"cancelRequestedAt": at.UTC().Format(time.RFC3339Nano), "reason": pg.Storable(c.Reason)}
	return s.db.Audited(ctx, tx, auditlog.Change{
		Act: auditlog.Act{By: c.By, Action: auditlog.Cancel}, Object: auditlog.Object{Kind: auditlog.Run, ID: run.ID.String()},
		Before: map[string]any{}, After: auditlog.Without(asked, ""),
	})
}

// notLive returns the error for a run that is not live: not found, not started or finished.
func (s *Runs) notLive(ctx context.Context, tx pgx.Tx, c runs.Cancel) error {
	run, err := s.get(ctx, tx, c.By.TenantID, c.RunID)
	if err != nil {
		return err
	}
	if run.Outcome.Status == runs.Waiting {
		return errs.New(errs.Conflict, "run_waiting", fmt.Sprintf(
			"run %s has not started, so there is no request to cancel; to withdraw all waiting one-off runs of its endpoint, pause the endpoint", c.RunID))
	}
	if !run.Outcome.Status.Terminal() { // It started between the two statements.
		return errs.New(errs.Unavailable, "", fmt.Sprintf("run %s is starting right now; try again", c.RunID))
	}
	return errs.New(errs.Conflict, "run_finished", fmt.Sprintf("run %s is over (%s, %s) and cannot be canceled", c.RunID, run.Outcome.Status, run.Outcome.Reason))
}
