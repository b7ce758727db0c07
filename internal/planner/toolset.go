package planner

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"rubato/internal/runs"
)

// Desk is all that an advisor can do. The program has bound it to one endpoint, tenant and version: no argument names another. Every
// call is kept in the session. After [MaxCalls] of them each further one is [ErrTooManyCalls].
type Toolset interface {
	ResponseReader
	Proposer
	Recorder
}

// MaxCalls is how many calls a session may make; the last one submits the verdict.
const MaxCalls = 15

// ErrTooManyCalls says that a session has made its calls and can only submit.
var ErrTooManyCalls = errors.New("the session has made all its calls; submit the analysis")

// Records reads what targets answered. Bodies come cut, without control characters and with what looks like a secret taken out; they
// are data that anybody may have written.
type ResponseReader interface {
	// LatestResponse returns the newest answer. Without one the error is an errs.NotFound.
	LatestResponse(ctx context.Context) (Response, error)
	// ResponseHistory returns the newest answers, newest first: at most limit, and at most [MaxResponses].
	ResponseHistory(ctx context.Context, limit int) ([]Response, error)
	// SiblingResponses returns the newest answer of each sibling that has one.
	SiblingResponses(ctx context.Context) ([]SiblingResponse, error)
}

// The bounds of what is read of answers.
const (
	MaxResponses = 10
	MaxBody      = 4 << 10 // bytes of one body
	MaxFeatures  = 32      // of one body
)

// Proposals takes what an advisor wants changed. Each proposal is judged by the [Rails] at once, and again when the session is written.
// One that they refuse is an errs.Invalid or an errs.Conflict with words for the advisor, and changes nothing; the session goes on.
type Proposer interface {
	// ProposeInterval asks for another interval, in place of what this session proposed before.
	ProposeInterval(ctx context.Context, p IntervalProposal) (ProposalResult, error)
	// ProposeNextRun asks for one run at an instant, in place of what this session proposed before.
	ProposeNextRun(ctx context.Context, p NextRunProposal) (ProposalResult, error)
	// PauseUntil asks for a pause, in place of what this session proposed before.
	PauseUntil(ctx context.Context, p PauseProposal) (ProposalResult, error)
	// ClearHints asks that both hints be forgotten, those of this session included.
	ClearHints(ctx context.Context, reason string) (ProposalResult, error)
}

// Journal takes notes for the session's record.
type Recorder interface {
	// Refuse notes a call that the advisor was not let make: malformed, unknown, or with bad arguments. It counts as a call.
	RecordRefusal(c Call)
	// Spend notes what was used of a model. Tokens and costs add up; names and digests replace earlier ones.
	AddUsage(u Usage)
	// Warn notes something that whoever reads the session should know.
	Warn(text string)
}

// IntervalProposal asks for an interval that holds for a time.
type IntervalProposal struct {
	Interval time.Duration
	TTL      time.Duration // required
	Reason   string        // shown with the hint; required, at most 500 characters
	// OutageSince is when the outage began that the hint is for: it waits a tenth of the outage's age, at least Interval, and ends with
	// the first success. Zero: an ordinary hint. No model is offered it.
	OutageSince time.Time
}

// NextRunProposal asks for one run some time from now.
type NextRunProposal struct {
	In     time.Duration
	TTL    time.Duration // required, and longer than In
	Reason string
}

// PauseProposal asks that nothing runs for a time.
type PauseProposal struct {
	For    time.Duration
	Reason string
}

// Ruling is what the rails made of a proposal that they let pass.
type ProposalResult struct {
	Interval time.Duration // in force if the session is written; 0: not an interval
	Note     string        // what differs from the proposal, for the advisor; empty: nothing
}

// Call is one call of a session.
type Call struct {
	Tool      Tool            `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // as they were understood, or a text of what could not be; cut to 2000 bytes
	Result    string          `json:"result"`              // what the advisor was told, in short; cut to 500 characters
	Refused   bool            `json:"refused"`
}

// Tool names a call.
type Tool string

// The tools. A call of any other name is recorded as it was spelled, cut to 64 characters.
const (
	ToolLatestResponse   Tool = "get_latest_response"
	ToolResponseHistory  Tool = "get_response_history"
	ToolSiblingResponses Tool = "get_sibling_responses"
	ToolProposeInterval  Tool = "propose_interval"
	ToolProposeNextRun   Tool = "propose_next_run"
	ToolPauseUntil       Tool = "pause_until"
	ToolClearHints       Tool = "clear_hints"
	ToolSubmit           Tool = "submit_analysis"
)

// Usage is what an advisor used of a model.
type Usage struct {
	Model            string
	PromptDigest     string // SHA-256 of what was asked first, in hex; never the text
	PromptTokens     int64
	CompletionTokens int64
	CostMicros       int64 // millionths of a US dollar; 0: the price is not known
}

// Response is one answer of a target.
type Response struct {
	RunID       runs.ID
	At          time.Time // when the run ended
	Status      string    // of the run
	StatusCode  int
	Latency     time.Duration
	ContentType string
	Features    []Feature // typed values found in a JSON body, at most [MaxFeatures]
	Body        string    // at most [MaxBody] bytes
	Truncated   bool      // the body was longer
}

// Feature is a number, a truth value or a short word at a path of a JSON body, such as $.queue.depth.
type Feature struct {
	Path  string
	Value any // float64, bool or string of at most 64 characters
}

// SiblingResponse is the newest answer of a sibling.
type SiblingResponse struct {
	Sibling  string // its name
	Role     string
	Response Response
}
