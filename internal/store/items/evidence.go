package items

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/dispatch"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

// sweeperName is the author of settlements in the events of a run.
const sweeperName = "sweeper"

// evidence describes the proof that a live run is lost, as shown to users. It returns an empty
// string if the run is not live any more.
func (s *Sweeps) evidence(ctx context.Context, tx pgx.Tx, run runs.Run) (string, error) {
	seen, err := s.db.Q.RunEvidence(ctx, tx, dbsqlc.RunEvidenceParams{
		EndpointID: run.RowID(),
		RunID:      run.ID,
		Now:        s.db.Now(),
	})
	if pg.IsMissing(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the evidence about run %s: %w", run.ID, err)
	}
	var sign string
	switch {
	case seen.State == nil:
		sign = "its worker is not known any more"
	case *seen.State == string(dispatch.Inactive):
		sign = "its worker has said goodbye"
	case seen.Overdue:
		sign = "its execution should have ended at " + clockTime(seen.DeadlineAt)
	default:
		sign = "its worker was last heard of at " + clockTime(pg.OrZero(seen.HeartbeatAt))
	}
	return fmt.Sprintf("its lock ran out at %s, and %s", clockTime(seen.LockedUntil), sign), nil
}

func clockTime(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// settled records in the events of a run that the sweeper settled it, and the evidence.
func (s *Sweeps) settled(ctx context.Context, tx pgx.Tx, run runs.Run, why string) error {
	return history.AddEvent(ctx, tx, s.db.DB, run, runs.Event{
		At:       run.FinishedAt,
		Kind:     runs.EventSettled,
		Author:   sweeperName,
		Why:      why,
		WorkerID: run.WorkerID,
		Status:   run.Outcome.Status,
		Reason:   run.Outcome.Reason,
	})
}
