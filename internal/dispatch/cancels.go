package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"rubato/internal/claims"
	"rubato/internal/runs"
)

// cancelPeriod is how often a worker with runs under way looks whether somebody asked to cancel one of them: as often as it tells that it
// lives. Messages make it look at once; the period is for those that got lost.
const cancelPeriod = presencePeriod

// cancelLoop cancels the runs that somebody asked to, until ctx ends.
func (w *Worker) cancelLoop(ctx context.Context) {
	ticker := time.NewTicker(cmp.Or(w.cfg.cancelEvery, cancelPeriod))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.underway.asked: // Also without a run under way: the start of one may be on its way here.
		case <-ticker.C:
			if w.underway.size() == 0 {
				continue
			}
		}
		if err := w.applyCancels(ctx); err != nil && ctx.Err() == nil {
			w.logger.Warn("looking for runs to cancel failed; looking again at the next tick", "error", err)
		}
	}
}

// applyCancels cancels what the database says is to be canceled.
func (w *Worker) applyCancels(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cancelPeriod)
	defer cancel()
	list, err := w.cfg.Executions.Cancels(ctx, w.id)
	if err != nil {
		return err
	}
	for _, c := range w.underway.apply(list) {
		w.logger.Info("canceling a run that somebody asked to", "run_id", c.RunID.String(), "author", c.Author)
	}
	return nil
}

// CancelRequested says that a run of a worker is to be canceled; the zero worker is any. It never blocks.
func (w *Worker) CancelRequested(worker [16]byte) {
	if worker != w.id && worker != [16]byte{} {
		return
	}
	select {
	case w.underway.asked <- struct{}{}:
	default:
	}
}

// canceledError is the cause of the end of a request that somebody asked to cancel.
type canceledError struct{ Cancel }

func (e *canceledError) Error() string {
	text := "canceled by " + e.Author
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// underway holds the runs whose requests may be canceled: those between their start and their answer. It is safe for concurrent use.
type underway struct {
	asked chan struct{} // told when somebody asked to cancel

	mu   sync.Mutex
	runs map[runs.ID]*flight
	// early holds what was asked for last of runs that are not here: over, or not here yet.
	early map[runs.ID]Cancel
}

// flight is a run under way: its fence, and how to end its request.
type flight struct {
	token    int64
	cancel   context.CancelCauseFunc
	canceled bool
}

func (f *flight) end(c Cancel) {
	f.canceled = true
	f.cancel(&canceledError{c})
}

func newUnderway() *underway {
	return &underway{asked: make(chan struct{}, 1), runs: map[runs.ID]*flight{}}
}

// again says how a second start of a run ends while the first, f, is still under way. The database has then lost the commit of the first, as a
// failover may, and the request must not be sent twice. Under f's token f writes the record, and ours is false. Under another token nobody
// would accept the record of f, so f is hung up and the run ends as lost.
func (f *flight) again(token int64) (outcome runs.Outcome, ours bool) {
	if f.token == token {
		return runs.Outcome{}, false
	}
	f.cancel(claims.ErrLockLost)
	return runs.Outcome{
		Status: runs.Lost, Reason: runs.LockLost, MaybeSent: true,
		Error: "the database has lost the start of the request that was under way, so it was hung up; whether the target acted is unknown",
	}, true
}

// enter adds a run and returns how to remove it. A run whose cancel arrived before it is canceled at once. Where the run is under way
// already, nothing is added, and other is its flight.
func (u *underway) enter(id runs.ID, f *flight) (leave func(), other *flight) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if other := u.runs[id]; other != nil {
		return nil, other
	}
	u.runs[id] = f
	if c, early := u.early[id]; early && c.Token == f.token {
		f.end(c)
	}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.runs, id)
	}, nil
}

// apply cancels the runs of a list that are under way under the token it names, and returns those that it had not canceled before.
func (u *underway) apply(list []Cancel) (canceled []Cancel) {
	u.mu.Lock()
	defer u.mu.Unlock()
	early := map[runs.ID]Cancel{}
	for _, c := range list {
		f, here := u.runs[c.RunID]
		switch {
		case !here:
			early[c.RunID] = c
		case f.token == c.Token && !f.canceled:
			f.end(c)
			canceled = append(canceled, c)
		}
	}
	u.early = early
	return canceled
}

func (u *underway) size() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.runs)
}

// canceledUnsent is the outcome of a run that was canceled before its request could leave.
func canceledUnsent(c *canceledError) runs.Outcome {
	return runs.Outcome{Status: runs.Canceled, Reason: runs.CanceledByUser, Error: fmt.Sprintf("nothing was sent: %s", c)}
}
