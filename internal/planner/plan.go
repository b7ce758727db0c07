package planner

import (
	"fmt"
	"time"

	"rubato/internal/endpoints"
)

// Plan is the set of changes that a session proposes, as the guardrails accepted them. Durations
// count from the moment it comes into force.
type Plan struct {
	Clear    bool
	Interval *IntervalProposal // nil: none
	NextRun  *NextRunProposal  // nil: none
	Pause    *PauseProposal    // nil: none
}

// Empty reports whether the plan changes nothing.
func (p Plan) Empty() bool {
	return !p.Clear && p.Interval == nil && p.NextRun == nil && p.Pause == nil
}

// advice converts the plan for the endpoint that applies it.
func (p Plan) advice() endpoints.Advice {
	a := endpoints.Advice{Clear: p.Clear}
	if h := p.Interval; h != nil {
		a.Interval = &endpoints.HintRequest{
			Interval:    h.Interval,
			TTL:         &h.TTL,
			Reason:      h.Reason,
			OutageSince: h.OutageSince,
		}
	}
	if h := p.NextRun; h != nil {
		a.OneShot = &endpoints.HintRequest{
			In:     &h.In,
			TTL:    &h.TTL,
			Reason: h.Reason,
		}
	}
	if h := p.Pause; h != nil {
		a.Pause, a.PauseReason = h.For, h.Reason
	}
	return a
}

// Describe returns one line of text per change.
func (p Plan) Describe() []string {
	words := []string{}
	if p.Clear {
		words = append(words, "forget both hints")
	}
	if h := p.Interval; h != nil {
		every := h.Interval.String()
		if !h.OutageSince.IsZero() {
			every += ", then each tenth of the outage,"
		}
		words = append(words, fmt.Sprintf("run every %s for %s: %s", every, h.TTL, h.Reason))
	}
	if h := p.NextRun; h != nil {
		words = append(words, fmt.Sprintf("run once in %s: %s", h.In, h.Reason))
	}
	if h := p.Pause; h != nil {
		words = append(words, fmt.Sprintf("pause for %s: %s", h.For, h.Reason))
	}
	return words
}

// Kinds returns which kinds of changes the plan makes.
func (p Plan) Kinds() []Kind {
	var kinds []Kind
	if p.Clear {
		kinds = append(kinds, KindClear)
	}
	if p.Interval != nil {
		kinds = append(kinds, KindInterval)
	}
	if p.NextRun != nil {
		kinds = append(kinds, KindOneShot)
	}
	if p.Pause != nil {
		kinds = append(kinds, KindPause)
	}
	return kinds
}

// Kind is a kind of change.
type Kind string

// The kinds.
const (
	KindInterval Kind = "interval"
	KindOneShot  Kind = "one-shot"
	KindPause    Kind = "pause"
	KindClear    Kind = "clear"
)

func kinds() []Kind { return []Kind{KindInterval, KindOneShot, KindPause, KindClear} }

// Suggestion is a plan that waits for approval by a person.
type Suggestion struct {
	ID         SuggestionID
	TenantID   [16]byte
	EndpointID endpoints.ID
	SessionID  SessionID
	Advisor    string
	Version    int64 // of the configuration that it applies to
	Plan       Plan
	Reasoning  string
	CreatedAt  time.Time
	ExpiresAt  time.Time
	State      SuggestionState
	DecidedAt  time.Time // zero: undecided
	// DecidedBy is the name of the API key; empty if undecided or replaced.
	DecidedBy string
}

// SuggestionState is the state of a suggestion.
type SuggestionState string

// The states.
const (
	Pending  SuggestionState = "pending"
	Approved SuggestionState = "approved"
	Rejected SuggestionState = "rejected"
	Replaced SuggestionState = "replaced" // superseded by a newer suggestion
	Expired  SuggestionState = "expired"  // not decided in time
)

// suggestionTTL is the time for a decision. After it the endpoint may behave quite differently.
const suggestionTTL = time.Hour
