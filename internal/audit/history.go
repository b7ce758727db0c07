package audit

import (
	"fmt"
	"slices"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// lateStart is the maximum lateness of a start at which the schedule still counts from the due
// time.
const lateStart = time.Second

// checkFences checks the runs of an endpoint in fence order. It compares the end of a run with the
// start of the next without tolerance, although workers use their own clocks. That is sound because
// a finish clamps both instants between the start and the end of the live row, by the database's
// clock.
func (a *auditor) checkFences(e *endpoint) {
	var before *run
	for _, r := range e.all() {
		if e.overlaps && before != nil && !before.Slot.Equal(r.Slot) {
			before = nil
		}
		if before != nil {
			a.report.looked(FencesIncrease)
			if r.Token == before.Token {
				a.report.breach(FencesIncrease, e.id, r.ID, fmt.Sprintf("run %s has the same fence %d", before.ID, r.Token))
			}
			if r.ClaimedAt.Before(before.ClaimedAt) {
				a.report.breach(FencesIncrease, e.id, r.ID, fmt.Sprintf("fence %d was claimed at %s, before fence %d of run %s at %s",
					r.Token, clock(r.ClaimedAt), before.Token, before.ID, clock(before.ClaimedAt)))
			}
			if r.StartedAt.Before(before.FinishedAt) {
				a.report.breach(OneLiveRun, e.id, r.ID, fmt.Sprintf("started at %s, while run %s (%s, %s) was live until %s",
					clock(r.StartedAt), before.ID, before.Status, before.Reason, clock(before.FinishedAt)))
			}
		}
		before = r
	}
	if before != nil && e.schedule != nil && e.schedule.Token < before.Token {
		a.report.breach(FencesIncrease, e.id, before.ID, fmt.Sprintf("the schedule's fence %d is below %d", e.schedule.Token, before.Token))
	}
}

// all returns the runs of an endpoint in fence order, including the live one. Runs that overlap are
// in the order of their due times, because fences order only the attempts of one due time then.
func (e *endpoint) all() []*run {
	switch {
	case e.overlaps:
		list := slices.Concat(e.runs, e.live)
		slices.SortStableFunc(list, func(x, y *run) int { return x.Slot.Compare(y.Slot) })
		return list
	case len(e.live) == 0:
		return e.runs
	default:
		return append(slices.Clip(e.runs), e.live[0])
	}
}

// firsts returns the first run of each due time if the runs of the endpoint overlap, and all runs
// otherwise.
func (e *endpoint) firsts() []*run {
	all := e.all()
	if !e.overlaps {
		return all
	}
	return slices.DeleteFunc(all, func(r *run) bool { return !r.first() })
}

// checkRuns checks each finished run, and then repeats and gaps between runs.
func (a *auditor) checkRuns(e *endpoint) {
	accepted := map[time.Time]runs.ID{}
	var settled []time.Duration
	for _, r := range e.runs {
		a.report.Counts.Starts++
		a.report.Counts.Statuses[string(r.Status)]++
		a.report.looked(NeverEarly)
		if early := r.Slot.Sub(r.StartedAt); early > a.options.Early {
			a.report.breach(NeverEarly, e.id, r.ID, fmt.Sprintf("started %s before its due time %s", brief(early), clock(r.Slot)))
		}
		a.report.looked(OneResult)
		if r.Status == runs.Succeeded {
			if other, twice := accepted[r.Slot]; twice {
				a.report.breach(OneResult, e.id, r.ID, fmt.Sprintf("the due time %s succeeded as run %s too", clock(r.Slot), other))
			}
			accepted[r.Slot] = r.ID
		}
		if r.Status == runs.Lost && r.Reason == runs.WorkerLost {
			settled = append(settled, r.FinishedAt.Sub(r.StartedAt))
			a.checkReap(r)
		}
	}
	a.settled = append(a.settled, settled...)
	a.checkUnclaimed(e)
	a.checkRepeats(e)
	a.checkGaps(e)
}

// checkUnclaimed counts the runs that were canceled or withdrawn while they waited. Such a run ends
// its call, so it checks that no attempt of that call starts later.
func (a *auditor) checkUnclaimed(e *endpoint) {
	for _, r := range e.unclaimed {
		a.report.Counts.Statuses[string(r.Status)]++
		if r.Source != "call" {
			continue
		}
		for _, other := range e.all() {
			if other.StartedAt.After(r.FinishedAt.Add(a.options.Early)) {
				a.report.breach(OneEnd, e.id, r.ID, fmt.Sprintf("the call ended unsent at %s as %s, and its run %s started at %s",
					clock(r.FinishedAt), r.Status, other.ID, clock(other.StartedAt)))
			}
		}
	}
}

// checkRepeats checks infrastructure attempts. Each must follow a run of the same due time that was
// interrupted or held back by the breaker of its host, and their number is bounded by the budget.
func (a *auditor) checkRepeats(e *endpoint) {
	newest := map[time.Time]*run{}
	for _, r := range e.all() {
		before := newest[r.Slot]
		newest[r.Slot] = r
		// An equal Infra means an attempt of the retry policy.
		if r.Infra == 0 || before != nil && before.Infra == r.Infra {
			continue
		}
		a.report.looked(OneResult)
		heldBack := before != nil && before.Reason == runs.CircuitOpen
		budget := endpoints.InfraBudget
		if heldBack {
			budget = endpoints.CircuitBudget
		}
		if r.Infra > budget {
			a.report.breach(OneResult, e.id, r.ID, fmt.Sprintf("infrastructure attempt %d of %d", r.Infra, budget))
		}
		if before == nil || before.Infra+1 != r.Infra || before.Attempt != r.Attempt || !heldBack && !(runs.Outcome{Reason: before.Reason}).Interrupted() {
			a.report.breach(OneResult, e.id, r.ID,
				fmt.Sprintf("infrastructure attempt %d for the due time %s follows no run that was lost or held back by the breaker of its host", r.Infra, clock(r.Slot)))
		}
	}
}

// checkReap checks that a lost run was not settled before its lock can have expired. The history
// has no locks, so the check uses the duration of the shortest lock.
func (a *auditor) checkReap(r *run) {
	const shortestLock = 6 * time.Second // minimum execution time of 1 s plus margin of 5 s
	a.report.looked(NoFalseReap)
	if age := r.FinishedAt.Sub(r.StartedAt); age < min(shortestLock, a.options.LockTTL) {
		a.report.breach(NoFalseReap, r.EndpointID, r.ID, fmt.Sprintf("settled %s after its start: its lock still held", brief(age)))
	}
}

// checkGaps compares the time between starts with the minimum interval. It skips pairs of other
// configuration versions, because their minimum is unknown.
func (a *auditor) checkGaps(e *endpoint) {
	if e.min == 0 {
		return
	}
	var before *run // the last run that was not skipped, because a skipped run sends no request
	for _, r := range e.firsts() {
		if r.Status == runs.Skipped || r.Status == runs.Running {
			continue
		}
		last := before
		before = r
		if last == nil || last.Version != e.version || r.Version != e.version || r.Source == "manual" {
			continue
		}
		a.report.looked(MinGap)
		// The tolerance is 1 ms, because due times are whole milliseconds.
		if gap := r.StartedAt.Sub(last.StartedAt); gap < e.min-time.Millisecond {
			a.report.breach(MinGap, e.id, r.ID, fmt.Sprintf("started %s after run %s; at least %s are due", brief(gap), last.ID, e.min))
		}
	}
}

// checkPauses checks that no run starts between a pause and the next change. A pause is decided
// after the commit of every start in flight. The start time of such a run can be slightly later,
// because it is the planned send time by the worker's clock; hence the tolerance.
func (a *auditor) checkPauses(e *endpoint) {
	for i, d := range e.decisions {
		if d.Cause != "pause" {
			continue
		}
		until := d.NextRunAt
		if i+1 < len(e.decisions) && e.decisions[i+1].At.Before(until) {
			until = e.decisions[i+1].At
		}
		a.report.looked(PauseHolds)
		for _, r := range e.all() {
			if r.StartedAt.After(d.At.Add(a.options.Early)) && r.StartedAt.Before(until) {
				a.report.breach(PauseHolds, e.id, r.ID, fmt.Sprintf("started at %s, paused since %s", clock(r.StartedAt), clock(d.At)))
			}
		}
	}
}
