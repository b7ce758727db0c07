package dispatch

import (
	"context"
	"time"

	"rubato/internal/callbacks"
	"rubato/internal/claims"
	"rubato/internal/dispatch/request"
	"rubato/internal/egress"
	"rubato/internal/runs"
)

// Suspensions is the database of suspended runs, as workers use it.
type Suspensions interface {
	// Suspend suspends a live run of a worker, and reports true again if it is repeated. It reports
	// false if the worker lost the run, its endpoint was archived, or a user asked to cancel it.
	Suspend(ctx context.Context, s Suspension) (bool, error)
	// End ends a suspended run, and decides the next due time like any finish. It reports false if
	// the run is not suspended any more.
	End(ctx context.Context, run SuspendedRun, outcome runs.Outcome) (bool, error)
	// ClaimPolls returns up to limit suspended runs with status URLs that are due to be asked by a
	// worker with these tag sets. No other worker gets them until the lease ends.
	ClaimPolls(ctx context.Context, served claims.TagSets, lease time.Duration, limit int) ([]SuspendedRun, error)
	// PollLater plans the next request to the status URL of a run, after wait.
	PollLater(ctx context.Context, run runs.ID, wait time.Duration) error
}

// Suspension asks for the suspension of a live run after the answer 202 of its target.
type Suspension struct {
	Worker [16]byte
	Run    claims.FencedRun
	// Wait is the time until the run ends as timed out. A report of progress starts it again.
	Wait time.Duration
	// StatusURL is asked for the state of the run, first after Poll; empty: there is none.
	StatusURL string
	Poll      time.Duration
	Exchange  Exchange
}

// Exchange is the answer 202 of a suspended run. It goes into the record of the run.
type Exchange struct {
	StatusCode int         `json:"statusCode"`
	Phases     runs.Phases `json:"phases"`
}

// SuspendedRun is a suspended run with the configuration of its endpoint.
type SuspendedRun struct {
	runs.Run
	// Target has the current configuration of the endpoint, which may be newer than the request.
	Target *request.Target
	// SecretsVersion is the version of the tenant's secrets.
	SecretsVersion int64
	// StatusURL is empty if the run is not polled.
	StatusURL string
	// Polls is the number of requests to StatusURL, including the one to send now.
	Polls int
}

// request returns the run as its requests depend on it.
func (r *SuspendedRun) request() *request.Run {
	return &request.Run{
		ID:             r.ID,
		EndpointID:     r.EndpointID,
		TenantID:       r.TenantID,
		Slot:           r.ScheduledFor,
		Attempt:        r.Attempt,
		InfraAttempt:   r.InfraAttempt,
		Fence:          r.ClaimToken,
		StartedAt:      r.StartedAt,
		SecretsVersion: r.SecretsVersion,
		Target:         r.Target,
	}
}

// Held returns the fencing token of the run.
func (r *SuspendedRun) Held() claims.FencedRun {
	return claims.FencedRun{
		EndpointID: r.EndpointID,
		RunID:      r.ID,
		Token:      r.ClaimToken,
	}
}

const (
	// suspendWait bounds the attempts to store a suspension, like those to record a finish.
	suspendWait = finishWait
)

// suspend suspends a run after the answer 202 of its target. Then ours is false, because a report
// of the target or the sweeper ends the run. Otherwise the run ends with the outcome.
func (w *Worker) suspend(ctx context.Context, b *waiting, s Started, r *request.Outgoing, answer egress.Response) (outcome runs.Outcome, ours bool) {
	accepted := runs.Outcome{
		Status:     runs.Succeeded,
		Reason:     runs.HTTPStatus,
		MaybeSent:  true,
		StatusCode: answer.StatusCode,
		Phases:     request.PhasesOf(answer.Phases),
	}
	status := request.StatusURL(r.URL, answer)
	if status == "" && r.Meta.Get(callbacks.Header) == "" {
		accepted.Status, accepted.Reason = runs.Failed, runs.NoStatusURL
		accepted.Error = "the target answered 202, but it got no callback URL, and its answer names no status URL in Location or Rubato-Status-URL"
		return accepted, true
	}
	now, _ := w.clock.now()
	suspended, err := w.storeSuspension(ctx, Suspension{
		Worker: w.id,
		Run: claims.FencedRun{
			EndpointID: s.EndpointID,
			RunID:      s.RunID,
			Token:      b.claim.Token,
		},
		Wait:      b.target.SuspensionWait(),
		StatusURL: status,
		Poll:      request.PollWait(answer.Header, now, 0),
		Exchange: Exchange{
			StatusCode: answer.StatusCode,
			Phases:     accepted.Phases,
		},
	})
	switch {
	case err != nil:
		w.logger.Error("suspending a run failed; it ends as lost", "run_id", s.RunID.String(), "error", err)
		accepted.Status, accepted.Reason = runs.Lost, runs.LockLost
		accepted.Error = "the target answered 202, but the database did not store that the run waits; its end is unknown"
		return accepted, true
	case !suspended: // If the lock was lost, the fence refuses this record.
		accepted.Status, accepted.Reason = runs.Canceled, runs.CanceledByUser
		accepted.Error = "the target answered 202, but the run was canceled or its endpoint archived meanwhile; its end is unknown"
		return accepted, true
	}
	w.metrics.suspended.Inc()
	w.judgeHost(ctx, b, accepted)
	return runs.Outcome{}, false
}

// storeSuspension stores a suspension. It retries with backoff while the database is unavailable,
// at most suspendWait. After a lost response the second attempt finds the run suspended.
func (w *Worker) storeSuspension(ctx context.Context, s Suspension) (suspended bool, err error) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), suspendWait)
	defer cancel()
	for wait := finishRetryMin; ; wait = min(wait*2, finishRetryMax) {
		if suspended, err = w.cfg.Suspensions.Suspend(limited, s); err == nil || limited.Err() != nil {
			return suspended, err
		}
		w.logger.Warn("suspending a run failed; trying again", "run_id", runs.ID(s.Run.RunID).String(), "error", err)
		sleep(limited, wait)
	}
}
