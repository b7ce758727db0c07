package dispatch

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"rubato/internal/claims"
	"rubato/internal/egress"
	"rubato/internal/loop"
	"rubato/internal/runs"
)

const (
	// pollPeriod is the interval at which a worker looks for status URLs to ask.
	pollPeriod = time.Second
	// pollBatch bounds the status URLs that a worker asks at a time.
	pollBatch = 32
	// pollLease is longer than the longest request to a status URL, so that two workers do not ask
	// the same one.
	pollLease = pollTimeout + 30*time.Second
	// pollTimeout is the maximum timeout of a request to a status URL.
	pollTimeout = 30 * time.Second
	// pollFirst is the first wait without Retry-After. It doubles up to pollLast.
	pollFirst = 5 * time.Second
	pollLast  = time.Minute
	// pollMin and pollMax bound a Retry-After.
	pollMin = time.Second
	pollMax = time.Hour
	// pollRedirects lets a status URL redirect to the result, as by 303 (See Other).
	pollRedirects = 1
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
	outcome, wait := w.calls.status(ctx, run)
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

// status asks the status URL of a run. wait is set if the target has no result yet, or did not
// answer; otherwise the outcome ends the run.
func (c *calls) status(ctx context.Context, run SuspendedRun) (outcome runs.Outcome, wait time.Duration) {
	began := time.Now()
	b := &waiting{target: run.Target, claim: claims.Claim{
		EndpointID: run.EndpointID,
		Slot:       run.ScheduledFor,
		Attempt:    run.Attempt,
		Token:      run.ClaimToken,
	}}
	r, refusal := c.compose(ctx, b, Started{
		EndpointID:     run.EndpointID,
		TenantID:       run.TenantID,
		RunID:          run.ID,
		StartedAt:      run.StartedAt,
		SecretsVersion: run.SecretsVersion,
	}, began)
	now, _ := c.now()
	if refusal != nil { // The secrets or the token may be available later.
		return runs.Outcome{}, pollWait(nil, now, run.Polls)
	}
	r.toStatus(run)
	answer, err := c.send(ctx, run.ID, r.Request)
	c.forgetRefusedToken(r, answer)
	now, _ = c.now()
	if pending(answer, err) {
		return runs.Outcome{}, pollWait(answer.Header, now, run.Polls)
	}
	judged, done := context.WithTimeout(ctx, pollTimeout)
	defer done()
	outcome, _ = c.outcome(judged, r.runSecrets, run.Target, exchange{
		answer: answer,
		at:     now,
	})
	return outcome, 0
}

// toStatus turns the request of a run into the one for its state. A status URL of another origin
// gets neither the headers of the endpoint nor its client certificate.
func (r *outgoing) toStatus(run SuspendedRun) {
	if !sameOrigin(run.StatusURL, r.URL) {
		r.Header, r.Credentials, r.TLS, r.grant = nil, nil, nil, nil
	}
	r.Header = owned(r.Header, 0)
	r.Header.Del("Content-Type")
	r.Method, r.URL, r.Body = http.MethodGet, run.StatusURL, nil
	r.Timeout = min(r.Timeout, pollTimeout)
	r.MaxRedirects = max(r.MaxRedirects, pollRedirects)
}

// pending reports whether an answer of a status URL leaves the end of the run open: 202, or a
// failure that may pass.
func pending(answer egress.Response, err error) bool {
	return err != nil || answer.StatusCode >= http.StatusInternalServerError ||
		slices.Contains([]int{http.StatusAccepted, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}, answer.StatusCode)
}

// pollWait returns the time until the next request to a status URL: the Retry-After of the last
// answer, or an exponential backoff by the number of requests so far.
func pollWait(header http.Header, now time.Time, polls int) time.Duration {
	if at, asked := egress.RetryAfter(header, now); asked {
		return min(max(at.Sub(now), pollMin), pollMax)
	}
	return min(pollFirst<<min(polls, 8), pollLast)
}
