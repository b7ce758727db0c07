package audit

import (
	"fmt"
	"slices"
	"time"

	"rubato/internal/runs"
)

// checkLive checks the live runs.
func (a *auditor) checkLive() {
	for _, e := range a.endpoints {
		a.report.Counts.Endpoints++
		a.report.looked(OneLiveRun)
		if len(e.live) > 1 && !e.overlaps {
			a.report.breach(OneLiveRun, e.id, e.live[1].ID, fmt.Sprintf("%d runs are live", len(e.live)))
		}
		for _, r := range e.live {
			a.report.Counts.Live++
			a.report.Counts.Starts++
			a.checkLiveRun(r)
		}
	}
}

func (a *auditor) checkLiveRun(r *run) {
	if ended := a.runs[r.ID]; ended != r {
		a.report.breach(OneLiveRun, r.EndpointID, r.ID, "the run is live, but has also ended as "+string(ended.Status))
	}
	a.report.looked(NoneStuck)
	switch over := a.now.Sub(r.Lock); {
	case a.options.Quiet:
		a.report.breach(NoneStuck, r.EndpointID, r.ID, "the run is still live although the system is quiet; its lock ends "+clock(r.Lock))
	case over > a.options.Settling:
		a.report.breach(NoneStuck, r.EndpointID, r.ID, fmt.Sprintf("the lock expired %s ago and no sweeper has settled the run", brief(over)))
	}
}

// checkSchedules reports overdue schedules without a live run.
func (a *auditor) checkSchedules() {
	for _, e := range a.endpoints {
		held := slices.ContainsFunc(e.live, func(r *run) bool { return !r.Detached })
		if e.schedule == nil || e.schedule.Paused || held {
			continue
		}
		a.report.looked(NoneOverdue)
		if late := a.now.Sub(e.schedule.PlannedAt); late > a.options.Overdue {
			a.report.breach(NoneOverdue, e.id, runs.ID{}, fmt.Sprintf("planned at %s, overdue by %s", clock(e.schedule.PlannedAt), brief(late)))
		}
	}
}

// checkTwice reports runs with more than one end.
func (a *auditor) checkTwice() {
	a.report.check(OneEnd).Checked = len(a.runs)
	for _, id := range a.twice {
		a.report.breach(OneEnd, [16]byte{}, id, "the run ended more than once")
	}
	a.report.Counts.LateAnswers = a.lateAnswers
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func brief(d time.Duration) string { return d.Round(time.Millisecond).String() }
