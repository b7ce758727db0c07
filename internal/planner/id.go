package planner

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"rubato/internal/errs"
)

// SessionID names a session for ever. It is a UUIDv7, so sessions sort by when they began.
type SessionID [16]byte

// SuggestionID names a suggestion for ever, and sorts likewise.
type SuggestionID [16]byte

const (
	sessionPrefix    = "ps_"
	suggestionPrefix = "sg_"
)

// NewSessionID returns a fresh ID.
func NewSessionID() SessionID { return SessionID(uuid.Must(uuid.NewV7())) }

// NewSuggestionID returns a fresh ID.
func NewSuggestionID() SuggestionID { return SuggestionID(uuid.Must(uuid.NewV7())) }

// FirstSessionID returns an ID that sorts before those of sessions that begin at an instant or later.
func FirstSessionID(at time.Time) SessionID {
	var id SessionID
	ms := at.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i)) //nolint:gosec // One byte after the other.
	}
	return id
}

// String returns the ID as users see it.
func (id SessionID) String() string { return sessionPrefix + uuid.UUID(id).String() }

// String returns the ID as users see it.
func (id SuggestionID) String() string { return suggestionPrefix + uuid.UUID(id).String() }

// ParseSessionID reads the form that String writes. A text that no session has names nothing: the error is an [errs.NotFound]. What is no
// text at all is an [errs.Malformed].
func ParseSessionID(s string) (SessionID, error) {
	id, err := parse(s, sessionPrefix, "session")
	return SessionID(id), err
}

// ParseSuggestionID reads the form that String writes. The errors are those of [ParseSessionID].
func ParseSuggestionID(s string) (SuggestionID, error) {
	id, err := parse(s, suggestionPrefix, "suggestion")
	return SuggestionID(id), err
}

// parse reads an ID of a kind.
func parse(s, prefix, kind string) (uuid.UUID, error) {
	raw, found := strings.CutPrefix(s, prefix)
	id, err := uuid.Parse(raw)
	looks := "the id of a " + kind + " looks like " + prefix + "0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"
	switch {
	case found && err == nil && len(raw) == 36:
		return id, nil
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return uuid.Nil, errs.New(errs.Malformed, "invalid_id", looks)
	default:
		return uuid.Nil, errs.New(errs.NotFound, "not_found", "there is no such "+kind+"; "+looks)
	}
}
