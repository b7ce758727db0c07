package chains

import (
	"fmt"
	"time"
)

// Status is the state of a run of a chain.
type Status string

// The states. All but the first two are final.
const (
	Running      Status = "running"
	Compensating Status = "compensating"

	Succeeded          Status = "succeeded"
	Failed             Status = "failed"
	TimedOut           Status = "timed_out"
	Canceled           Status = "canceled"
	Compensated        Status = "compensated"
	CompensationFailed Status = "compensation_failed"
)

// Over reports whether a state is final.
func (s Status) Over() bool { return s != Running && s != Compensating }

// StepStatus is the state of a step in a run, or of one element of its forEach.
type StepStatus string

// The states. All but the first two are final. An active step has a one-off run; an active step
// with forEach has elements.
const (
	StepWaiting StepStatus = "waiting"
	StepActive  StepStatus = "active"

	StepSucceeded StepStatus = "succeeded"
	StepFailed    StepStatus = "failed"
	StepCanceled  StepStatus = "canceled"
	StepSkipped   StepStatus = "skipped"
)

// Over reports whether a state is final.
func (s StepStatus) Over() bool { return s != StepWaiting && s != StepActive }

// UndoStatus is the state of the compensation of a step. A step without one has none.
type UndoStatus string

// The states. The success of a step records its compensation.
const (
	UndoNone     UndoStatus = ""
	UndoRecorded UndoStatus = "recorded"
	UndoActive   UndoStatus = "active"
	UndoDone     UndoStatus = "done"
	UndoFailed   UndoStatus = "failed"
)

// The reasons of steps and runs beside those of runs of endpoints.
const (
	ReasonConditionFalse   = "condition_false"
	ReasonConditionFailed  = "condition_failed"
	ReasonDependencyFailed = "dependency_failed"
	ReasonForEachInvalid   = "for_each_invalid"
	ReasonTemplateFailed   = "template_failed"
	ReasonRequestRefused   = "request_refused"
	ReasonElementFailed    = "element_failed"
	ReasonTooManyElements  = "too_many_elements"
	ReasonOutputsTooLong   = "outputs_too_long"
	ReasonStepFailed       = "step_failed"
	ReasonTimedOut         = "chain_timed_out"
	ReasonCanceled         = "chain_canceled"
)

// Whole is the index of a step itself; the elements of its forEach count from 0.
const Whole = -1

// Key identifies a step of a run, or one element of its forEach.
type Key struct {
	Name  string
	Index int
}

// SentKey returns the Idempotency-Key of the request of a step, or of its compensation.
func (k Key) SentKey(run RunID, undo bool) string {
	key := run.String() + "." + k.Name
	if k.Index != Whole {
		key += fmt.Sprintf(".%d", k.Index)
	}
	if undo {
		key += ".compensation"
	}
	return key
}

// Step is a step of a run, or one element of its forEach.
type Step struct {
	Key

	Status StepStatus
	Reason string
	// Output holds the outputs of a step that succeeded, by name.
	Output map[string]any
	// Item is the element of forEach.
	Item any
	// Order is the order in which steps ended; 0: it has not ended.
	Order int64
	Undo  UndoStatus
}

// Run is a run of a chain with its steps.
type Run struct {
	ID     RunID
	Plan   *Plan
	Input  map[string]any
	Status Status
	// Reason is why the run stopped before all of its steps ran; empty: it did not.
	Reason string
	// Deadline is the end of the time for its steps; zero: none.
	Deadline time.Time
	// CancelRequested means that a user asked for its end.
	CancelRequested bool
	Steps           []Step
}
