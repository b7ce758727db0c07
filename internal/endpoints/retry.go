package endpoints

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	"rubato/internal/governor"
)

// retry plans another attempt of the due time that run stood for, where the policy allows one: attempts are left, the failure is
// of a class that trying again may mend, a request that may have arrived may arrive twice, and the attempt would come before the
// next due time. The minimum interval holds between attempts as well. A paused endpoint is not tried again.
func (e *Endpoint) retry(now time.Time, run Finished, next time.Time) (Due, bool) {
	due, may := e.attempt(now, run)
	return due, may && !run.manual() && due.At.Before(next)
}

// attempt returns the next attempt of the due time that a run stood for, where the policy allows one, whatever is due before it. The wait
// of a one-off run ends at its own time: it gives way to due times and does not fall to them.
func (e *Endpoint) attempt(now time.Time, run Finished) (Due, bool) {
	policy := e.Spec.Retry
	if !run.Retryable || run.Attempt >= policy.MaxAttempts || e.PausedAt(now) {
		return Due{}, false
	}
	if run.MaybeSent && !e.Spec.bearsRepetition() {
		return Due{}, false
	}
	at := e.afterMinimum(laterOf(now.Add(policy.wait(e.ID, run)), e.State.RetryAfter))
	// What set the due time set it for every attempt: that this is a further one, its number and the step retry tell.
	return Due{At: at, Slot: run.Slot, Attempt: run.Attempt + 1, InfraAttempt: run.InfraAttempt, Source: run.Source}, true
}

// keepTrying decides the next due time afresh after a change, and keeps the attempt that waits, if any, as far as the policy still has it: a
// new hint or an edit is no reason to give a due time up.
func (e *Endpoint) keepTrying(now time.Time, before *Endpoint) (Recorded, error) {
	waiting, may := e.waitingAttempt(now, before)
	if !may {
		return e.Replan(now)
	}
	failures := e.State.FailureCount
	if e.State.LastRun.failed() { // It counts once there is no further attempt, and the next due time is where that would put it.
		e.State.FailureCount++
	}
	decided, err := e.Replan(now)
	e.State.FailureCount = failures
	if err != nil {
		return Recorded{}, err
	}
	if !waiting.At.Before(decided.Due.At) {
		return e.Replan(now)
	}
	step := e.retryStep(waiting)
	if before.State.waitsForInfra() {
		step = infraStep(waiting, "")
	}
	e.tryAgain(&decided, waiting, step)
	return decided, nil
}

// waitingAttempt returns the further attempt of a due time that was planned before a change, where the policy has it after the change. An
// infrastructure attempt is one.
// Whether the request of the attempt before it may have arrived is not known any more: the policy before the change permitted another.
func (e *Endpoint) waitingAttempt(now time.Time, before *Endpoint) (Due, bool) {
	waiting, s := before.State.Due, e.State
	if waiting.first() || waiting.Attempt > e.Spec.Retry.MaxAttempts || s.LastRun == nil || waiting.Source == governor.SourceManual || s.OneOffs.Next.first() || e.PausedAt(now) {
		return Due{}, false
	}
	bears := Spec.bearsRepetition
	if before.State.waitsForInfra() {
		bears = Spec.bearsLoss
	}
	if bears(before.Spec) && !bears(e.Spec) {
		return Due{}, false
	}
	waiting.At = laterOf(e.afterMinimum(waiting.At), now)
	return waiting, true
}

// tryAgain plans another attempt in place of what was decided, for the reason that a step names.
func (e *Endpoint) tryAgain(decided *Recorded, due Due, step governor.Step) {
	e.State.Due, decided.Due = due, due
	decided.Decision = governor.Decision{At: due.At, Slot: due.Slot, Source: due.Source, Steps: append(decided.Decision.Steps, step)}
}

// retryStep explains an attempt of the retry policy.
func (e *Endpoint) retryStep(due Due) governor.Step {
	why := fmt.Sprintf("attempt %d of %d for the same due time", due.Attempt, e.Spec.Retry.MaxAttempts)
	return governor.Step{Rule: RuleRetry, At: due.At, Why: why}
}

// afterMinimum moves an instant to where the minimum lets another run start.
func (e *Endpoint) afterMinimum(at time.Time) time.Time {
	return governor.AfterMinimum(at, e.State.LastCall, e.Spec.MinInterval)
}

// bearsRepetition reports whether a request that may have arrived may arrive twice.
func (s Spec) bearsRepetition() bool { return s.IdempotentMethod() || s.Idempotent }

// wait returns the time before the next attempt: full jitter (a share of the doubled and capped backoff), drawn from a hash of
// the endpoint, the due time and the attempt, so that it is stable.
func (r Retry) wait(id ID, run Finished) time.Duration {
	bound := r.Backoff
	for range run.Attempt - 1 {
		bound = min(bound*2, r.MaxBackoff)
	}
	bound = min(bound, r.MaxBackoff)
	return share(id, run.Slot, uint64(run.Attempt), bound) //nolint:gosec // Counted from 1.
}

// share returns a part of a bound in whole milliseconds, drawn from a hash of the endpoint, the due time and the attempt.
func share(id ID, slot time.Time, attempt uint64, bound time.Duration) time.Duration {
	h := fnv.New64a()
	h.Write(id[:])
	var seed [16]byte
	binary.BigEndian.PutUint64(seed[:8], uint64(slot.UnixMilli()))
	binary.BigEndian.PutUint64(seed[8:], attempt)
	h.Write(seed[:])
	return time.Duration(h.Sum64()%uint64(bound.Milliseconds()+1)) * time.Millisecond //nolint:gosec // At most 24 h.
}
