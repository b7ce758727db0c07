package runs

import (
	"fmt"
	"slices"
)

// State is where an endpoint stands, as its schedule says.
type State string

// The states of an endpoint.
const (
	Gone    State = "gone"    // there is no row: not registered, or archived
	Planned State = "planned" // no worker holds it
	Claimed State = "claimed" // a worker holds it, and has not started it
	Live    State = "live"    // its run is in flight
	Leaving State = "leaving" // archived during its run, whose end removes the row
)

// States returns every state of an endpoint.
func States() []State { return []State{Gone, Planned, Claimed, Live, Leaving} }

// Held reports whether a worker holds an endpoint in this state.
func (s State) Held() bool { return s == Claimed || s.Running() }

// Running reports whether a run of the endpoint is in flight in this state.
func (s State) Running() bool { return s == Live || s == Leaving }

// Token says what becomes of the claim token in a move. It never falls.
type TokenChange string

// What becomes of the token.
const (
	Raised TokenChange = "raised" // every earlier holder is fenced off
	Kept   TokenChange = "kept"   // the holder goes on under it
	Free   TokenChange = "free"   // kept or raised
)

// Move is a legal change of a row of schedules. Holder and run are compared where both states have one.
type Transition struct {
	From, To State
	Token    TokenChange
	NewOwner bool // another worker holds it afterwards; else the same
}

// Moves returns every legal move of an endpoint. The triggers of the database say the same.
func Transitions() []Transition {
	return []Transition{
		{From: Gone, To: Planned, Token: Free},
		{From: Planned, To: Planned, Token: Free},
		{From: Planned, To: Claimed, Token: Raised},
		{From: Planned, To: Gone, Token: Free},
		{From: Claimed, To: Planned, Token: Raised},
		{From: Claimed, To: Claimed, Token: Free},
		{From: Claimed, To: Claimed, Token: Raised, NewOwner: true},
		{From: Claimed, To: Live, Token: Kept},
		{From: Claimed, To: Gone, Token: Free},
		{From: Live, To: Live, Token: Free},
		{From: Live, To: Leaving, Token: Free},
		{From: Live, To: Planned, Token: Raised},
		{From: Live, To: Claimed, Token: Raised},
		{From: Live, To: Claimed, Token: Raised, NewOwner: true},
		{From: Leaving, To: Leaving, Token: Free},
		{From: Leaving, To: Gone, Token: Free},
	}
}

// Change is a change of a row of schedules that is to be judged.
type TransitionAttempt struct {
	From, To   State
	TokenDelta int  // 1: the token rises, 0: it stays, -1: it falls
	NewOwner   bool // the holder changes; of two held states alone
	NewRun     bool // the run in flight changes; of two running states alone
}

// Legal reports whether a change is a legal move.
func (c TransitionAttempt) Legal() bool {
	for _, m := range Transitions() {
		if m.From == c.From && m.To == c.To && m.NewOwner == c.NewOwner && m.Token.allows(c.TokenDelta) {
			return !c.NewRun
		}
	}
	return false
}

func (t TokenChange) allows(rise int) bool {
	switch t {
	case Raised:
		return rise > 0
	case Kept:
		return rise == 0
	case Free:
		return rise >= 0
	}
	return false
}

// Next returns the statuses that a run of this status may move to: a live one to each that is over, one
// that is over to none.
func (s Status) Next() []Status {
	if s != Running {
		return nil
	}
	return Statuses()[1:]
}

// Move returns an error if a run may not move from this status to next.
func (s Status) CheckTransition(next Status) error {
	if slices.Contains(s.Next(), next) {
		return nil
	}
	return fmt.Errorf("move a run from %q to %q: it is not a legal move", s, next)
}
