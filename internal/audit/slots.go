package audit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"rubato/internal/runs"
)

// maxDoublings bounds the backoff, which doubles the interval per consecutive failure.
const maxDoublings = 5

// checkSlots generates the slots between consecutive runs and checks that each has a run or a skip
// record. It also reports slots with two records, or with a record and a run. It skips runs with a
// hint, a clamp or jitter, and pairs with a change other than one pause between them, because the
// history alone does not determine their slots.
func (a *auditor) checkSlots(e *endpoint) {
	slices.SortFunc(e.skipped, func(x, y skip) int { return cmp.Or(x.To.Compare(y.To), x.From.Compare(y.From)) })
	a.checkRecords(e)
	for i := 0; i+1 < len(e.runs); i++ {
		r, next := e.runs[i], e.runs[i+1]
		if !e.plain(r) || !e.plain(next) || next.Slot.Equal(r.Slot) {
			continue
		}
		from, known := a.anchor(e, i)
		if !known {
			continue
		}
		changes := e.changesBetween(r, next)
		switch {
		case len(changes) == 0:
			a.checkSlotsUnder(e, r, next, from)
		case len(changes) == 1 && changes[0].Cause == "pause" && !changes[0].At.Before(r.FinishedAt):
			a.checkPausedSlots(e, r, changes[0], pausedSlots{from: from, next: next.Slot})
		}
	}
}

// checkRecords checks that skip records overlap neither each other nor a run. Manual runs are
// ignored, because they have no slot of the schedule.
func (a *auditor) checkRecords(e *endpoint) {
	for i, s := range e.skipped {
		a.report.looked(OneRecord)
		if i > 0 && !s.From.After(e.skipped[i-1].To) {
			a.report.breach(OneRecord, e.id, s.ID, fmt.Sprintf("the slots from %s to %s overlap with those up to %s of record %s",
				clock(s.From), clock(s.To), clock(e.skipped[i-1].To), e.skipped[i-1].ID))
		}
		if s.Count == 1 && !s.From.Equal(s.To) || s.From.After(s.To) {
			a.report.breach(OneRecord, e.id, s.ID, fmt.Sprintf("%d slots from %s to %s", s.Count, clock(s.From), clock(s.To)))
		}
	}
	for _, r := range e.all() {
		at, found := e.record(r.Slot)
		// An immediate run may be planned in the very millisecond in which a record was written.
		if r.Source == "manual" || !found || at.RecordedAt.Equal(r.Slot) {
			continue
		}
		a.report.breach(OneRecord, e.id, r.ID, fmt.Sprintf("the slot %s has a run and is recorded as skipped by %s", clock(r.Slot), at.ID))
	}
}

// record returns the skip record that contains a slot.
func (e *endpoint) record(slot time.Time) (skip, bool) {
	i, _ := slices.BinarySearchFunc(e.skipped, slot, func(s skip, at time.Time) int { return s.To.Compare(at) })
	if i == len(e.skipped) || slot.Before(e.skipped[i].From) {
		return skip{}, false
	}
	return e.skipped[i], true
}

// steered reports whether a person, the target or the breaker of its host set a due time.
func steered(source string) bool {
	return source == "manual" || source == "retry-after" || source == "target" || source == "circuit-open"
}

// plain reports whether the baseline alone determines the slot after a run.
func (e *endpoint) plain(r *run) bool {
	if e.hinted || e.jitter > 0 || r.Version != e.version || !r.first() || steered(r.Source) {
		return false
	}
	if e.cron != nil {
		return e.min <= time.Second && e.max == 0
	}
	return e.interval > 0 && e.min <= e.interval && (e.max == 0 || e.max >= e.interval<<maxDoublings)
}

func (e *endpoint) changesBetween(r, next *run) []decision {
	var list []decision
	for _, d := range e.decisions {
		if !d.At.Before(r.ClaimedAt) && !d.At.After(next.StartedAt) {
			list = append(list, d)
		}
	}
	return list
}

// anchor returns the instant from which the schedule counts after run i. It is the slot in these
// cases: the run was skipped, was a further attempt, was queued, the cron catches up on all
// occurrences, or the start was at most [lateStart] after the plan. Otherwise it is the start. It
// is unknown if the plan depends on a previous decision that lies outside the window or is
// ambiguous.
func (a *auditor) anchor(e *endpoint, i int) (at time.Time, known bool) {
	r := e.runs[i]
	if !r.first() || r.Status == runs.Skipped || e.catchesUp || r.StartedAt.Sub(r.Slot) <= lateStart {
		return r.Slot, true
	}
	planned := r.Slot
	if e.waits() {
		if i == 0 {
			return time.Time{}, false
		}
		if e.queues && !r.Slot.After(e.runs[i-1].FinishedAt) {
			return r.Slot, true
		}
		if planned, known = e.plannedAfter(e.runs[i-1], r); !known {
			return time.Time{}, false
		}
	}
	if r.StartedAt.Sub(planned) <= lateStart {
		return r.Slot, true
	}
	return r.StartedAt.Truncate(time.Millisecond), true
}

