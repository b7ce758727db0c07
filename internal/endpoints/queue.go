package endpoints

import (
	"slices"
	"time"

	"rubato/internal/governor"
)

// queues reports whether due times that pass while a run holds the endpoint's own row wait for
// their turn. With overlap: allow these are one-off runs, and runs beyond [MaxDetached].
func (e *Endpoint) queues() bool {
	return e.Spec.Overlap == governor.OverlapQueue || e.Spec.Overlap == governor.OverlapAllow
}

// hasQueue reports whether due times wait in the queue: not all that passed until the end of the
// last run are accounted for.
func (e *Endpoint) hasQueue() bool {
	last := e.State.LastRun
	return e.queues() && last != nil && e.accountedUntil().Before(last.FinishedAt)
}

// queuedUntil returns the instant up to which due times are queued: the end of the last run, which
// is now if that end is the cause of the decision.
func (e *Endpoint) queuedUntil(now time.Time, cause governor.Cause) time.Time {
	switch last := e.State.LastRun; {
	case !e.queues():
		return time.Time{}
	case cause != governor.CauseReplan:
		return now
	case last == nil:
		return time.Time{}
	default:
		return last.FinishedAt
	}
}

// oldestQueued returns the oldest due time of the queue after a decision; zero: the queue is empty.
// If a one-off run or another attempt comes first, it asks the governor again, because the plan
// does not hold its decision.
func (e *Endpoint) oldestQueued(decided *Recorded) time.Time {
	if decided == nil || !e.queues() {
		return time.Time{}
	}
	d := decided.Decision
	if decided.Due.Source == governor.SourceManual || !decided.Due.first() {
		d = governor.Decide(decided.Input)
	}
	queued := slices.ContainsFunc(d.Steps, func(s governor.Step) bool { return s.Rule == governor.RuleQueued })
	if !queued || d.Slot.After(decided.At) { // A pause ends the queue.
		return time.Time{}
	}
	return d.Slot
}
