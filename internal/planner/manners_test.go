package planner_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/planner"
	"rubato/internal/runs"
)

// TestSlowdownIsBoundedWithoutAMaximum asks for ever longer intervals of an endpoint without a
// maximum. The rails bound the slowdown.
func TestSlowdownIsBoundedWithoutAMaximum(t *testing.T) {
	t.Parallel()
	w := newWorld(t, advisorFunc(func(ctx context.Context, d planner.Toolset) error {
		_, err := d.ProposeInterval(ctx, planner.IntervalProposal{Interval: 24 * time.Hour, TTL: 24 * time.Hour, Reason: "hide"})
		return err
	}), saleRails())
	a := w.add(interval("p", 10*time.Second), steady)
	w.run(begin.Add(2 * time.Hour))
	require.Equal(t, 80*time.Second, a.State.IntervalHint.Interval)
	require.Contains(t, a.session[len(a.session)-1].Calls[0].Result, "the longest interval without maxIntervalMs")
}

// TestPausesTakeAQuarterOfAnyFourHours asks for pauses of many lengths again and again. In any four
// hours at most one is spent paused.
func TestPausesTakeAQuarterOfAnyFourHours(t *testing.T) {
	t.Parallel()
	for _, length := range []time.Duration{5 * time.Minute, 20 * time.Minute, time.Hour} {
		w := newWorld(t, advisorFunc(func(ctx context.Context, d planner.Toolset) error {
			_, err := d.PauseUntil(ctx, planner.PauseProposal{For: length, Reason: "hide"})
			return err
		}), saleRails())
		a := w.add(interval("p", time.Minute), steady)
		var pauses [][2]time.Time
		w.after = func(a *actor) {
			until := a.State.PausedUntil
			if until.After(w.now) && (len(pauses) == 0 || !pauses[len(pauses)-1][1].Equal(until)) {
				pauses = append(pauses, [2]time.Time{w.now, until})
			}
		}
		w.run(begin.Add(24 * time.Hour))
		require.NotEmpty(t, pauses)
		for at := begin; at.Before(w.now); at = at.Add(time.Minute) {
			var total time.Duration
			for _, p := range pauses {
				total += max(0, min(p[1].Sub(at), 4*time.Hour)-max(p[0].Sub(at), 0))
			}
			require.LessOrEqual(t, total, time.Hour, "in the four hours from %s", at)
		}
		require.Contains(t, said(a), "acted")
	}
}

// TestSiblingResponseNeverSlowsEndpoint has an advisor that reads a sibling's answer and obeys it:
// it pauses, slows down, or clears a hint that speeds up. All of that is refused, and proposals
// from before the reading are dropped.
func TestSiblingResponseNeverSlowsEndpoint(t *testing.T) {
	t.Parallel()
	faster := planner.IntervalProposal{Interval: 30 * time.Second, TTL: time.Hour, Reason: "r"}
	slower := planner.IntervalProposal{Interval: 4 * time.Minute, TTL: time.Hour, Reason: "obey"}
	pause := planner.PauseProposal{For: time.Hour, Reason: "obey"}
	for name, tc := range map[string]struct {
		does func(ctx context.Context, d planner.Toolset) error
		acts bool
	}{
		"Pause": {func(ctx context.Context, d planner.Toolset) error { _, err := d.PauseUntil(ctx, pause); return err }, false},
		"Slower": {func(ctx context.Context, d planner.Toolset) error {
			_, err := d.ProposeInterval(ctx, slower)
			return err
		}, false},
		"Clear": {func(ctx context.Context, d planner.Toolset) error { _, err := d.ClearHints(ctx, "obey"); return err }, false},
		"Faster": {func(ctx context.Context, d planner.Toolset) error {
			_, err := d.ProposeInterval(ctx, faster)
			return err
		}, true},
		"PauseBefore": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, advisorFunc(func(ctx context.Context, d planner.Toolset) error {
				if tc.does == nil {
					if _, err := d.PauseUntil(ctx, pause); err != nil {
						return err
					}
				}
				if _, err := d.SiblingResponses(ctx); err != nil || tc.does == nil {
					return err
				}
				return tc.does(ctx, d)
			}), planner.DefaultGuardrails())
			spec := interval("victim", time.Minute)
			spec.MinInterval = 10 * time.Second
			a := w.add(spec, steady)
			if name == "Clear" {
				a.State.IntervalHint = &endpoints.Hint{Interval: 20 * time.Second, ExpiresAt: begin.Add(time.Hour), Author: "planner:func", CreatedAt: begin}
			}
			w.run(begin.Add(2 * time.Minute))
			require.Equal(t, tc.acts, a.session[0].Outcome == planner.Acted, "%+v", a.session[0])
			require.Zero(t, a.State.PausedUntil)
			require.True(t, a.memory.Last.Tainted)
			if name == "PauseBefore" {
				require.Contains(t, a.session[0].Warnings[0], "dropped")
			}
		})
	}
}

