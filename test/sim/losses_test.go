package sim

import (
	"net/http"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
)

// tries identifies a run of its due time: the attempt of the retry policy, and the number of runs
// that infrastructure lost before it.
type tries struct{ attempt, infra int }

func (n tries) first() bool { return n.attempt <= 1 && n.infra == 0 }

func (s *schedule) tries() tries { return tries{s.Attempt, s.InfraAttempt} }
func (l *liveRun) tries() tries  { return tries{l.Attempt, l.InfraAttempt} }
func (r *pastRun) tries() tries  { return tries{r.Attempt, r.InfraAttempt} }

func triesOf(run runs.Run) tries { return tries{run.Attempt, run.InfraAttempt} }

// lossBudget is the maximum number of repetitions of a due time after losses.
const lossBudget = 3

// wasLost reports whether a run ended without fault of its target.
func wasLost(run runs.Run) bool {
	switch run.Outcome.Reason {
	case runs.WorkerLost, runs.LockLost, runs.Shutdown, runs.StartExpired:
		return true
	default:
		return false
	}
}

// bearsLoss reports whether a request that may have arrived may be repeated without a retry policy.
func bearsLoss(spec endpoints.Spec) bool {
	return spec.Idempotent || spec.Method == http.MethodGet || spec.Method == http.MethodHead || spec.Method == http.MethodOptions
}

// lossWait returns the bounds of the wait before the repetition after a loss.
func lossWait(run runs.Run) (least, most time.Duration) {
	switch run.InfraAttempt {
	case 0:
		return time.Second, 2 * time.Second
	case 1:
		return 4 * time.Second, 8 * time.Second
	default:
		return 16 * time.Second, 30 * time.Second
	}
}

// judgeRepeat judges a repetition after a loss.
func (w *world) judgeRepeat(run runs.Run, spec endpoints.Spec, before, after *schedule, next governor.Decision) {
	w.t.Helper()
	w.reach("infrastructure attempt")
	w.ensure(after.tries() == (tries{run.Attempt, run.InfraAttempt + 1}) && after.Slot.Equal(run.ScheduledFor) && after.Source == run.Source,
		"run %s is tried again as another", runName(run.ID))
	w.ensure(wasLost(run) && run.InfraAttempt < lossBudget, "run %s is tried again outside the budget of losses", runName(run.ID))
	w.ensure(!run.Outcome.MaybeSent || bearsLoss(spec), "run %s was lost, may have arrived and is sent again", runName(run.ID))
	w.ensure(!before.PausedUntil.After(w.now()), "run %s is tried again while paused", runName(run.ID))
	w.ensure(after.PlannedAt.Before(next.At), "run %s is tried again at %s, past the next due time %s", runName(run.ID), after.PlannedAt, next.At)
	least, most := lossWait(run)
	w.ensure(!after.PlannedAt.Before(notBefore(spec, after, w.now().Add(least))), "run %s is tried again at %s, too soon", runName(run.ID), after.PlannedAt)
	w.ensure(!after.PlannedAt.After(notBefore(spec, after, w.now().Add(most+time.Millisecond))), "run %s is tried again at %s", runName(run.ID), after.PlannedAt)
	w.ensure(after.FailureCount == before.FailureCount, "a run that was lost counted as a failure")
}

// mustRepeat reports whether a lost run must be repeated for any jitter.
func mustRepeat(run runs.Run, spec endpoints.Spec, s *schedule, now time.Time, next governor.Decision) bool {
	if !wasLost(run) || run.InfraAttempt >= lossBudget || s.PausedUntil.After(now) || !s.ManualAt.IsZero() {
		return false
	}
	_, most := lossWait(run)
	return (!run.Outcome.MaybeSent || bearsLoss(spec)) && notBefore(spec, s, now.Add(most)).Before(next.At)
}
