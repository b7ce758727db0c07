package items

import (
	"context"
	"time"

	"rubato/internal/dispatch"
)

// FinishByBasis finishes runs by what their starts read, and reports whether that still holds;
// where it does not, nothing is written.
func (s *Executions) FinishByBasis(ctx context.Context, f dispatch.Finish) (done dispatch.Finished, holds bool, err error) {
	sorted, known := inOrder(f)
	if !known {
		return done, false, nil
	}
	b := newBatch(s.db, nil, f.Runs)
	defer b.release()
	b.worker, b.keep, b.lockTTL = f.Worker, f.Keep, f.LockTTL
	done, err = finishRead(ctx, b, sorted)
	if stale(err) {
		return dispatch.Finished{}, false, nil
	}
	return done, true, err
}

// SetStandstill sets how long a sweeper may stand still.
func (s *Sweeps) SetStandstill(d time.Duration) { s.standstill = d }
