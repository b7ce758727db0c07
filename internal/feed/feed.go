// Package feed knows what those who watch are told: events in the order of their commits, and places in that order to resume from.
//
// It reads no clock. A place is a transaction and what of it was told: a transaction becomes visible after every one with a smaller
// number is over, so nothing ever turns up before a place that was reached.
package feed

import (
	"context"
	"slices"
	"time"

	"rubato/internal/runs"
)

// Window is how far back a watcher may resume.
const Window = 24 * time.Hour

// Type says what happened.
type Type string

// The types of events.
const (
	RunStarted      Type = "run.started"
	RunFinished     Type = "run.finished"
	HintSet         Type = "hint.set"
	HintCleared     Type = "hint.cleared"
	EndpointPaused  Type = "endpoint.paused"
	EndpointResumed Type = "endpoint.resumed"
	EndpointChanged Type = "endpoint.changed"
)

// Types returns every type of event, in the order of the contract.
func Types() []Type {
	return []Type{RunStarted, RunFinished, HintSet, HintCleared, EndpointPaused, EndpointResumed, EndpointChanged}
}

// Event is something that happened. Exactly one of Run, Change and Hint is set.
type Event struct {
	Type       Type
	At         time.Time
	EndpointID [16]byte
	Place      Place // to resume after it; zero: it has none of its own
	Run        *runs.Run
	Change     *Change
	Hint       *Hint
}

// Change is what was done to an endpoint.
type Change struct {
	Version     int64      `json:"version"`
	Action      string     `json:"action,omitempty"`      // of EndpointChanged: registered, edited, archived
	PausedUntil *time.Time `json:"pausedUntil,omitempty"` // of EndpointPaused; nil: until somebody resumes
	Reason      string     `json:"reason,omitempty"`      // of EndpointPaused
}

// Hint is a hint that was set or cleared.
type Hint struct {
	Kind       string     `json:"kind"` // interval or one-shot
	IntervalMs int64      `json:"intervalMs,omitempty"`
	RunAt      *time.Time `json:"runAt,omitempty"`
	ExpiresAt  time.Time  `json:"expiresAt"`
	Author     string     `json:"author,omitempty"`
	Reason     string     `json:"reason,omitempty"`
}

// Query asks for the events of a tenant after a place. Zero fields do not filter.
type Query struct {
	TenantID   [16]byte
	EndpointID [16]byte
	Types      []Type
	After      Place
	Limit      int // at most so many of each sort; must be positive
}

// Asks reports whether the query wants events of a type.
func (q Query) Asks(t Type) bool {
	return len(q.Types) == 0 || slices.Contains(q.Types, t)
}

// Page is what a query found.
type Page struct {
	Events []Event    // in order; of runs only those that are over
	Live   []runs.Run // runs in progress, where the query asks for runs that started
	Next   Place      // where to go on
	More   bool       // there is more already
}

// Reader finds events.
type Reader interface {
	// Head returns the place after everything that has happened until now, and the database's time.
	Head(ctx context.Context) (Place, time.Time, error)
	// Read returns what happened after a place. A place that nobody could have reached yet is an [errs.Malformed].
	Read(ctx context.Context, q Query) (Page, error)
}

// Place is a point in the order of events.
type Place struct {
	TxID int64
	// Changes of a transaction come before its runs, and runs come in rows. Row is the number of the change that was told last, or, where
	// Run is not zero, of the row of runs: then Run is the last of that row that was told, and so were all changes.
	Row int64
	Run [16]byte
	At  time.Time // about when it was, in milliseconds, to tell a place that is too old
}
