package audit

import (
	"fmt"
	"slices"
	"time"

	"rubato/internal/runs"
)

// plan is a due time that was decided, and may or may not be in force.
type plan struct {
	due   time.Time
	exact bool // the first attempt for it stands for this very instant; else for one before it; see endpoint.waits
}

// checkChain follows the decisions of an endpoint: what the end of each run decided, or a change after it, is what the next run
// stands for, and the last of them is what the schedule plans. A due time that leads nowhere was lost, unless it is recorded as
// skipped.
//
// The first run in the window is taken as it is. A change while a run is live plans nothing by itself, so every decision from the
// claim of one run to the start of the next counts as possible: the check finds lost due times, and no others.
func (a *auditor) checkChain(e *endpoint) {
	all := e.all()
	for i, r := range all {
		next := time.Time{}
		switch {
		case i+1 < len(all):
			next = all[i+1].StartedAt
		case e.schedule == nil: // Archived: nothing follows.
			continue
		case r.Status == runs.Running:
			continue
		}
		plans := a.plansAfter(e, r, next)
		if len(plans) == 0 {
			continue
		}
		a.report.looked(NoLostDueTime)
		if i+1 < len(all) {
			a.checkLink(e, all[i+1], plans)
			continue
		}
		a.checkPlanned(e, r, plans)
	}
}

// plansAfter returns the due times that a run and the changes after it decided, up to the next start; zero: up to now.
func (a *auditor) plansAfter(e *endpoint, r *run, next time.Time) []plan {
	var plans []plan
	if r.NextRunAt != nil {
		plans = append(plans, plan{due: r.NextRunAt.UTC(), exact: r.Version == e.version && !e.waits()})
	}
	for _, d := range e.decisions {
		if d.At.Before(r.ClaimedAt) || !next.IsZero() && d.At.After(next) {
			continue
		}
		plans = append(plans, plan{due: d.NextRunAt.UTC()})
	}
	return plans
}

// checkLink judges whether a run is what one of the plans led to, and how late it started.
func (a *auditor) checkLink(e *endpoint, r *run, plans []plan) {
	for _, p := range slices.Backward(plans) {
		if r.Slot.Equal(p.due) || !r.Slot.After(p.due) && (!p.exact || !r.first()) {
			if r.StartedAt.Before(p.due.Add(-a.options.Early)) {
				continue // Not this plan: what starts before it was planned earlier.
			}
			if r.Source != "manual" { // What somebody asks for waits for the run under way.
				a.lateness = append(a.lateness, max(0, r.StartedAt.Sub(p.due)))
			}
			return
		}
	}
	due := plans[0].due
	if e.recorded(due) {
		return
	}
	a.report.breach(NoLostDueTime, e.id, r.ID, fmt.Sprintf("the due time %s was decided; the next run stands for %s and started at %s",
		clock(due), clock(r.Slot), clock(r.StartedAt)))
}

// checkPlanned judges whether the schedule plans what was decided last.
func (a *auditor) checkPlanned(e *endpoint, last *run, plans []plan) {
	for _, p := range plans {
		if p.due.Equal(e.schedule.PlannedAt) {
			return
		}
	}
	if e.recorded(plans[0].due) {
		return
	}
	a.report.breach(NoLostDueTime, e.id, last.ID, fmt.Sprintf("the run decided %s; the schedule plans %s",
		clock(plans[0].due), clock(e.schedule.PlannedAt)))
}

// recorded reports whether a due time stands in a record of skipped ones. Jitter plans a run after its due time, by less than its bound.
func (e *endpoint) recorded(due time.Time) bool {
	return slices.ContainsFunc(e.skipped, func(s skip) bool { return !due.Before(s.From) && !due.After(s.To.Add(e.jitter)) })
}
