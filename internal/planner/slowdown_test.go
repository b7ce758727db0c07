package planner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/planner"
	"rubato/internal/planner/heuristic"
	"rubato/internal/runs"
)

// TestLocalSlowdownIsNotBlamedOnTargets: when the scheduler's own machine slows down, the planner
// does not slow down endpoints. All answers take ten times as long, of twelve endpoints on four
// hosts. They have no bodies, so only latency could move the tempo.
func TestLocalSlowdownIsNotBlamedOnTargets(t *testing.T) {
	t.Parallel()
	strained := func(slow func(at time.Time, host byte) bool) (slower int) {
		w := newWorld(t, heuristic.New(), saleRails())
		w.hosts = func(a *actor) string { return a.Spec.Name[:1] }
		for i := range 12 {
			host := byte('a' + i%4)
			w.add(clamped(string(host)+"-endpoint"), func(at time.Time) answer {
				got := answer{status: runs.Succeeded, code: 200, latency: 40 * time.Millisecond}
				if slow(at, host) {
					got.latency *= 10
				}
				return got
			})
		}
		w.run(begin.Add(2 * time.Hour))
		sessions := 0
		for _, a := range w.actors {
			slower += strings.Count(said(a), "slower than usual")
			sessions += len(a.session)
		}
		require.Greater(t, sessions, 1000)
		return slower
	}
	spell := func(at time.Time) bool { return at.Sub(begin)%(20*time.Minute) > 10*time.Minute }
	require.Zero(t, strained(func(at time.Time, _ byte) bool { return spell(at) }), "all of them at once: it is us")
	require.Positive(t, strained(func(at time.Time, host byte) bool { return host == 'a' && spell(at) }), "one host: it is that")
}

func TestSlowMeansTwiceTheLatencyAndATenthOfASecondMore(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		usual, fresh time.Duration
		strain       bool
	}{
		{time.Millisecond, 12 * time.Millisecond, false},
		{20 * time.Millisecond, 119 * time.Millisecond, false},
		{20 * time.Millisecond, 120 * time.Millisecond, true},
		{300 * time.Millisecond, 500 * time.Millisecond, false},
		{300 * time.Millisecond, 600 * time.Millisecond, true},
	} {
		var list []runs.Run
		for i := range 15 {
			latency := tc.usual
			if i < 5 {
				latency = tc.fresh
			}
			list = append(list, runs.Run{Outcome: runs.Outcome{StatusCode: 200, Phases: runs.Phases{Wait: latency}}})
		}
		require.Equal(t, tc.strain, planner.SlowdownOf(list).Present(), "%s after %s", tc.fresh, tc.usual)
	}
}
