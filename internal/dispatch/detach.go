package dispatch

import (
	"context"
	"errors"
	"time"

	"rubato/internal/claims"
	"rubato/internal/dispatch/request"
	"rubato/internal/governor"
	"rubato/internal/runs"
)

const (
	// detachWait is the timeout of one attempt to detach a run.
	detachWait = time.Second
	// detachPause is the time between two attempts.
	detachPause = 50 * time.Millisecond
)

// detaches reports whether a run leaves the row of its endpoint before its request is sent. A run
// that will send nothing keeps the row, because its skip decides the next due time. A probe keeps
// it, because its seat at the host is bound to the row. A one-off run keeps it too.
func (w *Worker) detaches(b *waiting) bool {
	return b.target.Spec.DetachesRuns() && b.claim.OwnerID == [16]byte{} && b.claim.Source != string(governor.SourceManual) &&
		!b.probe && w.missed(b) == nil && w.circuitOpen(b) == nil
}

// detach moves a run into a row of its own if its endpoint allows overlapping runs, and sets the
// key of the row in its claim and start. The error is [claims.ErrLockLost] if the worker lost the
// run. After any other error the run may have been moved nevertheless, and its request must not be
// sent.
func (w *Worker) detach(ctx context.Context, b *waiting, s *Started) error {
	if !w.detaches(b) {
		return nil
	}
	d := Detaching{
		Worker:    w.id,
		StartedAt: s.StartedAt,
		Run: claims.FencedRun{
			EndpointID: s.EndpointID,
			RunID:      s.RunID,
			Token:      b.claim.Token,
		},
	}
	if now, _ := w.clock.now(); now.After(d.StartedAt) {
		d.StartedAt = now
	}
	item, ours, err := w.askDetach(ctx, d)
	switch {
	case err != nil:
		w.logger.Warn("detaching a run failed; nothing is sent", "run_id", s.RunID.String(), "error", err)
		return err
	case !ours:
		return claims.ErrLockLost
	case item != [16]byte{}:
		b.claim.OwnerID, b.claim.EndpointID = b.claim.EndpointID, item
		s.EndpointID = item
	}
	return nil
}

// askDetach repeats a request for a row until it succeeds, at most while the request of the run may
// be sent.
func (w *Worker) askDetach(ctx context.Context, d Detaching) (item [16]byte, ours bool, err error) {
	for began := time.Now(); ; sleep(ctx, detachPause) {
		limited, cancel := context.WithTimeout(ctx, detachWait)
		item, ours, err = w.cfg.Executions.Detach(limited, d)
		cancel()
		if err == nil || ctx.Err() != nil || time.Since(began) > request.SendLimit {
			return item, ours, err
		}
	}
}

// undetached returns the outcome of a run that was not detached. If the run was moved nevertheless,
// the record is refused as late, and the sweeper settles the run.
func undetached(err error) (outcome runs.Outcome, ours bool) {
	if errors.Is(err, claims.ErrLockLost) {
		return runs.Outcome{}, false
	}
	return runs.Outcome{
		Status: runs.Skipped,
		Reason: runs.StartExpired,
		Error:  "nothing was sent: the database did not move the run into a row of its own in time",
	}, true
}
