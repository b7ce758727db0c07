package chains

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"rubato/internal/endpoints"
)

// Kind is the kind of a move.
type Kind string

// The moves.
const (
	// Start starts a one-off run for a step.
	Start Kind = "start"
	// Expand inserts the elements of a step with forEach.
	Expand Kind = "expand"
	// End ends a step without a run: it is skipped, its request cannot be made, or its elements are
	// over.
	End Kind = "end"
	// Cancel ends the one-off run of a step.
	Cancel Kind = "cancel"
	// Undo starts a one-off run for the compensation of a step.
	Undo Kind = "undo"
	// EndUndo ends the compensation of a step, because its request cannot be made.
	EndUndo Kind = "end_undo"
)

// Move is a change of one step.
type Move struct {
	Kind Kind
	Key  Key
	// Status, Reason and Error are those of End and EndUndo.
	Status StepStatus
	Reason string
	Error  string
	// Endpoint and Override are those of Start and Undo.
	Endpoint endpoints.ID
	Override endpoints.Override
	// Call is the request of a Start or Undo without an endpoint, which is sent with
	// Override.SentKey; nil: Endpoint sends it.
	Call *endpoints.Spec
	// Items are the elements of Expand.
	Items []any
}

// Moves is the result of [Advance].
type Moves struct {
	List []Move
	// Status and Reason are those of the run afterwards.
	Status Status
	Reason string
	// Output holds the outputs of a run that succeeded.
	Output map[string]any
}

// Advance returns the moves of a run at an instant. It makes every move that is possible, so a run
// that was advanced waits for the end of a one-off run, or for its deadline. The order of the moves
// matters: an element of forEach is started after it was inserted. The given run is not changed.
func Advance(r Run, now time.Time) Moves {
	if r.Status.Over() {
		return Moves{Status: r.Status, Reason: r.Reason}
	}
	a := &advance{
		run:      r,
		now:      now,
		steps:    map[Key]*Step{},
		elements: map[string][]*Step{},
	}
	for _, s := range r.Steps {
		a.add(s)
	}
	for _, list := range a.elements {
		slices.SortFunc(list, func(a, b *Step) int { return cmp.Compare(a.Index, b.Index) })
	}
	if r.Status == Running {
		for a.forward() {
		}
		a.cancel()
		a.finish()
	}
	for a.run.Status == Compensating && a.undo() {
	}
	return Moves{
		List:   a.moves,
		Status: a.run.Status,
		Reason: a.run.Reason,
		Output: a.output,
	}
}

// advance is one evaluation on a copy of the steps.
type advance struct {
	run   Run
	now   time.Time
	steps map[Key]*Step
	// elements holds the elements of forEach in their order, by step.
	elements map[string][]*Step
	// total is the number of all elements, and failed that of the steps and elements that failed or
	// were canceled.
	total, failed int
	// known is the result of stepValues; nil: a step has changed since.
	known  map[string]any
	moves  []Move
	output map[string]any
}

func (a *advance) add(s Step) {
	a.steps[s.Key] = &s
	a.count(s.Status)
	if s.Index != Whole {
		a.elements[s.Name] = append(a.elements[s.Name], &s)
		a.total++
	}
}

// count counts a step or an element that ended without success.
func (a *advance) count(status StepStatus) {
	if status == StepFailed || status == StepCanceled {
		a.failed++
	}
}

// halted returns why no further step starts; empty: steps start.
func (a *advance) halted() string {
	switch {
	case a.run.CancelRequested:
		return ReasonCanceled
	case !a.run.Deadline.IsZero() && !a.now.Before(a.run.Deadline):
		return ReasonTimedOut
	case a.run.Plan.OnFailure != Continue && a.anyFailed():
		return ReasonStepFailed
	default:
		return ""
	}
}

func (a *advance) anyFailed() bool { return a.failed > 0 }

// forward makes the moves of steps that do not wait for other moves, and reports whether it made
// any.
func (a *advance) forward() (moved bool) {
	before := len(a.moves)
	for _, s := range a.run.Plan.steps {
		whole := a.steps[Key{s.Name, Whole}]
		switch {
		case whole.Status == StepWaiting:
			a.begin(s, whole)
		case whole.Status == StepActive && s.forEach != nil:
			a.each(s, whole)
		}
	}
	return len(a.moves) > before
}

// begin decides about a step that waits.
func (a *advance) begin(s *step, whole *Step) {
	if why := a.halted(); why != "" {
		a.end(whole, StepSkipped, why, "")
		return
	}
	for _, name := range s.After {
		switch before := a.steps[Key{name, Whole}]; {
		case !before.Status.Over():
			return
		case before.Status != StepSucceeded && before.Reason != ReasonConditionFalse:
			a.end(whole, StepSkipped, ReasonDependencyFailed, "step "+name+" has not succeeded")
			return
		}
	}
	if s.when != nil {
		holds, err := s.when.Holds(a.conditionValues(s))
		switch {
		case err != nil:
			a.end(whole, StepFailed, ReasonConditionFailed, "when: "+err.Error())
			return
		case !holds:
			a.end(whole, StepSkipped, ReasonConditionFalse, "")
			return
		}
	}
	if s.forEach != nil {
		a.expand(s, whole)
		return
	}
	a.start(s, whole)
}

