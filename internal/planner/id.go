package planner

import (
	"strings"
	"time"

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
		id[i] = byte(ms >> (40 - 8*i))
	}
	return id
}

// String returns the ID as users see it.
func (id SessionID) String() string { return sessionPrefix + uuid.UUID(id).String() }

// String returns the ID as users see it.
func (id SuggestionID) String() string { return suggestionPrefix + uuid.UUID(id).String() }

// ParseSessionID reads the form that String writes. The error is an [errs.NotFound]: a text that no session has names nothing.
func ParseSessionID(s string) (SessionID, error) {
	id, ok := parse(s, sessionPrefix)
	if !ok {
		return SessionID{}, errs.New(errs.NotFound, "not_found", "there is no such session; the id of one looks like ps_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90")
	}
	return SessionID(id), nil
}

// ParseSuggestionID reads the form that String writes. The error is an [errs.NotFound].
func ParseSuggestionID(s string) (SuggestionID, error) {
	id, ok := parse(s, suggestionPrefix)
	if !ok {
		return SuggestionID{}, errs.New(errs.NotFound, "not_found", "there is no such suggestion; the id of one looks like sg_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90")
	}
	return SuggestionID(id), nil
}

func parse(s, prefix string) (uuid.UUID, bool) {
	raw, found := strings.CutPrefix(s, prefix)
	id, err := uuid.Parse(raw)
	return id, found && err == nil && len(raw) == 36
}
