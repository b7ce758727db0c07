package planner

import (
	"time"

	"rubato/internal/endpoints"
)

// Session is the record of one analysis. It is written once and never changes.
type Session struct {
	ID         SessionID
	TenantID   [16]byte
	EndpointID endpoints.ID
	Version    int64 // of the configuration that was looked at
	StartedAt  time.Time
	FinishedAt time.Time
	Advisor    string // its name; hints of the session name planner:<advisor> as their author
	Trigger    Trigger
	Authority  Authority
	Outcome    Result
	Verdict    Verdict
	Calls      []Call
	Changes    []string // what was changed, suggested or would have been, in words
	Usage      Usage
	Warnings   []string
	Error      string // what went wrong, safe to show; empty: nothing
	NextAt     time.Time
}

// Result says how a session ended.
type Result string

// The results.
const (
	Acted       Result = "acted"       // hints or a pause were written
	Suggested   Result = "suggested"   // a suggestion waits for approval
	Observed    Result = "observed"    // it records what it would have done
	Unchanged   Result = "unchanged"   // there was nothing to change
	Stale       Result = "stale"       // the endpoint was edited, paused or archived meanwhile: nothing was written
	Failed      Result = "failed"      // the advisor failed, or ran out of time
	OverBudget  Result = "over_budget" // the advisor may spend no more today
	Unreachable Result = "unavailable" // the advisor could not be asked
)

// Results returns every result.
func Results() []Result {
	return []Result{Acted, Suggested, Observed, Unchanged, Stale, Failed, OverBudget, Unreachable}
}

// Authority says what the planner may do to an endpoint.
type Authority = endpoints.Authority

// The authorities.
const (
	Off     = endpoints.PlannerOff     // it is not looked at
	Observe = endpoints.PlannerObserve // what would have been done is recorded
	Suggest = endpoints.PlannerSuggest // a person approves
	Act     = endpoints.PlannerAct     // within the rails
)
