package dispatch

import (
	"context"
	"sync"
	"time"

	"rubato/internal/dispatch/request"
	"rubato/internal/loop"
)

const (
	// pollPeriod is the interval at which a worker looks for status URLs to ask.
	pollPeriod = time.Second
	// pollBatch bounds the status URLs that a worker asks at a time.
	pollBatch = 32
	// pollLease is longer than the longest request to a status URL, so that two workers do not ask
	// the same one.
	pollLease = request.PollTimeout + 30*time.Second
)

// pollLoop asks the status URLs of suspended runs until ctx ends.
func (w *Worker) pollLoop(ctx context.Context) {
	loop.Poll(ctx, pollPeriod, func(ctx context.Context) error {
		for asked := pollBatch; asked == pollBatch && ctx.Err() == nil && !w.leaving(); {
			var err error
			if asked, err = w.poll(ctx); err != nil {
				return err
			}
		}
		return nil
	}, func(err error) {
		w.logger.Warn("looking for status URLs to ask failed; looking again at the next tick", "error", err)
	})
}

// poll asks a batch of status URLs concurrently, and returns its size.
func (w *Worker) poll(ctx context.Context) (int, error) {
	list, err := w.cfg.Suspensions.ClaimPolls(ctx, w.TagSets(), pollLease, pollBatch)
	if err != nil {
		return 0, err
	}
	var asking sync.WaitGroup
	for _, run := range list {
		asking.Go(func() {
			_ = w.loops.Contain(loop.StatusPolls, func() { w.askStatus(ctx, run) })
		})
	}
	asking.Wait()
	return len(list), nil
}

// askStatus asks the status URL of a run, and ends the run if the answer says how it ended.
func (w *Worker) askStatus(ctx context.Context, run SuspendedRun) {
	outcome, wait := w.caller.Status(ctx, run.request(), run.StatusURL, run.Polls)
	switch {
	case ctx.Err() != nil: // Another worker asks after the lease.
	case wait > 0:
		w.metrics.polls.WithLabelValues(pollPending).Inc()
		if err := w.cfg.Suspensions.PollLater(ctx, run.ID, wait); err != nil {
			w.logger.Warn("planning the next request to a status URL failed; it is sent after the lease", "run_id", run.ID.String(), "error", err)
		}
	default:
		w.metrics.polls.WithLabelValues(pollEnded).Inc()
		ended, err := w.cfg.Suspensions.End(ctx, run, outcome)
		if err != nil {
			w.logger.Warn("ending a suspended run failed; its status URL is asked again", "run_id", run.ID.String(), "error", err)
		}
		if now, _ := w.clock.now(); ended {
			run.Outcome, run.FinishedAt = outcome, now
			w.metrics.finished(run.Run)
		}
	}
}