// plannedAfter returns the planned instant of run r, which follows run before. It is known only if
// exactly one decision can have planned r. Changes while before was live are ignored, because they
// plan nothing.
func (e *endpoint) plannedAfter(before, r *run) (at time.Time, known bool) {
	var plans []time.Time
	if before.NextRunAt != nil {
		plans = append(plans, before.NextRunAt.UTC())
	}
	for _, d := range e.decisions {
		if !d.At.Before(before.FinishedAt) && !d.At.After(r.StartedAt) {
			plans = append(plans, d.NextRunAt.UTC())
		}
	}
	if len(plans) != 1 {
		return time.Time{}, false
	}
	return plans[0], true
}

// waits reports whether a run may be planned after its slot. Reasons are jitter, the minimum
// interval, catch-up on a missed occurrence, and the queue.
func (e *endpoint) waits() bool {
	return e.jitter > 0 || e.min > 0 || e.catchesUp || e.runsOnce || e.queues
}

// after returns the slot after an instant, under the interval, cron and failures in force after a
// run.
func (e *endpoint) after(r *run, at time.Time) time.Time {
	if e.cron != nil {
		return e.cron.Next(at)
	}
	return at.Add(e.interval << min(max(r.Failures, 0), maxDoublings))
}

// checkSlotsUnder reports slots that passed during a run without a record. The next run of a cron
// may stand for a missed occurrence; then only earlier slots count as missed. If its slot is not an
// occurrence, it is the instant of planning, and the run stands for the last missed slot.
func (a *auditor) checkSlotsUnder(e *endpoint, r, next *run, from time.Time) {
	a.checkQueue(e, r, next, from)
	// Without catch-up and queue, the next run never stands for a slot before the end of this run.
	if next.Slot.Before(r.FinishedAt) && !e.catchesUp && !e.runsOnce && !e.queues {
		return
	}
	missing := e.missing(r, from, earlier(r.FinishedAt, next.Slot.Add(-1)))
	a.report.looked(OneRecord)
	planned := e.cron != nil && !e.catchesUp && !e.cron.Next(next.Slot.Add(-time.Second)).Equal(next.Slot)
	if len(missing) == 0 || planned && len(missing) == 1 && e.after(r, missing[0]).After(next.Slot) {
		return
	}
	a.report.breach(OneRecord, e.id, r.ID, fmt.Sprintf("the slot %s passed before the end of the run at %s without a record",
		clock(missing[0]), clock(r.FinishedAt)))
}

// The bounds of the queue: the number of slots that wait, and their age.
const (
	queueLimit = 100
	queueReach = 24 * time.Hour
)

// checkQueue reports a slot that passed during a run of an endpoint with a queue, if the next run
// stands for a later one.
func (a *auditor) checkQueue(e *endpoint, r, next *run, from time.Time) {
	first := e.after(r, from)
	if !e.queues || first.IsZero() || first.After(r.FinishedAt) || first.Before(r.FinishedAt.Add(-queueReach)) {
		return
	}
	last := first
	for range queueLimit - 1 {
		last = e.after(r, last)
	}
	if !e.after(r, last).After(r.FinishedAt) { // There are more than may wait.
		return
	}
	a.report.looked(OneRecord)
	if next.Slot.After(first) {
		a.report.breach(OneRecord, e.id, next.ID, fmt.Sprintf("the slot %s passed before the end of run %s at %s, and the next run stands for %s",
			clock(first), r.ID, clock(r.FinishedAt), clock(next.Slot)))
	}
}

// pausedSlots is the range of slots around a pause: from the anchor to the slot of the next run.
type pausedSlots struct{ from, next time.Time }

// checkPausedSlots reports slots without a record in a pause that ended at its set time.
func (a *auditor) checkPausedSlots(e *endpoint, r *run, pause decision, slots pausedSlots) {
	if slots.next.Before(pause.NextRunAt) || r.Status == runs.Lost {
		return
	}
	a.report.looked(OneRecord)
	from := slots.from
	for at := e.after(r, from); !at.After(pause.At) && at.Before(pause.NextRunAt); at = e.after(r, from) {
		from = at
	}
	if missing := e.missing(r, from, pause.NextRunAt.Add(-1)); len(missing) > 0 {
		a.report.breach(OneRecord, e.id, r.ID, fmt.Sprintf("the slot %s passed in the pause from %s to %s without a record",
			clock(missing[0]), clock(pause.At), clock(pause.NextRunAt)))
	}
}

// missing returns at most two slots in (from, until] without a skip record. It jumps over recorded
// ranges, so that long ranges cost one step.
func (e *endpoint) missing(r *run, from, until time.Time) []time.Time {
	var list []time.Time
	for at := e.after(r, from); !at.IsZero() && !at.After(until) && len(list) < 2; at = e.after(r, at) {
		if s, found := e.record(at); found {
			at = e.lastIn(r, at, s.To)
			continue
		}
		list = append(list, at)
	}
	return list
}

// lastIn returns the last slot up to until, given the slot at.
func (e *endpoint) lastIn(r *run, at, until time.Time) time.Time {
	if e.cron != nil {
		return until // A record ends at an occurrence.
	}
	return until.Add(-(until.Sub(at) % e.after(r, at).Sub(at)))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
