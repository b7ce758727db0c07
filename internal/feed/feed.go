// Package feed defines the event stream for watchers: events in commit order, and positions in that order to resume from.
//
// It reads no clock. A place is a transaction and the part of it that was sent. A transaction is read only after every one with a smaller
// number has ended, so that no event appears before a place that was reached.
package feed

import (
	"context"
	"slices"
	"time"

	"rubato/internal/runs"
)

// Window is how far back a watcher may resume.
const Window = 24 * time.Hour

// Type is the type of an event.
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

// Event is an event of the stream. Exactly one of Run, Change and Hint is set.
type Event struct {
	Type       Type
	At         time.Time
	EndpointID [16]byte
	Place      Place // to resume after it; zero: it has none of its own
	Run        *runs.Run
	Change     *Change
	Hint       *Hint
}

// Change is a change of an endpoint.
type Change struct {
	Version     int64      `json:"version"`
	Action      string     `json:"action,omitempty"`      // of EndpointChanged: registered, edited, archived
	PausedUntil *time.Time `json:"pausedUntil,omitempty"` // of EndpointPaused; nil: until resumed
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
	Limit      int // maximum number of each kind; must be positive
}

// Asks reports whether the query wants events of a type.
func (q Query) Asks(t Type) bool {
	return len(q.Types) == 0 || slices.Contains(q.Types, t)
}

// Page is the result of a query.
type Page struct {
	Events []Event    // in order; only finished runs
	Live   []runs.Run // runs in progress, where the query asks for runs that started
	Next   Place      // start of the next query
	More   bool       // there is more already
}

// Reader finds events.
type Reader interface {
	// Head returns the place after all current events, and the database's time.
	Head(ctx context.Context) (Place, time.Time, error)
	// Read returns the events after a place. A place in the future is an [errs.Malformed].
	Read(ctx context.Context, q Query) (Page, error)
}

// Place is a point in the order of events.
type Place struct {
	TxID int64
	// Changes of a transaction come before its runs, and runs come in rows. Row is the number of the last sent change, or, if
	// Run is not zero, of the row of runs: then Run is the last sent run of that row, and all changes were sent.
	Row int64
	Run [16]byte
	At  time.Time // approximate time, in milliseconds, to detect a place that is too old
}
