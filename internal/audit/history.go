package audit

import (
	"fmt"
	"slices"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// lateStart is how late a start may be while the schedule still counts from its due time.
const lateStart = time.Second

// checkFences goes through the runs of an endpoint by fence. The end of one and the start of the next are comparable without tolerance,
// although workers count both on their own clocks: a finish moves them between the start and the end of the live row, by the database's
// clock.
func (a *auditor) checkFences(e *endpoint) {
	var before *run
	for _, r := range e.all() {
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

// all returns the runs of an endpoint by fence, a live one last.
func (e *endpoint) all() []*run {
	if len(e.live) == 0 {
		return e.runs
	}
	return append(slices.Clip(e.runs), e.live[0])
}

// checkRuns judges each run that is over, and the starts of an endpoint against each other.
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
	a.checkRepeats(e)
	a.checkGaps(e)
}

// checkRepeats holds that an infrastructure attempt follows a run of the same due time that infrastructure ended, within the budget.
func (a *auditor) checkRepeats(e *endpoint) {
	newest := map[time.Time]*run{}
	for _, r := range e.all() {
		before := newest[r.Slot]
		newest[r.Slot] = r
		if r.Infra == 0 || before != nil && before.Infra == r.Infra { // The latter is an attempt of the retry policy.
			continue
		}
		a.report.looked(OneResult)
		if r.Infra > endpoints.InfraBudget {
			a.report.breach(OneResult, e.id, r.ID, fmt.Sprintf("infrastructure attempt %d of %d", r.Infra, endpoints.InfraBudget))
		}
		if before == nil || before.Infra+1 != r.Infra || before.Attempt != r.Attempt || !(runs.Outcome{Reason: before.Reason}).Interrupted() {
			a.report.breach(OneResult, e.id, r.ID, fmt.Sprintf("infrastructure attempt %d for the due time %s follows no run that was lost", r.Infra, clock(r.Slot)))
		}
	}
}

// checkReap judges a settlement. The history does not keep locks, but no first lock ends sooner than this.
func (a *auditor) checkReap(r *run) {
	const shortestLock = 6 * time.Second // The shortest execution of 1 s and the margin of 5 s.
	a.report.looked(NoFalseReap)
	if age := r.FinishedAt.Sub(r.StartedAt); age < min(shortestLock, a.options.LockTTL) {
		a.report.breach(NoFalseReap, r.EndpointID, r.ID, fmt.Sprintf("settled %s after its start: its lock still held", brief(age)))
	}
}

// checkGaps judges the time between starts by the least interval, where the configuration is the one of both.
func (a *auditor) checkGaps(e *endpoint) {
	if e.min == 0 {
		return
	}
	var before *run // The last one that called: a skipped one is no start.
	for _, r := range e.runs {
		if r.Status == runs.Skipped {
			continue
		}
		last := before
		before = r
		if last == nil || last.Version != e.version || r.Version != e.version || r.Source == "manual" {
			continue
		}
		a.report.looked(MinGap)
		if gap := r.StartedAt.Sub(last.StartedAt); gap < e.min-time.Millisecond { // Due times are whole milliseconds.
			a.report.breach(MinGap, e.id, r.ID, fmt.Sprintf("started %s after run %s; at least %s are due", brief(gap), last.ID, e.min))
		}
	}
}

// checkPauses looks for starts between a pause and the next change. A pause decides after every start in flight has ended. Such a start
// counts from when its request was to leave, a little later, by the worker's estimate of the time.
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
