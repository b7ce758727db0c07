package dispatch

import (
	"context"
	"time"

	"rubato/internal/claims"
	"rubato/internal/egress"
)

// confirmWait is how long a run whose request could not leave at once waits to hear that it still may.
const confirmWait = 5 * time.Second

// confirmation lets the request of a run leave within the time that a start is good for. A name, a connection or an access token may take
// longer, or the process stood still meanwhile; then the database is asked again, since a pause may have come.
func (w *Worker) confirmation(s Started, token int64, sent time.Time) egress.Confirmation {
	return egress.Confirmation{Until: sent.Add(sendLimit), Ask: func(ctx context.Context) (time.Time, bool) {
		limited, cancel := context.WithTimeout(ctx, confirmWait)
		defer cancel()
		asked := time.Now()
		may, err := w.cfg.Executions.Confirm(limited, s.EndpointID, claims.Held{RunID: s.RunID, Token: token})
		if err != nil && ctx.Err() == nil { // Else it was given up meanwhile.
			w.logger.Warn("a run is not sent: its request had to wait, and whether it still may leave is unknown", "run_id", s.RunID.String(), "error", err)
		}
		return asked.Add(sendLimit), may && err == nil
	}}
}
