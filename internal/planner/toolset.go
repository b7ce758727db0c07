package planner

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"rubato/internal/runs"
)

// Toolset is the complete set of operations of an advisor. It is bound to one endpoint, tenant and
// version, so no argument names another endpoint. Every call is recorded in the session. After
// [MaxCalls] each further call returns [ErrTooManyCalls].
type Toolset interface {
	ResponseReader
	Proposer
	Recorder
}

// MaxCalls is the maximum number of calls of a session, the submission included.
const MaxCalls = 15

// ErrTooManyCalls is returned when a session has used all its calls except the submission.
var ErrTooManyCalls = errors.New("the session has made all its calls; submit the analysis")

// ResponseReader reads captured responses of targets. Bodies are untrusted data: they are
// truncated, without control characters, and values that look like secrets are redacted.
type ResponseReader interface {
	// LatestResponse returns the newest response. Without one the error is an errs.NotFound.
	LatestResponse(ctx context.Context) (Response, error)
	// ResponseHistory returns the newest responses, newest first: at most limit, and at most
	// [MaxResponses].
	ResponseHistory(ctx context.Context, limit int) ([]Response, error)
	// SiblingResponses returns the newest response of each sibling that has one. It taints the
	// session: from then on the session can neither pause the endpoint nor lengthen its interval.
	SiblingResponses(ctx context.Context) ([]SiblingResponse, error)
}

// Limits on the responses that an advisor reads.
const (
	MaxResponses = 10
	MaxBody      = 4 << 10 // bytes of one body
	MaxFeatures  = 32      // of one body
)

// Proposer takes the changes that an advisor proposes. The [Guardrails] check each proposal at
// once, and again in the transaction that writes the session. A refused proposal returns an
// errs.Invalid or an errs.Conflict with a message for the advisor. It changes nothing, and the
// session goes on.
type Proposer interface {
	// ProposeInterval proposes another interval. It replaces an earlier one of this session.
	ProposeInterval(ctx context.Context, p IntervalProposal) (ProposalResult, error)
	// ProposeNextRun proposes one run at an instant. It replaces an earlier one of this session.
	ProposeNextRun(ctx context.Context, p NextRunProposal) (ProposalResult, error)
	// PauseUntil proposes a pause. It replaces an earlier one of this session.
	PauseUntil(ctx context.Context, p PauseProposal) (ProposalResult, error)
	// ClearHints proposes to remove both hints, including those proposed in this session.
	ClearHints(ctx context.Context, reason string) (ProposalResult, error)
}

// Recorder adds entries to the record of the session.
type Recorder interface {
	// RecordRefusal records a call that the advisor was not allowed to make, because it was
	// malformed, unknown or had bad arguments. It counts as a call.
	RecordRefusal(c Call)
	// AddUsage records the usage of a model. Tokens and costs add up; names and digests replace
	// earlier ones.
	AddUsage(u Usage)
	// Warn records a warning for the readers of the session.
	Warn(text string)
}

// IntervalProposal proposes an interval with a time to live.
type IntervalProposal struct {
	Interval time.Duration
	TTL      time.Duration // required
	// Reason is shown with the hint. It is required and has at most 500 characters.
	Reason string
	// OutageSince makes this a hint for an outage that began then. The wait is a tenth of the
	// outage's age, at least Interval, and the hint ends with the first success. Zero means an
	// ordinary hint. Language models are not offered this field.
	OutageSince time.Time
}

// NextRunProposal proposes one run after a delay.
type NextRunProposal struct {
	In     time.Duration
	TTL    time.Duration // required, and longer than In
	Reason string
}

// PauseProposal proposes a pause.
type PauseProposal struct {
	For    time.Duration
	Reason string
}

// ProposalResult is the proposal as the guardrails accepted it.
type ProposalResult struct {
	// Interval is the interval after the guardrails' limits; 0 for other proposals.
	Interval time.Duration
	// Note explains to the advisor how the accepted values differ from the proposal; empty if they
	// do not differ.
	Note string
}

// Call is one recorded call of a session.
type Call struct {
	Tool Tool `json:"tool"`
	// Arguments are the decoded arguments, or the raw text as a JSON string if it could not be
	// decoded. They are cut to 2000 bytes.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Result is a short form of the reply to the advisor, cut to 500 characters.
	Result  string `json:"result"`
	Refused bool   `json:"refused"`
}

// Tool is the name of a call.
type Tool string

// The known tools. A call with any other name is recorded as the advisor spelled it, cut to 64
// characters.
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

// Usage is the consumption of a language model.
type Usage struct {
	Model string
	// PromptDigest is the SHA-256 of the first prompt, in hex. The text itself is never stored.
	PromptDigest     string
	PromptTokens     int64
	CompletionTokens int64
	// CostMicros is the cost in millionths of a US dollar; 0 if the price is unknown.
	CostMicros int64
}

// Response is one captured response of a target.
type Response struct {
	RunID       runs.ID
	At          time.Time // end of the run
	Status      string    // of the run
	StatusCode  int
	Latency     time.Duration
	ContentType string
	// Features are typed values of a JSON body, at most [MaxFeatures].
	Features []Feature
	Body     string // at most [MaxBody] bytes
	// Truncated reports that the body was longer than Body.
	Truncated bool
}

// Feature is a number, boolean or short word at a path of a JSON body, such as $.queue.depth.
type Feature struct {
	Path string
	// Value is a float64, a bool or a string of at most 64 characters.
	Value any
}

// SiblingResponse is the newest response of a sibling.
type SiblingResponse struct {
	Sibling  string
	Role     string
	Response Response
}
