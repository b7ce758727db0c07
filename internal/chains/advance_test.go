package chains_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/chains"
	"rubato/internal/errs"
)

const endpoint = "ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"

// world carries out the moves of a run, as the store and the workers do.
type world struct {
	run    chains.Run
	order  int64
	starts map[chains.Key]int
	// undone are the steps in the order of their compensations.
	undone []chains.Key
	output map[string]any
}

func newWorld(t require.TestingT, d chains.Definition) *world {
	plan, err := chains.Parse(d)
	require.NoError(t, err)
	w := &world{run: chains.Run{Plan: plan, Status: chains.Running, Input: map[string]any{}}, starts: map[chains.Key]int{}}
	for _, s := range d.Steps {
		w.run.Steps = append(w.run.Steps, chains.Step{Key: chains.Key{Name: s.Name, Index: chains.Whole}, Status: chains.StepWaiting})
	}
	return w
}

func (w *world) step(k chains.Key) *chains.Step {
	return &w.run.Steps[slices.IndexFunc(w.run.Steps, func(s chains.Step) bool { return s.Key == k })]
}

// advance carries out the moves at an instant, and returns them.
func (w *world) advance(t require.TestingT, now time.Time) []chains.Move {
	moves := chains.Advance(w.run, now)
	for _, m := range moves.List {
		s := w.step(m.Key)
		switch m.Kind {
		case chains.Start:
			require.Equal(t, chains.StepWaiting, s.Status)
			s.Status = chains.StepActive
			w.starts[m.Key]++
		case chains.Expand:
			s.Status = chains.StepActive
			for i, item := range m.Items {
				w.run.Steps = append(w.run.Steps, chains.Step{Key: chains.Key{Name: m.Key.Name, Index: i}, Status: chains.StepWaiting, Item: item})
			}
		case chains.End:
			require.False(t, s.Status.Over())
			w.order++
			s.Status, s.Reason, s.Order = m.Status, m.Reason, w.order
		case chains.Undo:
			require.Equal(t, chains.UndoRecorded, s.Undo)
			s.Undo = chains.UndoActive
			w.undone = append(w.undone, m.Key)
		case chains.EndUndo:
			s.Undo = chains.UndoFailed
		case chains.Cancel:
			require.Equal(t, chains.StepActive, s.Status)
		}
	}
	w.run.Status, w.run.Reason, w.output = moves.Status, moves.Reason, moves.Output
	again := chains.Advance(w.run, now)
	again.List = slices.DeleteFunc(again.List, func(m chains.Move) bool { return m.Kind == chains.Cancel })
	require.Empty(t, again.List, "a run that was advanced waits")
	return moves.List
}

// finish ends the run of an active step.
func (w *world) finish(k chains.Key, status chains.StepStatus, output map[string]any) {
	s := w.step(k)
	w.order++
	s.Status, s.Order, s.Output = status, w.order, output
	if status == chains.StepSucceeded && w.run.Plan.Compensated(k.Name) {
		s.Undo = chains.UndoRecorded
	}
}

// active returns the steps with a one-off run.
func (w *world) active() (list []chains.Key) {
	for _, s := range w.run.Steps {
		if s.Status == chains.StepActive && w.starts[s.Key] > 0 {
			list = append(list, s.Key)
		}
	}
	return list
}

// drawn returns a chain with random dependencies.
func drawn(rt *rapid.T) chains.Definition {
	d := chains.Definition{
		Name:      "random",
		OnFailure: rapid.SampledFrom([]chains.OnFailure{chains.Stop, chains.Continue, chains.Compensate}).Draw(rt, "onFailure"),
		Inputs:    map[string]chains.Input{"list": {}},
	}
	for i := range rapid.IntRange(1, 8).Draw(rt, "steps") {
		s := chains.StepSpec{Name: fmt.Sprintf("s%d", i), EndpointID: endpoint}
		for j := range i {
			if rapid.IntRange(0, 2).Draw(rt, "depends") == 0 {
				s.After = append(s.After, fmt.Sprintf("s%d", j))
			}
		}
		if rapid.IntRange(0, 3).Draw(rt, "compensated") > 0 {
			s.Compensation = &chains.Compensation{EndpointID: endpoint}
		}
		if rapid.IntRange(0, 3).Draw(rt, "forEach") == 0 {
			s.ForEach, s.Parallel = "input.list", 2
		}
		d.Steps = append(d.Steps, s)
	}
	// The order in the text does not matter.
	d.Steps = rapid.Permutation(d.Steps).Draw(rt, "order")
	return d
}

// TestRandomChainsAgreeWithTheirRules runs random chains with random outcomes. Each step starts at
// most once and after those that it depends on, dependents of a failure are skipped, and the
// compensations are exactly those of the steps that succeeded, the last one first.
func TestRandomChainsAgreeWithTheirRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d := drawn(rt)
		w := newWorld(rt, d)
		w.run.Input["list"] = []any{"a", "b", "c"}
		now := time.Unix(1000, 0)
		canceled := rapid.IntRange(0, 9).Draw(rt, "cancel") == 0
		var succeeded []chains.Key
		failed := false
		for moves := w.advance(rt, now); len(w.active()) > 0; moves = w.advance(rt, now) {
			if failed && d.OnFailure != chains.Continue {
				require.False(rt, slices.ContainsFunc(moves, func(m chains.Move) bool { return m.Kind == chains.Start }), "no step starts after a failure")
			}
			for _, k := range w.active() {
				s := d.Steps[slices.IndexFunc(d.Steps, func(s chains.StepSpec) bool { return s.Name == k.Name })]
				for _, name := range s.After {
					require.Equal(rt, chains.StepSucceeded, w.step(chains.Key{Name: name, Index: chains.Whole}).Status)
				}
			}
			k := rapid.SampledFrom(w.active()).Draw(rt, "ends")
			status := rapid.SampledFrom([]chains.StepStatus{chains.StepSucceeded, chains.StepSucceeded, chains.StepSucceeded, chains.StepFailed}).Draw(rt, "outcome")
			w.finish(k, status, nil)
			failed = failed || status == chains.StepFailed
			if status == chains.StepSucceeded && w.step(k).Undo == chains.UndoRecorded {
				succeeded = append(succeeded, k)
			}
			w.run.CancelRequested = canceled
		}
		for w.run.Status == chains.Compensating {
			at := len(w.undone) - 1
			w.step(w.undone[at]).Undo = rapid.SampledFrom([]chains.UndoStatus{chains.UndoDone, chains.UndoFailed}).Draw(rt, "undo")
			w.advance(rt, now)
		}
		w.check(rt, d, succeeded)
	})
}

// allElements reports whether a step with forEach was expanded and each of its elements succeeded.
func (w *world) allElements(name string) bool {
	expanded := false
	for _, s := range w.run.Steps {
		if s.Name != name || s.Index == chains.Whole {
			continue
		}
		if expanded = true; s.Status != chains.StepSucceeded {
			return false
		}
	}
	return expanded
}

// check compares a run that is over with the rules.
func (w *world) check(rt *rapid.T, d chains.Definition, succeeded []chains.Key) {
	require.True(rt, w.run.Status.Over())
	complete := true
	for _, s := range w.run.Steps {
		require.True(rt, s.Status.Over(), s.Name)
		require.LessOrEqual(rt, w.starts[s.Key], 1)
		complete = complete && s.Status == chains.StepSucceeded
	}
	for _, s := range d.Steps {
		if s.ForEach != "" {
			require.Equal(rt, w.allElements(s.Name), w.step(whole(s.Name)).Status == chains.StepSucceeded, s.Name)
		}
		for _, name := range s.After {
			if w.step(chains.Key{Name: name, Index: chains.Whole}).Status != chains.StepSucceeded {
				require.Equal(rt, chains.StepSkipped, w.step(chains.Key{Name: s.Name, Index: chains.Whole}).Status)
			}
		}
	}
	require.Equal(rt, complete, w.run.Status == chains.Succeeded)
	if d.OnFailure != chains.Compensate || complete {
		require.Empty(rt, w.undone)
		return
	}
	slices.Reverse(succeeded)
	require.Equal(rt, succeeded, w.undone)
	failed := slices.ContainsFunc(w.run.Steps, func(s chains.Step) bool { return s.Undo == chains.UndoFailed })
	require.Equal(rt, failed, w.run.Status == chains.CompensationFailed)
	require.Equal(rt, !failed, w.run.Status == chains.Compensated)
}

func whole(name string) chains.Key { return chains.Key{Name: name, Index: chains.Whole} }

func TestValuesFlowFromStepToStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chains.Definition{
		Name:      "order",
		OnFailure: chains.Compensate,
		Inputs:    map[string]chains.Input{"sku": {Required: true}},
		Steps: []chains.StepSpec{
			{
				Name: "reserve", EndpointID: endpoint, Outputs: map[string]string{"id": "$.id", "parts": "$.parts"},
				Request:      &chains.Request{Body: new(`{"sku": {{input.sku}}}`)},
				Compensation: &chains.Compensation{EndpointID: endpoint, Request: &chains.Request{Body: new(`{"release": {{output.id}}}`)}},
			},
			{
				Name: "ship", EndpointID: endpoint, After: []string{"reserve"}, ForEach: "steps.reserve.output.parts",
				Request: &chains.Request{Query: map[string]string{"part": "{{item}}", "of": "{{steps.reserve.output.id}}"}},
				Outputs: map[string]string{"at": "$.at"},
			},
			{Name: "cheap", EndpointID: endpoint, After: []string{"reserve"}, When: `steps.reserve.output.id == "x"`},
			{Name: "last", EndpointID: endpoint, After: []string{"cheap", "ship"}, Request: &chains.Request{Body: new(`{"at": {{steps.ship.output.at}}}`)}},
		},
	})
	w.run.Input["sku"] = "a{{b"
	moves := w.advance(t, time.Time{})
	require.Len(t, moves, 1)
	require.Equal(t, `{"sku": "a{\u007bb"}`, *moves[0].Override.Body)
	require.Equal(t, w.run.ID.String()+".reserve", moves[0].Override.SentKey)
	w.finish(whole("reserve"), chains.StepSucceeded, map[string]any{"id": "r1", "parts": []any{"p", "q"}})
	moves = w.advance(t, time.Time{})
	require.Equal(t, map[string]string{"part": "q", "of": "r1"}, moves[len(moves)-1].Override.Query)
	require.Equal(t, chains.ReasonConditionFalse, w.step(whole("cheap")).Reason)
	for i := range 2 {
		w.finish(chains.Key{Name: "ship", Index: i}, chains.StepSucceeded, map[string]any{"at": fmt.Sprint(i)})
	}
	moves = w.advance(t, time.Time{})
	require.Equal(t, `{"at": ["0","1"]}`, *moves[len(moves)-1].Override.Body)
	w.finish(whole("last"), chains.StepFailed, nil)
	moves = w.advance(t, time.Time{})
	require.Equal(t, chains.Undo, moves[0].Kind)
	require.Equal(t, `{"release": "r1"}`, *moves[0].Override.Body)
}

func TestADeadlineCancelsWhatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chains.Definition{Name: "slow", TimeoutMs: 1000, Steps: []chains.StepSpec{
		{Name: "a", EndpointID: endpoint}, {Name: "b", EndpointID: endpoint, After: []string{"a"}},
	}})
	w.run.Deadline = time.Unix(1, 0)
	w.advance(t, time.Unix(0, 0))
	moves := w.advance(t, time.Unix(1, 0))
	require.Contains(t, moves, chains.Move{Kind: chains.Cancel, Key: whole("a")})
	require.Equal(t, chains.ReasonTimedOut, w.step(whole("b")).Reason)
	w.finish(whole("a"), chains.StepCanceled, nil)
	w.advance(t, time.Unix(2, 0))
	require.Equal(t, chains.TimedOut, w.run.Status)
}

func TestEveryBadFieldOfAChainIsNamed(t *testing.T) {
	t.Parallel()
	step := func(name string, after ...string) chains.StepSpec {
		return chains.StepSpec{Name: name, EndpointID: endpoint, After: after}
	}
	bad := func(d chains.Definition) map[string]string {
		_, err := chains.Parse(d)
		found := map[string]string{}
		for _, f := range errs.FieldsOf(err) {
			found[f.Field] = f.Message
		}
		return found
	}
	require.Equal(t, []string{"name", "onFailure", "steps", "timeoutMs"}, slices.Sorted(maps.Keys(bad(chains.Definition{OnFailure: "x", TimeoutMs: -1}))))
	require.Equal(t, "must not depend on each other in a circle: b after c after b",
		bad(chains.Definition{Name: "n", Steps: []chains.StepSpec{step("a"), step("b", "a", "c"), step("c", "b"), step("d", "c")}})["steps"])
	require.Equal(t, []string{"steps.0.after.0", "steps.0.name", "steps.1.name"},
		slices.Sorted(maps.Keys(bad(chains.Definition{Name: "n", Steps: []chains.StepSpec{step("0", "x"), step("0")}}))))
	one := chains.StepSpec{
		Name: "a", EndpointID: "x", When: "1 + 1", ForEach: "input.none", Parallel: 101,
		Outputs: map[string]string{"id": "id"}, Request: &chains.Request{Body: new("{{steps.b.output.id}}")},
		Compensation: &chains.Compensation{EndpointID: endpoint, Request: &chains.Request{Headers: map[string]string{"X": "{{output.other}}"}}},
	}
	call := chains.StepSpec{
		Name: "a", EndpointID: endpoint,
		Request:      &chains.Request{URL: "https://{{input.host}}/", Method: "BREW", TimeoutMs: -1, MaxAttempts: 11},
		Compensation: &chains.Compensation{EndpointID: endpoint, Request: &chains.Request{Method: "DELETE"}},
	}
	require.Equal(t, []string{
		"steps.0.compensation.request.url", "steps.0.endpointId", "steps.0.request.maxAttempts", "steps.0.request.method",
		"steps.0.request.timeoutMs", "steps.0.request.url",
	}, slices.Sorted(maps.Keys(bad(chains.Definition{Name: "n", Steps: []chains.StepSpec{call}}))))
	require.Equal(t, []string{"steps.0.endpointId"}, slices.Sorted(maps.Keys(bad(chains.Definition{Name: "n", Steps: []chains.StepSpec{{Name: "a"}}}))))
	require.Equal(t, []string{
		"outputs.o", "steps.0.compensation.request.headers.X", "steps.0.endpointId", "steps.0.forEach",
		"steps.0.outputs.id", "steps.0.parallel", "steps.0.request.body", "steps.0.when",
	}, slices.Sorted(maps.Keys(bad(chains.Definition{Name: "n", Steps: []chains.StepSpec{one}, Outputs: map[string]string{"o": "steps.a.output.x"}}))))
}
