package planner

import (
	"context"
	"errors"
	"time"
)

// Advisor judges one snapshot at a time. It is safe for concurrent use, keeps no state between
// sessions, and acts only through the toolset.
type Advisor interface {
	// Name is the advisor's part of the author "planner:<name>": heuristic, or the name of a model.
	Name() string
	// Advise judges a snapshot, proposes changes through the toolset and returns a verdict. It
	// returns when ctx ends. If it returns an error, none of its proposals comes into force, but
	// the session is recorded with its cost. [ErrOverBudget] and [UnavailableError] mean that the
	// advisor could not be asked.
	Advise(ctx context.Context, c Snapshot, d Toolset) (Verdict, error)
}

// Verdict is the final answer of an advisor: its reasoning and the time of the next analysis.
type Verdict struct {
	Reasoning  string  // at most 2000 characters
	Confidence float64 // 0 to 1
	// NextAnalysisIn is limited by the [Guardrails]; 0 leaves the choice to the planner.
	NextAnalysisIn time.Duration
}

// ErrOverBudget is returned if the token budget of the day is used up. Baselines stay in force.
var ErrOverBudget = errors.New("the budget of the planner is spent")

// UnavailableError is returned if an advisor cannot be asked at the moment, because its service
// does not respond or asked to wait.
type UnavailableError struct {
	// RetryIn is the wait before the next try; 0 leaves the choice to the planner.
	RetryIn time.Duration
	Err     error
}

// Error includes the cause.
func (e *UnavailableError) Error() string { return "the advisor cannot be asked: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }
