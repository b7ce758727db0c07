package endpoints

import (
	"fmt"
	"time"

	"rubato/internal/governor"
)

// RuleInfraRetry plans the same due time again because infrastructure lost its run.
const RuleInfraRetry governor.Rule = "infra-retry"

// InfraBudget is the maximum number of repetitions of one due time after infrastructure lost its
// run. They do not count as attempts of the retry policy.
const InfraBudget = 3

// CircuitBudget is the maximum number of repetitions of one due time that the breaker of its host
// held back. Its windows double, so a due time waits for its host for over an hour.
const CircuitBudget = 10

// circuitReason is the reason code of such runs.
const circuitReason = "circuit_open"

const (
	infraWait    = time.Second      // least wait before the first repetition; each later one waits four times as long
	infraMaxWait = 30 * time.Second // maximum wait
)

// retryLoss plans a due time again if infrastructure lost its run, or the breaker of its host held
// it back, and another request does no harm. That is so if nothing was sent, if the method is safe,
// or if the endpoint is idempotent. The bounds are the budget, a pause, the minimum interval, waits
// of the target and the next due time.
func (e *Endpoint) retryLoss(now time.Time, run Finished, next time.Time) (Due, bool) {
	due, may := e.lossRetry(now, run)
	return due, may && !run.manual() && due.At.Before(next)
}

// lossRetry is retryLoss without the bound of the next due time, because a one-off run outlives due
// times.
func (e *Endpoint) lossRetry(now time.Time, run Finished) (Due, bool) {
	if !run.Interrupted && run.OpenUntil.IsZero() || run.InfraAttempt >= run.infraBudget() || e.PausedAt(now) {
		return Due{}, false
	}
	if run.MaybeSent && !e.Spec.allowsRepeatAfterLoss() {
		return Due{}, false
	}
	at := run.OpenUntil
	if at.IsZero() {
		at = now.Add(lossWait(e.ID, run))
	}
	at = e.afterMinimum(laterOf(at, e.State.wait()))
	return Due{
		At:           at,
		Slot:         run.Slot,
		Attempt:      run.Attempt,
		InfraAttempt: run.InfraAttempt + 1,
		Source:       run.Source,
	}, true
}

// infraBudget returns the maximum number of repetitions of the run's due time.
func (f Finished) infraBudget() int {
	if f.OpenUntil.IsZero() {
		return InfraBudget
	}
	return CircuitBudget
}

// allowsRepeatAfterLoss reports whether a request with an unknown outcome may be sent again without
// a retry policy.
func (s *Spec) allowsRepeatAfterLoss() bool { return s.Idempotent || s.SafeMethod() || s.StartsChain() }

// lossWait returns the backoff before a repetition: 1 to 2 s, 4 to 8 s, then 16 to 30 s. Like the
// backoff of retries it is deterministic.
func lossWait(id ID, run Finished) time.Duration {
	least := infraWait << (2 * run.InfraAttempt)
	spread := min(2*least, infraMaxWait) - least
	return least + share(id, run.Slot, uint64(run.InfraAttempt+1)<<32|uint64(run.Attempt), spread)
}

// waitsForInfra reports whether the planned run repeats a due time whose last run infrastructure
// lost.
func (s State) waitsForInfra() bool {
	return s.LastRun != nil && s.Due.InfraAttempt > s.LastRun.InfraAttempt
}

// infraStep returns the trace step of a repetition after a loss. reason is empty if it is no longer
// known.
func infraStep(due Due, reason string) governor.Step {
	why := fmt.Sprintf("infrastructure attempt %d of %d", due.InfraAttempt, max(InfraBudget, due.InfraAttempt))
	switch reason {
	case "":
	case circuitReason:
		why = fmt.Sprintf("attempt %d of %d to find the circuit of the host closed", due.InfraAttempt, CircuitBudget)
	default:
		why += " after " + reason
	}
	return governor.Step{
		Rule: RuleInfraRetry,
		At:   due.At,
		Why:  why,
	}
}
