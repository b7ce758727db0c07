package dispatch

import (
	"context"
	"time"

	"rubato/internal/claims"
	"rubato/internal/dispatch/request"
	"rubato/internal/governor"
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

// detach moves a run into a row of its own if its endpoint allows overlapping runs. It returns the
// start with the row that the run has then. ours is false if the worker lost the run, or if the
// database did not answer while the request might be sent; then the sweeper settles the run.
func (w *Worker) detach(ctx context.Context, b *waiting, s Started) (_ Started, ours bool) {
	if !w.detaches(b) {
		return s, true
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
	var item [16]byte
	for began := time.Now(); ; sleep(ctx, detachPause) {
		limited, cancel := context.WithTimeout(ctx, detachWait)
		var err error
		item, ours, err = w.cfg.Executions.Detach(limited, d)
		cancel()
		if err == nil {
			break
		}
		if ctx.Err() != nil || time.Since(began) > request.SendLimit {
			w.logger.Warn("detach a run failed; nothing is sent, and the sweeper settles the run", "run_id", s.RunID.String(), "error", err)
			return s, false
		}
	}
	if item != [16]byte{} {
		b.claim.OwnerID, b.claim.EndpointID = b.claim.EndpointID, item
		s.EndpointID = item
	}
	return s, ours
}
