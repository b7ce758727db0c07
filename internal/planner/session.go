package planner

import (
	"time"

	"rubato/internal/endpoints"
)

// Session is the immutable record of one analysis.
type Session struct {
	ID         SessionID
	TenantID   [16]byte
	EndpointID endpoints.ID
	Version    int64 // of the configuration that was analysed
	StartedAt  time.Time
	FinishedAt time.Time
	// Advisor is its name. The author of the session's hints is planner:<advisor>.
	Advisor   string
	Trigger   Trigger
	Authority Authority
	Outcome   Result
	Verdict   Verdict
	Calls     []Call
	// Changes describe the changes that were made, suggested or observed.
	Changes  []string
	Usage    Usage
	Warnings []string
	// Error is safe to show; empty if there was none.
	Error  string
	NextAt time.Time
}

// Result is the outcome of a session.
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

// Authority is the planner's permission at an endpoint.
type Authority = endpoints.Authority

// The authorities.
const (
	Off     = endpoints.PlannerOff     // it is not looked at
	Observe = endpoints.PlannerObserve // proposals are only recorded
	Suggest = endpoints.PlannerSuggest // a person approves
	Act     = endpoints.PlannerAct     // within the rails
)
