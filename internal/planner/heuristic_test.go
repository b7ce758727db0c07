package planner_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/planner"
	"rubato/internal/planner/heuristic"
	"rubato/internal/runs"
)

// TestHintOfTheRulesLastsUntilTheNextAnalyses: a hint of the rules covers the time until the next
// analyses. A group is in trouble for hours under default rails, with an analysis every ten
// minutes, and its watcher stays fast without a gap.
func TestHintOfTheRulesLastsUntilTheNextAnalyses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, heuristic.New(), planner.DefaultGuardrails())
	spec := interval("health", 2*time.Minute)
	spec.MinInterval = 30 * time.Second
	spec.Labels = map[string]string{planner.GroupLabel: "shop", planner.RoleLabel: planner.RoleHealth}
	health := w.add(spec, steady)
	spec = interval("orders", time.Minute)
	spec.Labels = map[string]string{planner.GroupLabel: "shop"}
	w.add(spec, func(time.Time) answer { return answer{status: runs.Failed, code: 500} })

	w.run(begin.Add(3 * time.Hour))

	require.Greater(t, health.between(begin.Add(time.Hour), begin.Add(2*time.Hour)), 110, "four times as often as every two minutes:\n%s", said(health))
}

// TestHeuristicFollowsShortIntervals: the rules speed up a failing endpoint although a fourth of
// its interval is shorter than the shortest hint.
func TestHeuristicFollowsShortIntervals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, heuristic.New(), planner.DefaultGuardrails())
	broken := begin.Add(time.Hour)
	spec := interval("quick", 3*time.Second)
	spec.MinInterval = time.Second
	e := w.add(spec, func(at time.Time) answer {
		if at.Before(broken) {
			return steady(at)
		}
		return answer{status: runs.Failed, code: 500}
	})

	w.run(broken.Add(3 * time.Minute))

	require.Contains(t, said(e), "acted it fails (1 in a row): watched at a tenth")
}
