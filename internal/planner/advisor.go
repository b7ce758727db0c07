package planner

import (
	"context"
	"errors"
	"time"
)

// Advisor judges one case at a time. It is safe for concurrent use, keeps nothing between cases, and touches nothing but the desk.
type Advisor interface {
	// Name is how hints and sessions call it, behind "planner:": heuristic, or the name of a model.
	Name() string
	// Advise looks at a case, proposes through the desk what it wants changed, and submits a verdict. It returns when ctx ends at the
	// latest. With an error nothing that it proposed comes into force; the session is kept with what it cost. [ErrOverBudget] and
	// [UnavailableError] say that the advisor could not be asked, which is nobody's fault.
	Advise(ctx context.Context, c Snapshot, d Toolset) (Verdict, error)
}

// Verdict is what an advisor submits at the end of a session: why it proposed what it did, and when to look again.
type Verdict struct {
	Reasoning      string        // for people; cut to 2000 characters
	Confidence     float64       // 0 to 1
	NextAnalysisIn time.Duration // bounded by the [Rails]; 0: as the planner thinks best
}

// ErrOverBudget says that an advisor may spend no more today. Baselines go on.
var ErrOverBudget = errors.New("the budget of the planner is spent")

// UnavailableError says that an advisor cannot be asked at the moment: a service that does not answer, or asks to wait.
type UnavailableError struct {
	RetryIn time.Duration // when to try again; 0: as the planner thinks best
	Err     error         // the cause
}

// Error says so.
func (e *UnavailableError) Error() string { return "the advisor cannot be asked: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }
