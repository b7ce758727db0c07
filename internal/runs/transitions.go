package runs

import (
	"fmt"
	"slices"
)

// State is the state of an endpoint's schedule row.
type State string

// The states of an endpoint.
const (
	Gone    State = "gone"    // no row: not registered, or archived
	Planned State = "planned" // not claimed
	Claimed State = "claimed" // claimed by a worker, but not started
	Live    State = "live"    // run in flight
	// Suspended: the target answered 202, and the run waits for a callback. No worker holds it.
	Suspended State = "suspended"
	Leaving   State = "leaving" // archived during its run; the end of the run deletes the row
)

// States returns every state of an endpoint.
func States() []State { return []State{Gone, Planned, Claimed, Live, Suspended, Leaving} }

// Held reports whether a worker holds a claim in this state.
func (s State) Held() bool { return s == Claimed || s == Live || s == Leaving }

// Running reports whether a run has started and not ended in this state.
func (s State) Running() bool { return s == Live || s == Suspended || s == Leaving }

// TokenChange is the effect of a transition on the fencing token. The token never decreases.
type TokenChange string

// The effects on the token.
const (
	Raised TokenChange = "raised" // fences off every earlier holder
	Kept   TokenChange = "kept"   // the holder continues
	Free   TokenChange = "free"   // kept or raised
)

// Transition is a legal change of a schedule row. Holder and run are compared if both states have
// one.
type Transition struct {
	From, To State
	Token    TokenChange
	// NewOwner requires that another worker holds it afterwards; otherwise the holder stays.
	NewOwner bool
}

// Transitions returns every legal transition of an endpoint. Database triggers enforce the same
// table.
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
		{From: Live, To: Suspended, Token: Kept},
		{From: Live, To: Leaving, Token: Free},
		{From: Live, To: Planned, Token: Raised},
		{From: Live, To: Claimed, Token: Raised},
		{From: Live, To: Claimed, Token: Raised, NewOwner: true},
		{From: Suspended, To: Suspended, Token: Free},
		{From: Suspended, To: Leaving, Token: Free},
		{From: Suspended, To: Planned, Token: Raised},
		{From: Leaving, To: Leaving, Token: Free},
		{From: Leaving, To: Gone, Token: Free},
	}
}

// TransitionAttempt is a change of a schedule row to check.
type TransitionAttempt struct {
	From, To   State
	TokenDelta int  // 1: token raised, 0: kept, -1: lowered
	NewOwner   bool // the holder changes; only for two held states
	NewRun     bool // the run changes; only for two running states
}

// Legal reports whether the change is a legal transition.
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

// Next returns the statuses that may follow this one: every final status after running, none after
// a final status.
func (s Status) Next() []Status {
	if s != Running {
		return nil
	}
	return Statuses()[1:]
}

// CheckTransition returns an error if the transition to next is illegal.
func (s Status) CheckTransition(next Status) error {
	if slices.Contains(s.Next(), next) {
		return nil
	}
	return fmt.Errorf("change status of a run from %q to %q: not a legal transition", s, next)
}
