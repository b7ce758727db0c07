package audit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"rubato/internal/runs"
)

// Request is a request as its target received it. A log has one JSON object per line.
type Request struct {
	RunID        string    `json:"runId"`        // Rubato-Run-Id
	Attempt      int       `json:"attempt"`      // Rubato-Attempt
	Fence        int64     `json:"fence"`        // Rubato-Fence
	ScheduledFor time.Time `json:"scheduledFor"` // Rubato-Scheduled-For
	// Arrived is the time of arrival, by a clock in sync with the database's.
	Arrived time.Time `json:"arrived"`
	// Ended is the end of the request at the target, with or without a response; zero: still open.
	Ended time.Time `json:"ended"`
	// Accepted reports that the request took effect at the target.
	Accepted bool `json:"accepted"`
}

// maxLine is the maximum length of a log line in bytes.
const maxLine = 1 << 20

// ReadLog reads the log of a target. Empty lines are ignored.
func ReadLog(r io.Reader) ([]Request, error) {
	var list []Request
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var one Request
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("reading line %d of the target's log: %w", n, err)
		}
		list = append(list, one)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the target's log: %w", err)
	}
	return list, nil
}

// onItsWay is the tolerance for late arrivals, because a request can wait at the target after the
// worker has ended it.
const onItsWay = time.Second

// letGo is the time a target has to notice the end of a request. A worker ends a request 1 s before
// its lock expires.
const letGo = 500 * time.Millisecond

// seen is a received request with its run.
type seen struct {
	Request
	id  runs.ID
	run *run
}

// checkRequests checks the received requests against the database.
func (a *auditor) checkRequests() {
	a.report.Counts.Requests = len(a.options.Requests)
	perRun := map[runs.ID]int{}
	perEndpoint := map[[16]byte][]seen{}
	for _, q := range a.options.Requests {
		id, err := runs.ParseID(q.RunID)
		r := a.runs[id]
		if err != nil || r == nil {
			if q.Arrived.After(a.since.Add(time.Minute)) {
				a.report.breach(OneRequest, [16]byte{}, id, fmt.Sprintf("a target saw run %q at %s, which the database does not know", q.RunID, clock(q.Arrived)))
			}
			continue
		}
		perRun[id]++
		perEndpoint[r.EndpointID] = append(perEndpoint[r.EndpointID], seen{q, id, r})
		a.report.looked(NeverEarly)
		if early := q.ScheduledFor.Sub(q.Arrived); early > a.options.Early {
			a.report.breach(NeverEarly, r.EndpointID, id, fmt.Sprintf("arrived %s before its due time %s", brief(early), clock(q.ScheduledFor)))
		}
		a.report.looked(NoStaleSend)
		if late := q.Arrived.Sub(r.FinishedAt); !r.FinishedAt.IsZero() && late > onItsWay {
			a.report.breach(NoStaleSend, r.EndpointID, id, fmt.Sprintf("arrived %s after its run had ended as %s at %s", brief(late), r.Status, clock(r.FinishedAt)))
		}
		a.checkHeld(seen{q, id, r})
	}
	a.countPerRun(perRun, perEndpoint)
	for endpoint, list := range perEndpoint {
		slices.SortFunc(list, func(x, y seen) int { return x.Arrived.Compare(y.Arrived) })
		a.checkOverlaps(endpoint, list)
		a.checkAccepted(endpoint, list)
	}
}

// checkHeld reports lost runs that were settled while their request was open, because their lock
// was then still valid. Frozen workers are excused.
func (a *auditor) checkHeld(q seen) {
	if q.run.Status != runs.Lost || q.run.Reason != runs.WorkerLost {
		return
	}
	a.report.looked(NoFalseReap)
	if (q.Ended.IsZero() || q.Ended.Sub(q.run.FinishedAt) > letGo) && !a.frozen(q) {
		a.report.breach(NoFalseReap, q.run.EndpointID, q.id, fmt.Sprintf("settled at %s; its request was open until %s",
			clock(q.run.FinishedAt), clock(q.Ended)))
	}
}

// countPerRun reports runs with several requests, succeeded runs without a request, and skipped or
// unclaimed runs with one.
func (a *auditor) countPerRun(perRun map[runs.ID]int, perEndpoint map[[16]byte][]seen) {
	for id, n := range perRun {
		a.report.looked(OneRequest)
		if n > 1 {
			a.report.Counts.Duplicates += n - 1
			a.report.breach(OneRequest, a.runs[id].EndpointID, id, fmt.Sprintf("%d requests arrived", n))
		}
	}
	for endpoint := range perEndpoint {
		e := a.endpoints[endpoint]
		for _, r := range slices.Concat(e.runs, e.unclaimed) {
			switch {
			case r.Status == runs.Succeeded && perRun[r.ID] == 0:
				a.report.breach(OneRequest, endpoint, r.ID, "the run succeeded and its target saw no request")
			case (r.Status == runs.Skipped || r.unclaimed()) && perRun[r.ID] > 0:
				a.report.breach(OneRequest, endpoint, r.ID, "the run counts as never sent and its target saw a request")
			}
		}
	}
}

// checkOverlaps reports overlapping requests of an endpoint, and requests with a fence that is not
// higher than the previous one.
func (a *auditor) checkOverlaps(endpoint [16]byte, list []seen) {
	for i, q := range list {
		for _, before := range list[:i] {
			if !before.Ended.IsZero() && !before.Ended.After(q.Arrived) || before.id == q.id {
				continue
			}
			if a.apart(before, q) {
				continue
			}
			a.report.Counts.Overlaps++
			if a.frozen(before) && q.Fence > before.Fence {
				a.report.Counts.Excused++
				continue
			}
			a.report.breach(NoOverlap, endpoint, q.id, fmt.Sprintf("arrived at %s with fence %d, while run %s with fence %d was open from %s to %s",
				clock(q.Arrived), q.Fence, before.id, before.Fence, clock(before.Arrived), clock(before.Ended)))
		}
		a.report.looked(NoOverlap)
		if i > 0 && q.Fence <= list[i-1].Fence && !a.apart(list[i-1], q) {
			a.report.breach(FencesIncrease, endpoint, q.id, fmt.Sprintf("arrived at %s with fence %d, after run %s with fence %d",
				clock(q.Arrived), q.Fence, list[i-1].id, list[i-1].Fence))
		}
	}
}

// apart reports whether two requests of an endpoint may overlap, because they are of different due
// times and the endpoint allows it.
func (a *auditor) apart(x, y seen) bool {
	return a.endpoints[y.run.EndpointID].overlaps && !x.run.Slot.Equal(y.run.Slot)
}

// frozen reports whether the worker of a request was stopped while the request was open.
func (a *auditor) frozen(q seen) bool {
	return slices.ContainsFunc(a.options.Freezes, func(f Freeze) bool {
		return f.WorkerID == q.run.WorkerID && f.To.After(q.Arrived) && (q.Ended.IsZero() || f.From.Before(q.Ended))
	})
}

// checkAccepted reports due times with more than one accepted request.
func (a *auditor) checkAccepted(endpoint [16]byte, list []seen) {
	accepted := map[time.Time]runs.ID{}
	for _, q := range list {
		if !q.Accepted || q.run.Status != runs.Succeeded {
			continue
		}
		if other, twice := accepted[q.run.Slot]; twice {
			a.report.breach(OneResult, endpoint, q.id, fmt.Sprintf("the target accepted run %s of the same due time %s", other, clock(q.run.Slot)))
		}
		accepted[q.run.Slot] = q.id
	}
}
