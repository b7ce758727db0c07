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

// ID names a notice for ever: it is what receivers know it by, however often it is sent. IDs sort by when notices were written.
type ID [16]byte

const idPrefix = "ntc_"

// String returns the ID as users see it: ntc_ and the UUID in its canonical form.
func (id ID) String() string { return idPrefix + uuid.UUID(id).String() }

// ParseID reads the form that String writes. A text that no ID has names nothing: the error is an [errs.NotFound]. What is no text at all
// is an [errs.Malformed].
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

// EpisodeID names an episode for ever.
type EpisodeID [16]byte

// String returns the ID as users see it: epi_ and the UUID in its canonical form.
func (id EpisodeID) String() string { return "epi_" + uuid.UUID(id).String() }

// Kind is what a notice says of its episode.
type Kind string

// The kinds of notices.
const (
	Opened    Kind = "opened"    // it began
	Reminder  Kind = "reminder"  // it goes on
	Recovered Kind = "recovered" // it is over
	Withdrawn Kind = "withdrawn" // whether it is over is not known: nobody looks any more
)

// Kinds returns every kind of notice.
func Kinds() []Kind { return []Kind{Opened, Reminder, Recovered, Withdrawn} }

// Ends reports whether it is the last notice of its episode.
func (k Kind) Ends() bool { return k == Recovered || k == Withdrawn }

// Cause is why an episode ended that did not recover.
type Cause string

// The causes.
const (
	RuleChanged      Cause = "rule_changed"
	RuleDeleted      Cause = "rule_deleted"
	EndpointArchived Cause = "endpoint_archived"
)

// Causes returns every cause.
func Causes() []Cause { return []Cause{RuleChanged, RuleDeleted, EndpointArchived} }

// State is what became of a notice.
type State string

// The states. A notice that was given up can be sent again; else what is not waiting stays as it is.
const (
	Waiting   State = "waiting"   // to be sent, or sent again
	Delivered State = "delivered" // the receiver took it
	Dead      State = "dead"      // given up
	Muted     State = "muted"     // nobody is told: a maintenance window held it until it was over, or its rule is gone
)

// Detail is what is known of an episode when it opens. Zero fields do not apply.
type Detail struct {
	Failures     int    `json:"failures,omitempty"` // in a row
	RunID        string `json:"runId,omitempty"`
	Status       string `json:"status,omitempty"` // of the run
	ReasonCode   string `json:"reasonCode,omitempty"`
	StatusCode   int    `json:"statusCode,omitempty"`
	Error        string `json:"error,omitempty"`
	LateMs       int64  `json:"lateMs,omitempty"`
	Reason       string `json:"reason,omitempty"` // of a pause, or of a suggestion
	SuggestionID string `json:"suggestionId,omitempty"`
}

// Episode is a time at which something was wrong with an endpoint by a rule.
type Episode struct {
	EpisodeID    EpisodeID
	Rule         string // its name
	Event        Event
	EndpointID   endpoints.ID
	EndpointName string
	OpenedAt     time.Time
	ClosedAt     time.Time // zero: it is open
	Detail       Detail
}

// Notice is one message about an episode, and what became of it.
type Notice struct {
	Episode

	ID         ID
	Kind       Kind
	Cause      Cause // of a notice that withdraws; else empty
	Number     int   // of the reminder, from 1; else 0
	CreatedAt  time.Time
	NextAt     time.Time // when it is sent, or sent again; zero: it is not
	State      State
	Attempts   int
	Held       bool // a maintenance window held it
	EndedAt    time.Time
	StatusCode int    // that the last attempt was answered with; zero: it was not
	Error      string // why the last attempt failed, or who of several recipients got nothing
}

// Filter selects notices of one tenant, the newest first. Zero fields do not filter.
type Filter struct {
	TenantID   [16]byte
	EndpointID endpoints.ID
	Rule       string
	State      State
	Before     ID  // only those that sort below: the cursor of a list
	Limit      int // at most so many; must be positive
}

// PageFilter selects rules or windows of one tenant, by name.
type PageFilter struct {
	TenantID [16]byte
	After    string // only names that sort above: the cursor of a list
	Limit    int    // at most so many; must be positive
}