// start starts a one-off run for a step or an element.
func (a *advance) start(s *step, of *Step) {
	override, call, err := s.request.fill(a.values(of))
	if err != nil {
		a.end(of, StepFailed, ReasonTemplateFailed, "request."+err.Error())
		return
	}
	override.SentKey = of.SentKey(a.run.ID, false)
	a.change(of, StepActive)
	a.moves = append(a.moves, Move{
		Kind:     Start,
		Key:      of.Key,
		Endpoint: s.endpoint,
		Override: override,
		Call:     call,
	})
}

// change sets the status of a step or an element. Templates know those of steps only.
func (a *advance) change(s *Step, status StepStatus) {
	s.Status = status
	if s.Index == Whole {
		a.known = nil
	}
}

// end ends a step without a run.
func (a *advance) end(s *Step, status StepStatus, reason, why string) {
	a.change(s, status)
	a.count(status)
	s.Reason = reason
	a.moves = append(a.moves, Move{
		Kind:   End,
		Key:    s.Key,
		Status: status,
		Reason: reason,
		Error:  why,
	})
}

// cancel ends the one-off runs of a run that was canceled or timed out.
func (a *advance) cancel() {
	if why := a.halted(); why != ReasonCanceled && why != ReasonTimedOut {
		return
	}
	for _, s := range a.sorted() {
		if s.Status == StepActive && (s.Index != Whole || a.run.Plan.step(s.Name).forEach == nil) {
			a.moves = append(a.moves, Move{Kind: Cancel, Key: s.Key})
		}
	}
}

// sorted returns the steps and elements in the order of the plan.
func (a *advance) sorted() (list []*Step) {
	for _, s := range a.run.Plan.steps {
		list = append(list, a.steps[Key{s.Name, Whole}])
		list = append(list, a.elements[s.Name]...)
	}
	return list
}

// finish ends a run whose steps are over, or begins its compensation.
func (a *advance) finish() {
	for _, s := range a.steps {
		if !s.Status.Over() {
			return
		}
	}
	reason := a.halted()
	switch {
	case a.complete(): // Also if its last step ended while a cancel or the deadline came.
		reason = ""
	case reason == "":
		reason = ReasonStepFailed
	}
	if reason == "" && !a.readOutput() {
		reason = ReasonOutputsTooLong
	}
	a.run.Reason = reason
	if reason != "" && a.run.Plan.OnFailure == Compensate {
		a.run.Status = Compensating
		return
	}
	switch reason {
	case ReasonStepFailed, ReasonOutputsTooLong:
		a.run.Status = Failed
	case ReasonTimedOut:
		a.run.Status = TimedOut
	case ReasonCanceled:
		a.run.Status = Canceled
	default:
		a.run.Status = Succeeded
	}
}

// readOutput reads the outputs of the run. It returns false if they are longer than [MaxRunOutput].
func (a *advance) readOutput() bool {
	output, length := map[string]any{}, 0
	for name, path := range a.run.Plan.outputs {
		value := a.lookup(path, nil)
		text, err := json.Marshal(value)
		if length += len(name) + len(text); err != nil || length > MaxRunOutput {
			return false
		}
		output[name] = value
	}
	a.output = output
	return true
}

// complete reports whether each step succeeded or was not to run.
func (a *advance) complete() bool {
	for _, s := range a.steps {
		if s.Status != StepSucceeded && s.Reason != ReasonConditionFalse {
			return false
		}
	}
	return true
}

// undoPriority is the priority of a compensation that is a call.
const undoPriority endpoints.PriorityName = "critical"

// undo starts the compensation of the step that ended last, or ends the run. It reports whether
// another move may follow at once.
func (a *advance) undo() bool {
	var last *Step
	failed := false
	for _, s := range a.steps {
		switch s.Undo {
		case UndoActive:
			return false
		case UndoFailed:
			failed = true
		case UndoRecorded:
			if last == nil || s.Order > last.Order {
				last = s
			}
		case UndoNone, UndoDone:
		}
	}
	if last == nil {
		if a.run.Status = Compensated; failed {
			a.run.Status = CompensationFailed
		}
		return false
	}
	c := a.run.Plan.step(last.Name).compensation
	override, call, err := c.request.fill(a.values(last))
	if err != nil {
		last.Undo = UndoFailed
		a.moves = append(a.moves, Move{
			Kind:   EndUndo,
			Key:    last.Key,
			Reason: ReasonTemplateFailed,
			Error:  "compensation.request." + err.Error(),
		})
		return true
	}
	override.SentKey = last.SentKey(a.run.ID, true)
	if call != nil {
		call.Priority, call.Idempotent = undoPriority, true // Its Idempotency-Key is the same in every attempt.
	}
	last.Undo = UndoActive
	a.moves = append(a.moves, Move{
		Kind:     Undo,
		Key:      last.Key,
		Endpoint: c.endpoint,
		Override: override,
		Call:     call,
	})
	return false
}
