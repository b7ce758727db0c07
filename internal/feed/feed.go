// Package feed defines the event stream for watchers: events in commit order, and positions in that
// order to resume from.
//
// A position is a transaction and a row of its events. A transaction is read only after every
// transaction with a smaller number has ended. Therefore no event appears later in front of a
// position that a client has passed, and a resumed stream has no gap. The package reads no clock.
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
	// Position is the position of the event. It is zero for RunStarted, because a run in progress
	// has none.
	Position Position
	Run      *runs.Run
	Change   *Change
	Hint     *Hint
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

// Query asks for the events of a tenant after a position. Zero fields do not filter.
type Query struct {
	TenantID   [16]byte
	EndpointID [16]byte
	Types      []Type
	After      Position
	Limit      int // maximum number of each kind; must be positive
}

// Asks reports whether the query wants events of a type.
func (q Query) Asks(t Type) bool {
	return len(q.Types) == 0 || slices.Contains(q.Types, t)
}

// Page is the result of a query.
type Page struct {
	Events []Event    // in commit order; without RunStarted
	Live   []runs.Run // runs in progress, if the query asks for RunStarted
	Next   Position   // start of the next query
	More   bool       // the next page has events already
}

// Reader finds events.
type Reader interface {
	// Head returns the position after all current events, and the database's time.
	Head(ctx context.Context) (Position, time.Time, error)
	// Read returns the events after a position. A position in the future is an [errs.Malformed].
	Read(ctx context.Context, q Query) (Page, error)
}

// Position is a point in the order of events.
type Position struct {
	TxID int64
	// The changes of a transaction precede its runs, which are stored in rows of several. If Run is
	// zero, Row is the number of the last sent change. Otherwise all changes were sent, Row is a
	// row of runs, and Run is the last sent run of that row.
	Row int64
	Run [16]byte
	At  time.Time // approximate time, in milliseconds, to detect a position that is too old
}
