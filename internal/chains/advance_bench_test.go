package chains_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/chains"
)

// BenchmarkAdvanceOfAWideRun advances a run of five steps with a thousand elements each, in which a
// tenth of the elements has ended.
func BenchmarkAdvanceOfAWideRun(b *testing.B) {
	d := chains.Definition{Name: "wide", Inputs: map[string]chains.Input{"list": {}}}
	for i := range 5 {
		d.Steps = append(d.Steps, chains.StepSpec{
			Name: fmt.Sprintf("s%d", i), EndpointID: endpoint, ForEach: "input.list",
			Request: &chains.Request{Body: new("{{item}}")}, Outputs: map[string]string{"id": "$.id"},
		})
	}
	w := newWorld(b, d)
	list := make([]any, 1000)
	for i := range list {
		list[i] = fmt.Sprint(i)
	}
	w.run.Input["list"] = list
	moves := chains.Advance(w.run, time.Time{})
	for _, m := range moves.List {
		if m.Kind == chains.Expand {
			w.step(m.Key).Status = chains.StepActive
			for i, item := range m.Items {
				s := chains.Step{Key: chains.Key{Name: m.Key.Name, Index: i}, Status: chains.StepWaiting, Item: item}
				if i < 100 {
					s.Status, s.Order, s.Output = chains.StepSucceeded, int64(i+1), map[string]any{"id": "x"}
				}
				w.run.Steps = append(w.run.Steps, s)
			}
		}
	}
	for b.Loop() {
		require.Len(b, chains.Advance(w.run, time.Time{}).List, 5*chains.DefaultParallel)
	}
}
