package endpoints

import (
	"fmt"
	"time"

	"rubato/internal/governor"
)

// RuleInfraRetry plans the same due time again because infrastructure lost its run.
const RuleInfraRetry governor.Rule = "infra-retry"

// InfraBudget is how many runs of one due time are tried again because infrastructure lost them. They are no attempts of the retry policy.
const InfraBudget = 3

const (
	infraWait    = time.Second      // the least wait before the first infrastructure attempt; four times as long before each later one
	infraMaxWait = 30 * time.Second // the longest wait
)

// repeatLoss plans the due time again that a run stood for, if infrastructure lost the run and another request does no harm: nothing was
// sent, the method is safe, or the endpoint is idempotent. The budget, a pause, the minimum interval, a wait that the target asked for
// and the next due time bound it.
func (e *Endpoint) repeatLoss(now time.Time, run Finished, next time.Time) (Due, bool) {
	due, may := e.afterLoss(now, run)
	return due, may && !run.manual() && due.At.Before(next)
}

// afterLoss is repeatLoss whatever is due before: a one-off run that was lost gives way to due times and does not fall to them.
func (e *Endpoint) afterLoss(now time.Time, run Finished) (Due, bool) {
	if !run.Interrupted || run.InfraAttempt >= InfraBudget || e.PausedAt(now) {
		return Due{}, false
	}
	if run.MaybeSent && !e.Spec.bearsLoss() {
		return Due{}, false
	}
	at := e.afterMinimum(laterOf(now.Add(lossWait(e.ID, run)), e.State.RetryAfter))
	return Due{At: at, Slot: run.Slot, Attempt: run.Attempt, InfraAttempt: run.InfraAttempt + 1, Source: run.Source}, true
}

// bearsLoss reports whether a request whose outcome is unknown may be sent again although no retry policy asks for it.
func (s Spec) bearsLoss() bool { return s.Idempotent || s.SafeMethod() }

// lossWait returns the time before the next infrastructure attempt: 1 to 2 s, 4 to 8 s, then 16 to 30 s. It is stable, as a wait between
// attempts is.
func lossWait(id ID, run Finished) time.Duration {
	least := infraWait << (2 * run.InfraAttempt)
	spread := min(2*least, infraMaxWait) - least
	return least + share(id, run.Slot, uint64(run.InfraAttempt+1)<<32|uint64(run.Attempt), spread) //nolint:gosec // Small and never negative.
}

// waitsForInfra reports whether the plan is another run of a due time whose newest run infrastructure lost.
func (s State) waitsForInfra() bool {
	return s.LastRun != nil && s.Due.InfraAttempt > s.LastRun.InfraAttempt
}

// infraStep explains an infrastructure attempt. Why the run before it was lost is empty where that is not known any more.
func infraStep(due Due, reason string) governor.Step {
	why := fmt.Sprintf("infrastructure attempt %d of %d", due.InfraAttempt, InfraBudget)
	if reason != "" {
		why += " after " + reason
	}
	return governor.Step{Rule: RuleInfraRetry, At: due.At, Why: why}
}