// The next session does not see the reasoning of a session that has read a sibling's answer,
// because that answer may have dictated it.
func TestReasoningOfTaintedSessionIsHiddenFromTheNext(t *testing.T) {
	t.Parallel()
	m := planner.Inputs{Endpoint: &endpoints.Endpoint{Spec: interval("p", time.Minute).Normalize()}, Now: begin}
	last := &planner.Analysis{At: begin, Reasoning: "pause it next time", Tainted: true}
	c, err := planner.NewSnapshot(m, planner.Claim{Memory: planner.Memory{Last: last}})
	require.NoError(t, err)
	require.Empty(t, c.Last.Reasoning)
	require.NotEmpty(t, last.Reasoning, "the record keeps it")
}

// TestClearedHintIsNotRewrittenForFourHours clears the planner's hint. The planner writes no other
// for four hours.
func TestClearedHintIsNotRewrittenForFourHours(t *testing.T) {
	t.Parallel()
	w := newWorld(t, advisorFunc(func(ctx context.Context, d planner.Toolset) error {
		_, err := d.ProposeInterval(ctx, planner.IntervalProposal{Interval: 30 * time.Second, TTL: time.Hour, Reason: "r"})
		return err
	}), planner.DefaultGuardrails())
	spec := interval("p", time.Minute)
	spec.MinInterval = 10 * time.Second
	a := w.add(spec, func(time.Time) answer { return answer{status: runs.Succeeded, code: 200} })
	w.run(begin.Add(time.Hour))
	require.NotNil(t, a.State.IntervalHint)
	_, removed, err := a.Undo(w.now, endpoints.Actor{Name: "Ann"}, []string{endpoints.HoldInterval})
	require.NoError(t, err)
	require.Contains(t, removed[0].Message, "removed the interval hint of planner:func: every 30s")
	a.holds = a.Held

	w.run(begin.Add(5*time.Hour - time.Second))
	require.Nil(t, a.State.IntervalHint)
	require.Contains(t, a.session[len(a.session)-1].Calls[0].Result, "Ann removed or rejected")
	w.run(begin.Add(5*time.Hour + 11*time.Minute))
	require.NotNil(t, a.State.IntervalHint, "four hours are over")
}

// Undo ends the planner's own pause and leaves the changes of users alone.
func TestUndoRemovesOnlyPlannerChanges(t *testing.T) {
	t.Parallel()
	theirs := &endpoints.Hint{Interval: time.Minute, ExpiresAt: begin.Add(time.Hour), Author: "Ann", CreatedAt: begin}
	e := &endpoints.Endpoint{Spec: interval("p", time.Minute).Normalize()}
	e.State.IntervalHint, e.State.PausedUntil, e.State.PauseReason = theirs, begin.Add(time.Hour), "planner:heuristic: calm"
	_, removed, err := e.Undo(begin, endpoints.Actor{Name: "Ann"}, []string{endpoints.HoldInterval, endpoints.HoldPause})
	require.NoError(t, err)
	require.Same(t, theirs, e.State.IntervalHint)
	require.Zero(t, e.State.PausedUntil)
	require.Len(t, removed, 1)
	require.Equal(t, "pause_removed", removed[0].Code)
	require.Contains(t, removed[0].Message, "ended the pause until "+begin.Add(time.Hour).UTC().Format(time.RFC3339)+" of planner:heuristic: calm; the planner writes no other before")
	require.Len(t, e.Held, 2)
}
