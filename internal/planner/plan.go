package planner

import (
	"fmt"
	"time"

	"rubato/internal/endpoints"
)

// Plan is what a session proposes, as the rails let it pass. Spans count from when it comes into force.
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

// advice words the plan for the endpoint that takes it.
func (p Plan) advice() endpoints.Advice {
	a := endpoints.Advice{Clear: p.Clear}
	if h := p.Interval; h != nil {
		a.Interval = &endpoints.HintRequest{Interval: h.Interval, TTL: &h.TTL, Reason: h.Reason, OutageSince: h.OutageSince}
	}
	if h := p.NextRun; h != nil {
		a.OneShot = &endpoints.HintRequest{In: &h.In, TTL: &h.TTL, Reason: h.Reason}
	}
	if h := p.Pause; h != nil {
		a.Pause, a.PauseReason = h.For, h.Reason
	}
	return a
}

// Words tell what the plan changes, one line each.
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

// Suggestion is a plan that waits for a person.
type Suggestion struct {
	ID         SuggestionID
	TenantID   [16]byte
	EndpointID endpoints.ID
	SessionID  SessionID
	Advisor    string
	Version    int64 // of the configuration that it is for
	Plan       Plan
	Reasoning  string
	CreatedAt  time.Time
	ExpiresAt  time.Time
	State      SuggestionState
	DecidedAt  time.Time // zero: nobody has
	DecidedBy  string    // the name of a key; empty: nobody, or a newer suggestion
}

// SuggestionState says what became of a suggestion.
type SuggestionState string

// The states.
const (
	Pending  SuggestionState = "pending"
	Approved SuggestionState = "approved"
	Rejected SuggestionState = "rejected"
	Replaced SuggestionState = "replaced" // by a newer one
	Expired  SuggestionState = "expired"  // nobody decided in time
)

// suggestionLife is how long a person has to decide: by then the endpoint may behave quite differently.
const suggestionTTL = time.Hour
