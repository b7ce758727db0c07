package dispatch

import (
	"context"
	"time"

	"rubato/internal/claims"
	"rubato/internal/dispatch/request"
	"rubato/internal/egress"
)

// confirmWait is the timeout of the query that confirms a delayed request.
const confirmWait = 5 * time.Second

// confirmation lets the request of a run leave within [request.SendLimit] of its start. DNS, a
// connection or an access token may take longer, or the process was suspended. Then the lock is
// checked again in the database, because the endpoint may have been paused meanwhile.
func (w *Worker) confirmation(s Started, token int64, sent time.Time) egress.Confirmation {
	return egress.Confirmation{Until: sent.Add(request.SendLimit), Ask: func(ctx context.Context) (time.Time, bool) {
		limited, cancel := context.WithTimeout(ctx, confirmWait)
		defer cancel()
		asked := time.Now()
		may, err := w.cfg.Executions.Confirm(limited, s.EndpointID, claims.FencedRun{RunID: s.RunID, Token: token})
		// If ctx has ended, the request was given up meanwhile, therefore no warning is logged.
		if err != nil && ctx.Err() == nil {
			w.logger.Warn("a run is not sent: its request had to wait, and whether it still may leave is unknown", "run_id", s.RunID.String(), "error", err)
		}
		return asked.Add(request.SendLimit), may && err == nil
	}}
}
