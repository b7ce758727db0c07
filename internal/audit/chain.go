package audit

import (
	"fmt"
	"slices"
	"time"

	"rubato/internal/runs"
)

// plan is a decided due time. A later decision may have replaced it.
type plan struct {
	due time.Time
	// exact: the first attempt has this due time as its slot. Otherwise its slot may be earlier,
	// because the endpoint may wait after a slot; see endpoint.waits.
	exact bool
}

// checkChain follows the decisions of an endpoint. Each run and each later change decides a due
// time: the next run must have it, and the schedule must plan the last one. A due time without a
// run is lost unless it is recorded as skipped.
//
// The first run in the window is not checked, because its decision may lie before the window. A
// change during a live run plans nothing by itself. Therefore every decision from the claim of a
// run to the start of the next one counts as possible. The check can miss a lost due time, but it
// reports no false one.
func (a *auditor) checkChain(e *endpoint) {
	all := e.firsts()
	for i, r := range all {
		next := time.Time{}
		switch {
		case i+1 < len(all):
			next = all[i+1].StartedAt
		case e.schedule == nil: // An archived endpoint has no next run.
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

// plansAfter returns the due times that a run, and changes after its claim, decided before next. A
// zero next means now.
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

// checkLink checks that a run follows from one of the plans, and records its lateness.
func (a *auditor) checkLink(e *endpoint, r *run, plans []plan) {
	for _, p := range slices.Backward(plans) {
		if r.Slot.Equal(p.due) || !r.Slot.After(p.due) && (!p.exact || !r.first()) {
			if r.StartedAt.Before(p.due.Add(-a.options.Early)) {
				continue // An earlier start belongs to an earlier plan.
			}
			if r.Source != "manual" { // A manual run waits for the live run.
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

// checkPlanned checks that the schedule plans one of the decided due times.
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

// recorded reports whether a due time is recorded as skipped. A due time may lie after the record
// by up to the jitter, because jitter delays a run.
func (e *endpoint) recorded(due time.Time) bool {
	return slices.ContainsFunc(e.skipped, func(s skip) bool { return !due.Before(s.From) && !due.After(s.To.Add(e.jitter)) })
}
