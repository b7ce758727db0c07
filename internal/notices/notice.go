package notices

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
)

// ID identifies a notice permanently, and is the same for every attempt, so that receivers can drop
// duplicates. IDs sort by creation time.
type ID [16]byte

const idPrefix = "ntc_"

// String returns the ID as users see it: ntc_ and the UUID in its canonical form.
func (id ID) String() string { return idPrefix + uuid.UUID(id).String() }

// ParseID parses the form that String writes. The error is an [errs.Malformed] for input that is
// not text, and an [errs.NotFound] for any other input that is no ID.
func ParseID(s string) (ID, error) {
	const example = "; a notice id looks like ntc_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"
	raw, found := strings.CutPrefix(s, idPrefix)
	u, err := uuid.Parse(raw)
	switch {
	case found && err == nil && len(raw) == 36:
		return ID(u), nil
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return ID{}, errs.New(errs.Malformed, "invalid_id", "the id cannot be read"+example)
	default:
		return ID{}, errs.New(errs.NotFound, "not_found", "there is no such notice"+example)
	}
}

// EpisodeID identifies an episode permanently.
type EpisodeID [16]byte

// String returns the ID as users see it: epi_ and the UUID in its canonical form.
func (id EpisodeID) String() string { return "epi_" + uuid.UUID(id).String() }

// Kind is the kind of a notice.
type Kind string

// The kinds of notices.
const (
	// Opened: the episode began.
	Opened Kind = "opened"
	// Reminder: the episode goes on.
	Reminder Kind = "reminder"
	// Recovered: the episode is over.
	Recovered Kind = "recovered"
	// Withdrawn: the episode is no longer watched, and its outcome is unknown.
	Withdrawn Kind = "withdrawn"
)

// Kinds returns every kind of notice.
func Kinds() []Kind { return []Kind{Opened, Reminder, Recovered, Withdrawn} }

// Ends reports whether it is the last notice of its episode.
func (k Kind) Ends() bool { return k == Recovered || k == Withdrawn }

// Cause is the reason of an end without recovery.
type Cause string

// The causes.
const (
	RuleChanged      Cause = "rule_changed"
	RuleDeleted      Cause = "rule_deleted"
	EndpointArchived Cause = "endpoint_archived"
)

// Causes returns every cause.
func Causes() []Cause { return []Cause{RuleChanged, RuleDeleted, EndpointArchived} }

// State is the delivery state of a notice.
type State string

// The states. Only a dead notice can be sent again; the other final states never change.
const (
	// Waiting: the notice is queued for its first or next attempt.
	Waiting State = "waiting"
	// Delivered: the receiver accepted the notice.
	Delivered State = "delivered"
	// Dead: the notice is a dead letter.
	Dead State = "dead"
	// Muted: the notice was dropped, because of a maintenance window or a deleted rule.
	Muted State = "muted"
)

// Detail holds the facts at the opening of an episode. Zero fields do not apply.
type Detail struct {
	// Failures is the number of consecutive failures.
	Failures int    `json:"failures,omitempty"`
	RunID    string `json:"runId,omitempty"`
	// Status is that of the run.
	Status     string `json:"status,omitempty"`
	ReasonCode string `json:"reasonCode,omitempty"`
	StatusCode int    `json:"statusCode,omitempty"`
	Error      string `json:"error,omitempty"`
	LateMs     int64  `json:"lateMs,omitempty"`
	// Host is host and port of an open breaker.
	Host string `json:"host,omitempty"`
	// Reason is that of a pause or a suggestion.
	Reason       string `json:"reason,omitempty"`
	SuggestionID string `json:"suggestionId,omitempty"`
}

// Episode is a period in which a rule's condition held at an endpoint.
type Episode struct {
	EpisodeID EpisodeID
	// Rule is the name of the rule.
	Rule         string
	Event        Event
	EndpointID   endpoints.ID
	EndpointName string
	OpenedAt     time.Time
	// ClosedAt is zero for an open episode.
	ClosedAt time.Time
	Detail   Detail
}

// Notice is one message about an episode, and its delivery state.
type Notice struct {
	Episode

	ID   ID
	Kind Kind
	// Cause is set for a withdrawn notice.
	Cause Cause
	// Number is that of a reminder, from 1; 0: no reminder.
	Number    int
	CreatedAt time.Time
	// NextAt is the time of the next attempt; zero: none.
	NextAt   time.Time
	State    State
	Attempts int
	// Held means that a maintenance window held the notice back.
	Held    bool
	EndedAt time.Time
	// StatusCode is the answer of the last attempt; zero: none.
	StatusCode int
	// Error is the failure of the last attempt, or describes the recipients that got no message.
	Error string
}

// Filter selects notices of one tenant, newest first. Zero fields do not filter.
type Filter struct {
	TenantID   [16]byte
	EndpointID endpoints.ID
	Rule       string
	State      State
	// Before is the cursor of a list: only IDs that sort below it are returned.
	Before ID
	// Limit is the maximum number of results. It must be positive.
	Limit int
}

// PageFilter selects rules or windows of one tenant, sorted by name.
type PageFilter struct {
	TenantID [16]byte
	// After is the cursor of a list: only names that sort above it are returned.
	After string
	// Limit is the maximum number of results. It must be positive.
	Limit int
}
