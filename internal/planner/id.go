package planner

import (
	"time"

	"github.com/google/uuid"

	"rubato/internal/ids"
)

// SessionID identifies a session. It is a UUIDv7, so sessions sort by their start.
type SessionID [16]byte

// SuggestionID identifies a suggestion. It is a UUIDv7, too.
type SuggestionID [16]byte

var (
	sessionKind    = ids.Kind{Prefix: "ps_", Noun: "session"}
	suggestionKind = ids.Kind{Prefix: "sg_", Noun: "suggestion"}
)

// NewSessionID returns a fresh ID.
func NewSessionID() SessionID { return SessionID(uuid.Must(uuid.NewV7())) }

// NewSuggestionID returns a fresh ID.
func NewSuggestionID() SuggestionID { return SuggestionID(uuid.Must(uuid.NewV7())) }

// FirstSessionID returns the lowest ID of the sessions that begin at or after an instant.
func FirstSessionID(at time.Time) SessionID { return ids.First(at) }

// String returns the ID as users see it.
func (id SessionID) String() string { return sessionKind.String(id) }

// String returns the ID as users see it.
func (id SuggestionID) String() string { return suggestionKind.String(id) }

// ParseSessionID parses the form that String writes. The error is an [errs.NotFound] if the text is
// not the form of a session ID, and an [errs.Malformed] if it is not valid text.
func ParseSessionID(s string) (SessionID, error) {
	id, err := sessionKind.Parse(s)
	return id, err
}

// ParseSuggestionID parses the form that String writes, with the errors of [ParseSessionID].
func ParseSuggestionID(s string) (SuggestionID, error) {
	id, err := suggestionKind.Parse(s)
	return id, err
}
