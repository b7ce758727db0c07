package audit

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// Invariant names something that must hold.
type Invariant string

// The invariants.
const (
	OneLiveRun     Invariant = "one_live_run"     // an endpoint has at most one live run, and a run is live or over
	OneResult      Invariant = "one_result"       // a due time has at most one accepted result
	FencesIncrease Invariant = "fences_increase"  // every later claim of an endpoint has a higher fence
	OneEnd         Invariant = "one_end"          // a run ends once
	NeverEarly     Invariant = "never_early"      // nothing starts before it is due
	OneRequest     Invariant = "one_request"      // a run is one request on the wire, and a request is of a run
	NoStaleSend    Invariant = "no_stale_send"    // no request leaves once its run is over
	NoOverlap      Invariant = "no_overlap"       // executions of an endpoint overlap only where a worker stood still
	NoLostDueTime  Invariant = "no_lost_due_time" // every due time leads to a run or is recorded as skipped
	OneRecord      Invariant = "one_record"       // every slot of a schedule has a run or stands in one record
	NoneOverdue    Invariant = "none_overdue"     // no due time waits for ever
	NoneStuck      Invariant = "none_stuck"       // no run stays live past its lock
	NoFalseReap    Invariant = "no_false_reap"    // no run is settled while its lock holds, or its worker still has its request open
	MinGap         Invariant = "min_gap"          // due times are never closer than the least interval, jitter aside
	PauseHolds     Invariant = "pause_holds"      // nothing starts while an endpoint is paused
)

// Invariants returns every invariant with what it promises, in the order of a report.
func Invariants() []Promise {
	return []Promise{
		{OneLiveRun, "An endpoint has at most one live run, and no run is both live and over."},
		{OneResult, "A due time has at most one accepted result."},
		{FencesIncrease, "Every later claim of an endpoint has a higher fence."},
		{OneEnd, "A run ends once."},
		{NeverEarly, "Nothing starts before it is due."},
		{OneRequest, "A run is exactly one request on the wire."},
		{NoStaleSend, "No request leaves after its run has ended."},
		{NoOverlap, "Two requests of an endpoint overlap only where a worker was frozen, and then the later one has the higher fence."},
		{NoLostDueTime, "Every due time leads to a run or is recorded as skipped."},
		{OneRecord, "Every slot of a schedule has a run or stands in exactly one record of skipped ones."},
		{NoneOverdue, "No due time waits for ever."},
		{NoneStuck, "No run stays live after its lock is over."},
		{NoFalseReap, "No run is settled as lost while its lock holds."},
		{MinGap, "Two starts are never closer than the endpoint's least interval, however late the first of them was."},
		{PauseHolds, "Nothing starts after a pause call has returned."},
	}
}

// Promise is an invariant in words.
type Promise struct {
	Invariant Invariant
	Text      string
}

// maxFindings bounds the findings that are kept of each invariant; all of them are counted.
const maxFindings = 50

// Report is the result of an audit.
type Report struct {
	AuditedAt time.Time `json:"auditedAt"` // database time
	Since     time.Time `json:"since"`     // due times from here on were looked at
	Counts    Counts    `json:"counts"`
	Lateness  Lateness  `json:"lateness"`
	Checks    []Check   `json:"checks"` // one of each invariant
}

// Counts say how much there was to look at.
type Counts struct {
	Endpoints   int            `json:"endpoints"`
	Starts      int            `json:"starts"` // runs that are over or live, skipped due times not among them
	Live        int            `json:"live"`
	Statuses    map[string]int `json:"statuses"`    // of runs that are over
	Requests    int            `json:"requests"`    // that targets saw
	Duplicates  int            `json:"duplicates"`  // requests beyond the first of a run
	Overlaps    int            `json:"overlaps"`    // of requests, the excused ones included
	Excused     int            `json:"excused"`     // overlaps with a frozen worker
	LateAnswers int            `json:"lateAnswers"` // that came after their run was settled, and changed nothing
	Settled     Lateness       `json:"settled"`     // from the start of lost runs to their settlement
}

// Check is how one invariant did.
type Check struct {
	Invariant Invariant `json:"invariant"`
	Promise   string    `json:"promise"`
	Checked   int       `json:"checked"` // cases looked at; 0 means that nothing could tell
	Breaches  int       `json:"breaches"`
	Findings  []Finding `json:"findings"` // the first of the breaches
}

// Finding is one breach.
type Finding struct {
	EndpointID string `json:"endpointId,omitempty"`
	RunID      string `json:"runId,omitempty"`
	Detail     string `json:"detail"`
}

func newReport(at, since time.Time) Report {
	r := Report{AuditedAt: at, Since: since, Counts: Counts{Statuses: map[string]int{}}}
	for _, p := range Invariants() {
		r.Checks = append(r.Checks, Check{Invariant: p.Invariant, Promise: p.Text, Findings: []Finding{}})
	}
	return r
}

// Breaches returns the number of breaches of every invariant together.
func (r Report) Breaches() int {
	n := 0
	for _, c := range r.Checks {
		n += c.Breaches
	}
	return n
}

// Check returns how an invariant did.
func (r Report) Check(i Invariant) Check { return *r.check(i) }

// WriteJSON writes the report for programs.
func (r Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func (r Report) check(i Invariant) *Check {
	for n := range r.Checks {
		if r.Checks[n].Invariant == i {
			return &r.Checks[n]
		}
	}
	panic("no invariant " + string(i)) // The constants above are all there are.
}

// looked counts one case of an invariant.
func (r Report) looked(i Invariant) { r.check(i).Checked++ }

// breach adds a finding about an endpoint and a run; a zero ID is left out.
func (r Report) breach(i Invariant, endpoint [16]byte, run runs.ID, detail string) {
	c := r.check(i)
	c.Breaches++
	if len(c.Findings) >= maxFindings {
		return
	}
	f := Finding{Detail: detail}
	if endpoint != ([16]byte{}) {
		f.EndpointID = endpoints.ID(endpoint).String()
	}
	if run != (runs.ID{}) {
		f.RunID = run.String()
	}
	c.Findings = append(c.Findings, f)
}
