package chains

import (
	"cmp"
	"fmt"
)

// expand inserts the elements of a step.
func (a *advance) expand(s *step, whole *Step) {
	items, is := a.lookup(s.forEach, whole).([]any)
	if !is || len(items) > MaxItems {
		a.end(whole, StepFailed, ReasonForEachInvalid, s.ForEach+" is not a list of at most 1000 elements")
		return
	}
	if all := a.total + len(items); all > MaxElements {
		a.end(whole, StepFailed, ReasonTooManyElements, tooManyElements(all))
		return
	}
	a.change(whole, StepActive)
	a.moves = append(a.moves, Move{
		Kind:  Expand,
		Key:   whole.Key,
		Items: items,
	})
	for i, item := range items {
		a.add(Step{
			Key:    Key{s.Name, i},
			Status: StepWaiting,
			Item:   item,
		})
	}
}

func tooManyElements(all int) string {
	return fmt.Sprintf("the steps with forEach have %d elements together; a run has at most %d", all, MaxElements)
}

// each starts elements up to the bound of the step, and ends the step after its last element.
func (a *advance) each(s *step, whole *Step) {
	active, elements := 0, a.elements[s.Name]
	for _, e := range elements {
		if e.Status == StepActive {
			active++
		}
	}
	for _, e := range elements {
		if e.Status != StepWaiting {
			continue
		}
		if why := a.halted(); why != "" {
			a.end(e, StepSkipped, why, "")
			continue
		}
		if active == cmp.Or(s.Parallel, DefaultParallel) {
			return
		}
		if a.start(s, e); e.Status == StepActive {
			active++
		}
	}
	if active == 0 {
		a.join(whole, elements)
	}
}

// join ends a step whose elements are over. It succeeds if each of them did.
func (a *advance) join(whole *Step, elements []*Step) {
	status, reason := StepSucceeded, ""
	for _, e := range elements {
		switch e.Status {
		case StepFailed, StepCanceled:
			a.end(whole, e.Status, ReasonElementFailed, "")
			return
		case StepSkipped:
			status, reason = StepSkipped, e.Reason
		default:
		}
	}
	a.end(whole, status, reason, "")
}
