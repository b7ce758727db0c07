package audit

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// Invariant identifies a guarantee.
type Invariant string

// The invariants.
const (
	OneLiveRun     Invariant = "one_live_run"     // at most one live run per endpoint, without an end
	OneResult      Invariant = "one_result"       // a due time has at most one accepted result
	FencesIncrease Invariant = "fences_increase"  // fences of an endpoint increase with each claim
	OneEnd         Invariant = "one_end"          // a run ends at most once
	NeverEarly     Invariant = "never_early"      // no run starts before its due time
	OneRequest     Invariant = "one_request"      // one request per run; each request belongs to a run
	NoStaleSend    Invariant = "no_stale_send"    // no request is sent after the end of its run
	NoOverlap      Invariant = "no_overlap"       // requests overlap only if a worker was frozen
	NoLostDueTime  Invariant = "no_lost_due_time" // every due time leads to a run or is recorded as skipped
	OneRecord      Invariant = "one_record"       // every slot has a run or is in exactly one skip record
	NoneOverdue    Invariant = "none_overdue"     // no due time stays unclaimed
	NoneStuck      Invariant = "none_stuck"       // no run stays live after its lock expired
	NoFalseReap    Invariant = "no_false_reap"    // no run is settled while its lock is valid
	MinGap         Invariant = "min_gap"          // starts are at least the minimum interval apart
	PauseHolds     Invariant = "pause_holds"      // no run starts during a pause
)

// Invariants returns every invariant with its description, in the order of a report.
func Invariants() []Promise {
	return []Promise{
		{OneLiveRun, "An endpoint has at most one live run, unless it allows more, and no run is both live and over."},
		{OneResult, "A due time has at most one accepted result."},
		{FencesIncrease, "Every later claim of an endpoint has a higher fence."},
		{OneEnd, "A run ends once."},
		{NeverEarly, "Nothing starts before it is due."},
		{OneRequest, "A run is exactly one request on the wire."},
		{NoStaleSend, "No request leaves after its run has ended."},
		{NoOverlap, "Two requests of an endpoint overlap only if it allows that or a worker was frozen, and then the later one has the higher fence."},
		{NoLostDueTime, "Every due time leads to a run or is recorded as skipped."},
		{OneRecord, "Every slot of a schedule has a run or stands in exactly one record of skipped ones."},
		{NoneOverdue, "No due time waits for ever."},
		{NoneStuck, "No run stays live after its lock is over."},
		{NoFalseReap, "No run is settled as lost while its lock holds."},
		{MinGap, "Two starts are never closer than the endpoint's least interval, however late the first of them was."},
		{PauseHolds, "Nothing starts after a pause call has returned."},
	}
}

// Promise is the description of an invariant.
type Promise struct {
	Invariant Invariant
	Text      string
}

// maxFindings bounds the findings kept per invariant. Breaches beyond it are counted only, so that
// a report stays small.
const maxFindings = 50

// Report is the result of an audit.
type Report struct {
	// AuditedAt is the database time of the snapshot.
	AuditedAt time.Time `json:"auditedAt"`
	// Since is the earliest audited due time.
	Since    time.Time `json:"since"`
	Counts   Counts    `json:"counts"`
	Lateness Lateness  `json:"lateness"`
	// Checks has one element per invariant.
	Checks []Check `json:"checks"`
}

// Counts holds the number of audited objects.
type Counts struct {
	Endpoints int `json:"endpoints"`
	// Starts counts finished and live runs, without records of skipped due times and without runs
	// that no worker claimed.
	Starts int `json:"starts"`
	Live   int `json:"live"`
	// Statuses counts finished runs by status, including those that no worker claimed.
	Statuses map[string]int `json:"statuses"`
	// Requests counts the requests that targets received.
	Requests int `json:"requests"`
	// Duplicates counts the requests of a run beyond its first.
	Duplicates int `json:"duplicates"`
	// Overlaps counts pairs of overlapping requests, including excused ones.
	Overlaps int `json:"overlaps"`
	// Excused counts overlaps with a frozen worker.
	Excused int `json:"excused"`
	// LateAnswers counts responses after the settlement of their run; they changed nothing.
	LateAnswers int `json:"lateAnswers"`
	// Settled is the time from start to settlement of lost runs.
	Settled Lateness `json:"settled"`
}

// Check is the result of one invariant.
type Check struct {
	Invariant Invariant `json:"invariant"`
	Promise   string    `json:"promise"`
	// Checked is the number of checked cases; 0 means that there was no data.
	Checked  int `json:"checked"`
	Breaches int `json:"breaches"`
	// Findings are the first [maxFindings] breaches.
	Findings []Finding `json:"findings"`
}

// Finding is one breach.
type Finding struct {
	EndpointID string `json:"endpointId,omitempty"`
	RunID      string `json:"runId,omitempty"`
	Detail     string `json:"detail"`
}

func newReport(at, since time.Time) Report {
	r := Report{
		AuditedAt: at,
		Since:     since,
		Counts:    Counts{Statuses: map[string]int{}},
	}
	for _, p := range Invariants() {
		r.Checks = append(r.Checks, Check{
			Invariant: p.Invariant,
			Promise:   p.Text,
			Findings:  []Finding{},
		})
	}
	return r
}

// Breaches returns the total number of breaches.
func (r Report) Breaches() int {
	n := 0
	for _, c := range r.Checks {
		n += c.Breaches
	}
	return n
}

// Check returns the result of an invariant.
func (r Report) Check(i Invariant) Check { return *r.check(i) }

// WriteJSON writes the report as JSON.
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
	panic("no invariant " + string(i)) // Unreachable, because newReport adds every constant.
}

// looked counts one checked case of an invariant.
func (r Report) looked(i Invariant) { r.check(i).Checked++ }

// breach adds a breach of an invariant by an endpoint and a run; a zero ID is omitted.
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
