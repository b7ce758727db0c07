package planner

import (
	"time"

	"github.com/google/uuid"

	"rubato/internal/ids"
)

// SessionID names a session for ever. It is a UUIDv7, so sessions sort by when they began.
type SessionID [16]byte

// SuggestionID names a suggestion for ever, and sorts likewise.
type SuggestionID [16]byte

var (
	sessionKind    = ids.Kind{Prefix: "ps_", Noun: "session"}
	suggestionKind = ids.Kind{Prefix: "sg_", Noun: "suggestion"}
)

// NewSessionID returns a fresh ID.
func NewSessionID() SessionID { return SessionID(uuid.Must(uuid.NewV7())) }

// NewSuggestionID returns a fresh ID.
func NewSuggestionID() SuggestionID { return SuggestionID(uuid.Must(uuid.NewV7())) }

// FirstSessionID returns an ID that sorts before those of sessions that begin at an instant or later.
func FirstSessionID(at time.Time) SessionID { return ids.First(at) }

// String returns the ID as users see it.
func (id SessionID) String() string { return sessionKind.String(id) }

// String returns the ID as users see it.
func (id SuggestionID) String() string { return suggestionKind.String(id) }

// ParseSessionID reads the form that String writes. A text that no session has names nothing: the error is an [errs.NotFound]. What is no
// text at all is an [errs.Malformed].
func ParseSessionID(s string) (SessionID, error) {
	id, err := sessionKind.Parse(s)
	return id, err
}

// ParseSuggestionID reads the form that String writes. The errors are those of [ParseSessionID].
func ParseSuggestionID(s string) (SuggestionID, error) {
	id, err := suggestionKind.Parse(s)
	return id, err
}
