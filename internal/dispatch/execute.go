package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"rubato/internal/claims"
	"rubato/internal/dispatch/request"
	"rubato/internal/egress"
	"rubato/internal/failpoint"
	"rubato/internal/governor"
	"rubato/internal/runs"
)

// unsent returns the outcome of a run whose request must not be sent: it was canceled, it is past
// its deadline, or the circuit breaker of its host is open. Nil: it may be sent.
func (w *Worker) unsent(ctx context.Context, b *waiting) *runs.Outcome {
	if canceled, is := errors.AsType[*request.CanceledError](context.Cause(ctx)); is {
		return new(canceled.Unsent())
	}
	if outcome := w.missed(b); outcome != nil {
		return outcome
	}
	return w.circuitOpen(b)
}

// execute runs one execution to its end on a goroutine of the pool. ours is false if another
// process writes the record, because it holds the lock now, or if an earlier start of the run
// writes it.
func (w *Worker) execute(work context.Context, b *waiting, s Started, sent time.Time) (outcome runs.Outcome, ours bool) {
	asked := false // set once the request may have left
	defer func() {
		if fault := recover(); fault != nil {
			w.metrics.panics.Inc()
			w.logger.Error("a run panicked", "run_id", s.RunID.String(), "error", fault, "stack", string(debug.Stack()))
			outcome, ours = faulty(asked), true
		}
	}()
	if b.fault != nil {
		return faulty(false), true
	}
	if err := w.detach(work, b, &s); err != nil {
		return undetached(err)
	}
	ctx, cancel := context.WithCancelCause(work)
	defer cancel(nil)
	leave, other := w.underway.enter(s.RunID, &cancelableRun{token: b.claim.Token, cancel: cancel})
	if other != nil {
		w.logger.Warn("a run was started whose request is under way: the database has lost commits; nothing is sent twice", "run_id", s.RunID.String())
		return other.again(b.claim.Token)
	}
	defer leave()
	ttl := s.LockedUntil.Sub(s.StartedAt)
	if claims.Outlasts(b.target.Spec.MaxExecutionTime, ttl) {
		held := claims.FencedRun{
			EndpointID: s.EndpointID,
			RunID:      s.RunID,
			Token:      b.claim.Token,
		}
		w.beats.Hold(claims.NewLock(held, sent, ttl, cancel))
		defer w.beats.Drop(s.RunID)
	}
	failpoint.Hit(failpoint.BeforeSend)
	if outcome := w.unsent(ctx, b); outcome != nil {
		return *outcome, true
	}
	r, refusal := w.caller.Prepare(ctx, b.request(s), sent)
	if refusal != nil {
		if outcome, ours, over := lockEnded(ctx, false); over {
			return outcome, ours
		}
		return *refusal, true
	}
	w.observeLag(b.claim)
	w.bound(&r.Request, b, s, sent)
	asked = true
	answer, err := w.send(b, func() (egress.Response, error) { return w.caller.Send(ctx, s.RunID, r.Request) })
	b.last = b.HostSlot().Host()
	// The host slot is released here, because judging the answer sends nothing.
	b.Release()
	failpoint.Hit(failpoint.Answered)
	if outcome, ours, over := lockEnded(ctx, maybeSent(err)); over {
		return outcome, ours
	}
	w.caller.ForgetRefusedToken(r, answer)
	if w.cfg.Suspensions != nil && b.target.Suspends(answer, err) {
		return w.suspend(ctx, b, s, &r, answer)
	}
	now, _ := w.clock.now()
	// Judging ends with the execution, because the lock may last no longer.
	judged, done := context.WithDeadline(ctx, sent.Add(b.target.Spec.MaxExecutionTime))
	defer done()
	return w.caller.Outcome(judged, &r, b.target, request.Exchange{
		Answer: answer,
		Err:    err,
		At:     now,
	}), true
}

