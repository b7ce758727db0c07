package dispatch

import (
	"cmp"
	"context"
	"sync"
	"time"

	"rubato/internal/claims"
	"rubato/internal/dispatch/request"
	"rubato/internal/runs"
)

// cancelPeriod is the interval at which a worker with runs under way queries cancel requests, equal
// to its presence period. Notifications trigger a query at once; the interval is for lost ones.
const cancelPeriod = presencePeriod

// cancelLoop applies cancel requests to runs until ctx ends.
func (w *Worker) cancelLoop(ctx context.Context) {
	ticker := time.NewTicker(cmp.Or(w.cfg.cancelEvery, cancelPeriod))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.underway.asked: // Even without a run under way, because a start may be in flight.
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

// applyCancels cancels the runs under way that have a cancel request in the database.
func (w *Worker) applyCancels(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cancelPeriod)
	defer cancel()
	list, err := w.cfg.Executions.Cancels(ctx, w.id)
	if err != nil {
		return err
	}
	for _, c := range w.underway.apply(list) {
		w.logger.Info("canceling a run on request", "run_id", c.RunID.String(), "author", c.Author)
	}
	return nil
}

// CancelRequested triggers a query of cancel requests if worker is this worker or zero, which
// stands for any worker. It never blocks.
func (w *Worker) CancelRequested(worker [16]byte) {
	if worker != w.id && worker != [16]byte{} {
		return
	}
	select {
	case w.underway.asked <- struct{}{}:
	default:
	}
}

// cancelableRuns holds the runs with cancelable requests, from their start to their answer. It is
// safe for concurrent use.
type cancelableRuns struct {
	// asked wakes the cancel loop. It has a buffer of one, so that CancelRequested never blocks.
	asked chan struct{}

	// mu guards runs, early and the canceled flag of each flight.
	mu   sync.Mutex
	runs map[runs.ID]*cancelableRun
	// early holds cancel requests of the last query for runs that are not in runs: finished or not
	// yet entered.
	early map[runs.ID]Cancel
}

// cancelableRun is a run under way: its fencing token and the function that cancels its request.
type cancelableRun struct {
	token    int64
	cancel   context.CancelCauseFunc
	canceled bool
}

func (f *cancelableRun) end(c Cancel) {
	f.canceled = true
	f.cancel(&request.CanceledError{Author: c.Author, Reason: c.Reason})
}

func newUnderway() *cancelableRuns {
	return &cancelableRuns{asked: make(chan struct{}, 1), runs: map[runs.ID]*cancelableRun{}}
}

// again returns the outcome of a second start of a run while the request of the first, f, is still
// under way. The database has then lost the commit of the first start, e.g. in a failover, and the
// request must not be sent twice. If the tokens are equal, f writes the record, and ours is false.
// Otherwise the fence would refuse the record of f, therefore f is canceled and the run ends as
// lost.
func (f *cancelableRun) again(token int64) (outcome runs.Outcome, ours bool) {
	if f.token == token {
		return runs.Outcome{}, false
	}
	f.cancel(claims.ErrLockLost)
	return runs.Outcome{
		Status:    runs.Lost,
		Reason:    runs.LockLost,
		MaybeSent: true,
		Error:     "the database has lost the start of the request that was under way, so it was hung up; whether the target acted is unknown",
	}, true
}

// enter adds a run and returns the function that removes it. A run with an early cancel request is
// canceled at once. If the run is already under way, enter adds nothing and returns the existing
// flight as other.
func (u *cancelableRuns) enter(id runs.ID, f *cancelableRun) (leave func(), other *cancelableRun) {
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

// apply cancels the listed runs that are under way under the listed token. It returns those that
// were not canceled before.
func (u *cancelableRuns) apply(list []Cancel) (canceled []Cancel) {
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

func (u *cancelableRuns) size() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.runs)
}
