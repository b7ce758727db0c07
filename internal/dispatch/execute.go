package dispatch

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"rubato/internal/claims"
	"rubato/internal/egress"
	"rubato/internal/failpoint"
	"rubato/internal/runs"
)

// sendLimit is how much time may pass between the statement that started a run and its first byte. Past it the process was
// stopped, and what was true at the start may not be any more: nothing is sent.
const sendLimit = time.Second

// execute runs one execution to its end. recorded is false where the lock was lost, and somebody else writes the record.
func (w *Worker) execute(work context.Context, b waiting, s Started, sent time.Time) (outcome runs.Outcome, recorded bool) {
	defer func() {
		if fault := recover(); fault != nil {
			w.metrics.panics.Inc()
			w.logger.Error("a run panicked", "run_id", s.RunID.String(), "error", fault, "stack", string(debug.Stack()))
			outcome = runs.Outcome{Status: runs.Lost, Reason: runs.InternalError, MaybeSent: true, Error: "a fault inside Rubato ended the run"}
			recorded = true
		}
	}()
	ctx, cancel := context.WithCancelCause(work)
	defer cancel(nil)
	if ttl := s.LockedUntil.Sub(s.StartedAt); claims.Outlasts(b.target.Spec.MaxExecutionTime, ttl) {
		held := claims.Held{RunID: s.RunID, Token: b.claim.Token}
		w.beats.Hold(claims.NewLock(held, sent, ttl, cancel))
		defer w.beats.Drop(s.RunID)
	}
	defer w.underway.enter(s.RunID, &flight{token: b.claim.Token, cancel: cancel})()
	failpoint.Hit(failpoint.BeforeSend)
	if canceled, is := errors.AsType[*canceledError](context.Cause(ctx)); is {
		return unsent(canceled), true
	}
	if late := time.Since(sent); late > sendLimit {
		return runs.Outcome{
			Status: runs.Skipped, Reason: runs.StartExpired,
			Error: fmt.Sprintf("nothing was sent: the worker stood still for %s after the start", late.Round(time.Millisecond)),
		}, true
	}
	if now, known := w.clock.now(); known {
		w.metrics.startLag.Observe(now.Sub(b.claim.PlannedAt).Seconds())
	}
	r := request(b, s)
	r.Timeout = max(time.Millisecond, min(r.Timeout, b.target.Spec.MaxExecutionTime-time.Since(sent))) // The execution began with its start.
	answer, err := w.send(ctx, s.RunID, r)
	failpoint.Hit(failpoint.Answered)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, claims.ErrLockOver): // Only this worker knows; where somebody has settled the run, its word changes nothing.
		return runs.Outcome{
			Status: runs.Lost, Reason: runs.LockLost, MaybeSent: true,
			Error: "the lock could not be extended while the request was under way, so it was hung up; whether the target acted is unknown",
		}, true
	case errors.Is(cause, claims.ErrLockLost):
		return runs.Outcome{}, false
	}
	now, _ := w.clock.now()
	return classify(ctx, b.target, answer, err, now), true
}

// send sends the request of a run, and tells the tracer of it where there is one.
func (w *Worker) send(ctx context.Context, id runs.ID, r egress.Request) (egress.Response, error) {
	if w.cfg.Tracer == nil {
		return w.cfg.Egress.Do(ctx, r)
	}
	traceparent, done := w.cfg.Tracer.Request(id, r)
	if traceparent != "" {
		r.Meta.Set("Traceparent", traceparent)
	}
	answer, err := w.cfg.Egress.Do(ctx, r)
	done(answer, err)
	return answer, err
}

// request builds the request of a run.
func request(b waiting, s Started) egress.Request {
	spec := b.target.Spec
	key := runs.NewID(b.claim.Slot, b.claim.EndpointID, 1) // The same for every attempt of one due time.
	trace := hex.EncodeToString(s.RunID[:])
	return egress.Request{
		Method: spec.Method,
		URL:    spec.URL,
		Header: b.target.Header,
		Meta: http.Header{
			"Rubato-Run-Id":        {s.RunID.String()},
			"Rubato-Attempt":       {strconv.Itoa(b.claim.Attempt)},
			"Rubato-Scheduled-For": {b.claim.Slot.UTC().Format("2006-01-02T15:04:05.000Z")},
			"Rubato-Fence":         {strconv.FormatInt(b.claim.Token, 10)},
			"Idempotency-Key":      {key.String()},
			"Traceparent":          {"00-" + trace + "-" + trace[16:] + "-01"},
		},
		Body:         []byte(spec.Body),
		Timeout:      spec.Timeout,
		MaxBody:      int64(spec.MaxResponseKB) << 10,
		MaxRedirects: spec.FollowRedirects,
	}
}