// bound completes a request: its validators, its host slot, and the bounds by its lock and its
// start.
func (w *Worker) bound(r *egress.Request, b *waiting, s Started, sent time.Time) {
	b.target.Ask(r)
	if p := b.HostSlot(); p != nil {
		r.HostSlot = p
	}
	r.Confirm = w.confirmation(s, b.claim.Token, sent)
	// No request leaves after the lock has ended, because a suspended process may have lost it.
	r.SendBy = claims.Ends(sent, s.LockedUntil.Sub(s.StartedAt))
	r.Extended = w.extended(s.RunID, r.SendBy)
	// The maximum execution time counts from the start.
	r.Timeout = max(time.Millisecond, min(r.Timeout, b.target.Spec.MaxExecutionTime-time.Since(sent)))
}

// observeLag records how late the request of c is sent. Manual runs are left out, because they may
// wait for the run under way.
func (w *Worker) observeLag(c claims.Claim) {
	if now, known := w.clock.now(); known && c.Source != string(governor.SourceManual) {
		w.metrics.startLag.Observe(now.Sub(c.PlannedAt).Seconds())
	}
}

// faulty is the outcome of a run that a fault inside Rubato ended. It does not count as a failure
// of the endpoint.
func faulty(asked bool) runs.Outcome {
	o := runs.Outcome{
		Status:    runs.Lost,
		Reason:    runs.InternalError,
		MaybeSent: asked,
		Error:     "a fault inside Rubato ended the run",
	}
	if !asked {
		o.Error = "nothing was sent: " + o.Error
	}
	return o
}

// extended returns a function for the send deadline of redirected requests: the end of the lock as
// last extended, or first if the heartbeater does not hold it.
func (w *Worker) extended(run runs.ID, first time.Time) func() time.Time {
	return func() time.Time {
		if ends, held := w.beats.Until(run); held {
			return ends
		}
		return first
	}
}

// missed returns the outcome of a run that is too late by its deadline or its catch-up policy. nil:
// the request is sent. The catch-up policy does not apply to retries, because their first attempt
// was in time.
func (w *Worker) missed(b *waiting) *runs.Outcome {
	now, known := w.clock.now()
	if end := b.target.Deadline; known && !end.IsZero() && now.After(end) {
		return &runs.Outcome{
			Status: runs.Skipped, Reason: runs.DeadlinePassed,
			Error: fmt.Sprintf("nothing was sent: the deadline of the one-off run passed %s before it could start", now.Sub(end).Round(time.Millisecond)),
		}
	}
	late := now.Sub(b.claim.PlannedAt)
	if !known || b.claim.Attempt > 1 || b.claim.InfraAttempt > 0 || !b.target.Spec.Misses(governor.Source(b.claim.Source), late) {
		return nil
	}
	return &runs.Outcome{
		Status: runs.Skipped, Reason: runs.MisfireSkipped,
		Error: fmt.Sprintf("nothing was sent: it was due %s ago, and occurrences that were missed are skipped (catchUp)", late.Round(time.Second)),
	}
}

// maybeSent reports whether a call with this error may have reached its target.
func maybeSent(err error) bool {
	fault, failed := errors.AsType[*egress.Error](err)
	return !failed || fault.Sent
}

// lockEnded returns the outcome of a run after the end of its lock. ours is false if another
// process took the lock, because that process writes the record.
func lockEnded(ctx context.Context, maybeSent bool) (outcome runs.Outcome, ours, over bool) {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, claims.ErrLockOver) && maybeSent:
		// Only this worker knows the outcome. If the run has been settled, the fence refuses this
		// record.
		return runs.Outcome{
			Status:    runs.Lost,
			Reason:    runs.LockLost,
			MaybeSent: true,
			Error:     "the lock could not be extended while the request was under way, so it was hung up; whether the target acted is unknown",
		}, true, true
	case errors.Is(cause, claims.ErrLockOver):
		return runs.Outcome{
			Status: runs.Lost,
			Reason: runs.LockLost,
			Error:  "nothing was sent: the lock could not be extended meanwhile",
		}, true, true
	default:
		return runs.Outcome{}, false, errors.Is(cause, claims.ErrLockLost)
	}
}
