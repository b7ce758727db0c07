package endpoints

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	"rubato/internal/governor"
)

// retry plans another attempt of a due time if the retry policy allows one and the attempt comes
// before the next due time. A one-off run is retried by endOneOff instead.
func (e *Endpoint) retry(now time.Time, run Finished, next time.Time) (Due, bool) {
	due, may := e.attempt(now, run)
	return due, may && !run.manual() && due.At.Before(next)
}

// attempt returns the next attempt of a due time if the retry policy allows one. It requires that
// attempts are left, that the failure is retryable, and that a request that may have arrived may
// arrive twice. The minimum interval also holds between attempts. A paused endpoint gets no retry.
// The next due time is not compared, because a one-off run outlives due times.
func (e *Endpoint) attempt(now time.Time, run Finished) (Due, bool) {
	policy := e.Spec.Retry
	if !run.Retryable || run.Attempt >= policy.MaxAttempts || e.PausedAt(now) {
		return Due{}, false
	}
	if run.MaybeSent && !e.Spec.allowsDuplicate() {
		return Due{}, false
	}
	at := e.afterMinimum(laterOf(now.Add(policy.wait(e.ID, run)), e.State.wait()))
	// Source stays that of the due time for every attempt. The attempt number and the retry step
	// mark the retry.
	return Due{
		At:           at,
		Slot:         run.Slot,
		Attempt:      run.Attempt + 1,
		InfraAttempt: run.InfraAttempt,
		Source:       run.Source,
	}, true
}

// replanKeepingRetry plans the next due time after a change. It keeps a queued retry that the
// policy still allows, because a hint or an edit is no reason to give up a due time.
func (e *Endpoint) replanKeepingRetry(now time.Time, before *Endpoint, cause Cause) (Recorded, error) {
	waiting, may := e.queuedRetry(now, before)
	if !may {
		e.giveUpWaiting(now, before, cause)
		return e.Replan(now)
	}
	failures := e.State.FailureCount
	if e.State.LastRun.failed() { // Without a retry the failure would count, and the next due time follows from the count.
		e.State.FailureCount++
	}
	decided, err := e.Replan(now)
	e.State.FailureCount = failures
	if err != nil {
		return Recorded{}, err
	}
	if !waiting.At.Before(decided.Due.At) {
		e.giveUpWaiting(now, before, cause)
		return e.Replan(now)
	}
	step := e.retryStep(waiting)
	if before.State.waitsForInfra() {
		step = infraStep(waiting, "")
	}
	e.planRetry(&decided, waiting, step)
	return decided, nil
}

// giveUpWaiting ends the due time of an attempt that a change drops: the run before it was the last
// one. It does not count as a failure if the change resets them. A pause withdraws the attempt
// instead, and its due time counts neither as failed nor as run.
func (e *Endpoint) giveUpWaiting(now time.Time, before *Endpoint, cause Cause) {
	waiting, last := before.State.Due, e.State.LastRun
	if waiting.first() || waiting.Source == governor.SourceManual || last == nil || !last.Slot.Equal(waiting.Slot) || e.PausedAt(now) {
		return
	}
	run := Finished{
		Slot:         last.Slot,
		Attempt:      last.Attempt,
		InfraAttempt: last.InfraAttempt,
		Source:       waiting.Source,
		StartedAt:    last.StartedAt,
		FinishedAt:   last.FinishedAt,
		Status:       last.Status,
	}
	if last.failed() {
		run.Verdict = Failure
	}
	if cause != CauseResetFailures {
		e.State.FailureCount = run.Verdict.failures(e.State.FailureCount)
	}
	e.countRun(run)
	e.Dropped, e.GivenUp, e.ChainStarts = true, e.Spec.GivesUp(run), e.Spec.chainStarts(run)
}

// queuedRetry returns the retry that was planned before a change, if the policy still allows it
// after the change. A repetition after a loss is one too. The policy before the change stands in
// for MaybeSent, because the state does not store whether the earlier request may have arrived.
func (e *Endpoint) queuedRetry(now time.Time, before *Endpoint) (Due, bool) {
	waiting, s := before.State.Due, e.State
	if waiting.first() || waiting.Attempt > e.Spec.Retry.MaxAttempts || s.LastRun == nil || waiting.Source == governor.SourceManual || s.OneOffs.Next.first() || e.PausedAt(now) {
		return Due{}, false
	}
	bears := (*Spec).allowsDuplicate
	if before.State.waitsForInfra() {
		bears = (*Spec).allowsRepeatAfterLoss
	}
	if bears(&before.Spec) && !bears(&e.Spec) {
		return Due{}, false
	}
	waiting.At = laterOf(e.afterMinimum(waiting.At), now)
	return waiting, true
}

// planRetry replaces a decision by another attempt, and appends the step that explains it.
func (e *Endpoint) planRetry(decided *Recorded, due Due, step governor.Step) {
	e.State.Due, decided.Due = due, due
	decided.Decision = governor.Decision{
		At:     due.At,
		Slot:   due.Slot,
		Source: due.Source,
		Steps:  append(decided.Decision.Steps, step),
	}
}

// retryStep returns the trace step of a retry.
func (e *Endpoint) retryStep(due Due) governor.Step {
	why := fmt.Sprintf("attempt %d of %d for the same due time", due.Attempt, e.Spec.Retry.MaxAttempts)
	return governor.Step{
		Rule: RuleRetry,
		At:   due.At,
		Why:  why,
	}
}

// afterMinimum moves an instant to the earliest one that the minimum interval permits.
func (e *Endpoint) afterMinimum(at time.Time) time.Time {
	return governor.AfterMinimum(at, e.State.LastCall, e.Spec.MinInterval)
}

// allowsDuplicate reports whether a request that may have arrived may be sent again by the retry
// policy.
func (s *Spec) allowsDuplicate() bool { return s.IdempotentMethod() || s.Idempotent || s.StartsChain() }

// wait returns the time before the next attempt: exponential backoff with full jitter. The jitter
// is a hash of endpoint, due time and attempt, so that the result is deterministic.
func (r Retry) wait(id ID, run Finished) time.Duration {
	bound := r.Backoff
	for range run.Attempt - 1 {
		bound = min(bound*2, r.MaxBackoff)
	}
	bound = min(bound, r.MaxBackoff)
	return share(id, run.Slot, uint64(run.Attempt), bound)
}

// share returns a part of a bound in whole milliseconds. It is a hash of endpoint, due time and
// attempt.
func share(id ID, slot time.Time, attempt uint64, bound time.Duration) time.Duration {
	h := fnv.New64a()
	h.Write(id[:])
	var seed [16]byte
	binary.BigEndian.PutUint64(seed[:8], uint64(slot.UnixMilli()))
	binary.BigEndian.PutUint64(seed[8:], attempt)
	h.Write(seed[:])
	return time.Duration(h.Sum64()%uint64(bound.Milliseconds()+1)) * time.Millisecond
}
