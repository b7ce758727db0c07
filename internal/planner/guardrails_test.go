package planner_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/endpoints"
	"rubato/internal/planner"
	"rubato/internal/runs"
)

// hostileAdvisor is an advisor that proposes arbitrary changes, as a model may after a prompt
// injection.
type hostileAdvisor struct {
	draw func(label string, of ...int64) int64
}

func (hostileAdvisor) Name() string { return "hostile" }

// odd returns an arbitrary duration: in range, at a bound, or absurd.
func (h hostileAdvisor) odd(label string) time.Duration {
	return time.Duration(h.draw(
		label, int64(time.Second), int64(time.Millisecond), 0, -1, int64(time.Minute), int64(2*time.Minute), int64(7*time.Minute), int64(time.Hour),
		int64(24*time.Hour), int64(25*time.Hour), int64(366*24*time.Hour), math.MaxInt64, math.MinInt64, int64(13*time.Second), int64(90*time.Second),
	))
}

func (h hostileAdvisor) Advise(ctx context.Context, _ planner.Snapshot, d planner.Toolset) (planner.Verdict, error) {
	for range h.draw("calls", 0, 1, 2, 3, 20) {
		switch h.draw("call", 0, 1, 2, 3, 4) {
		case 0:
			_, _ = d.ProposeInterval(ctx, planner.IntervalProposal{Interval: h.odd("interval"), TTL: h.odd("ttl"), Reason: "r"})
		case 1:
			_, _ = d.ProposeNextRun(ctx, planner.NextRunProposal{In: h.odd("in"), TTL: h.odd("ttl"), Reason: "r"})
		case 2:
			_, _ = d.PauseUntil(ctx, planner.PauseProposal{For: h.odd("pause"), Reason: "r"})
		case 3:
			_, _ = d.ClearHints(ctx, "r")
		default:
			d.RecordRefusal(planner.Call{Tool: "drop_tables", Arguments: []byte("\x00{"), Result: "no"})
		}
	}
	confidence := []float64{0.5, -1, math.NaN(), math.Inf(1)}[h.draw("confidence", 0, 1, 2, 3)]
	return planner.Verdict{Reasoning: "\x00\u202e", Confidence: confidence, NextAnalysisIn: h.odd("next")}, nil
}

// drawn returns a source of numbers seeded by a draw of a property test. The test cannot draw each
// number itself, because rapid ends a check by a panic, and the planner recovers from panics of an
// advisor.
func drawn(t *rapid.T) func(string, ...int64) int64 {
	source := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	return func(_ string, of ...int64) int64 { return of[source.IntN(len(of))] }
}

// anySpec returns an endpoint with or without clamps.
func anySpec(draw func(string, ...int64) int64) endpoints.Spec {
	spec := interval("p", time.Duration(draw("baseline", int64(time.Second), int64(30*time.Second), int64(5*time.Minute), int64(6*time.Hour))))
	switch draw("cron", 0, 0, 1, 2) {
	case 1:
		spec.BaselineInterval, spec.BaselineCron = 0, "*/10 * * * *"
	case 2:
		spec.BaselineInterval, spec.BaselineCron = 0, "0 */6 * * *"
	}
	spec.MinInterval = time.Duration(draw("min", 0, 0, int64(20*time.Second), int64(2*time.Minute)))
	spec.MaxInterval = time.Duration(draw("max", 0, 0, int64(2*time.Minute), int64(10*time.Minute)))
	return spec
}

// TestNoAdvisorExceedsTheRails plays hours of proposals, sane and hostile, through the real
// governor. No step exceeds a bound, and the requests in total stay within the documented
// amplification.
//
// A check makes some hundred proposals. For a million of them: go test ./internal/planner -run
// Rails -rapid.checks=10000.
func TestNoAdvisorExceedsTheRails(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		draw := drawn(rt)
		rails := planner.DefaultGuardrails()
		rails.AnalysesPerHour, rails.Dwell = int(draw("per hour", 12, 120)), time.Duration(draw("dwell", int64(time.Second), int64(time.Minute)))
		w := newWorld(t, hostileAdvisor{draw}, rails)
		a := w.add(anySpec(draw), func(time.Time) answer {
			return []answer{{status: runs.Succeeded, code: 200}, {status: runs.Failed, code: 500}}[draw("outcome", 0, 0, 0, 1)]
		})
		usual, err := a.Usual(w.now)
		require.NoError(rt, err)
		before := a.Spec
		w.after = func(a *actor) { requireBounds(rt, w, a, before) }

		w.run(begin.Add(2 * time.Hour))

		most := rails.RequestsPerHour(before.MinInterval, usual)
		for i, from := range a.slots {
			n := 0
			for _, at := range a.slots[i:] {
				if at.Before(from.Add(time.Hour)) {
					n++
				}
			}
			require.LessOrEqual(rt, n, most, "runs within the hour from %s", from)
		}
		for _, s := range a.session {
			require.LessOrEqual(rt, len(s.Calls), planner.MaxCalls)
			require.GreaterOrEqual(rt, s.Verdict.Confidence, 0.0)
			require.LessOrEqual(rt, s.NextAt.Sub(s.StartedAt), 24*time.Hour)
		}
		require.LessOrEqual(rt, len(a.session), 2*rails.AnalysesPerHour+1, "analyses in two hours, and the one at their edge")
	})
}

// requireBounds checks the bounds that hold for an endpoint at any moment.
func requireBounds(t *rapid.T, w *world, a *actor, before endpoints.Spec) {
	s := a.State
	require.Equal(t, before, a.Spec, "the configuration is out of reach")
	for _, h := range []*endpoints.Hint{s.IntervalHint, s.OneShotHint} {
		if h != nil {
			require.False(t, h.ExpiresAt.After(h.CreatedAt.Add(endpoints.MaxHintLife)))
			require.Equal(t, "planner:hostile", h.Author)
		}
	}
	if h := s.IntervalHint; h != nil && before.MinInterval > 0 {
		require.GreaterOrEqual(t, h.Interval, before.MinInterval)
	}
	require.False(t, s.PausedUntil.After(w.now.Add(endpoints.MaxPlannerPause)))
	if s.Anchor.IsZero() {
		return
	}
	gap := s.Due.At.Sub(s.Anchor)
	require.GreaterOrEqual(t, gap, before.MinInterval, "the clamps hold")
	if before.MaxInterval > 0 && s.Due.At.After(w.now) {
		require.LessOrEqual(t, gap, before.MaxInterval, "in a pause, too")
	}
}

// The planner never changes a pause or a hint that a user set.
func TestPlannerKeepsPausesAndHintsOfUsers(t *testing.T) {
	t.Parallel()
	eager := advisorFunc(func(ctx context.Context, d planner.Toolset) error {
		_, err := d.ProposeInterval(ctx, planner.IntervalProposal{Interval: 30 * time.Second, TTL: time.Hour, Reason: "r"})
		return err
	})
	w := newWorld(t, eager, planner.DefaultGuardrails())
	spec := interval("hinted", time.Minute)
	spec.MinInterval = 30 * time.Second
	paused, hinted := w.add(interval("paused", time.Minute), steady), w.add(spec, steady)
	paused.State.PausedUntil = begin.Add(3 * time.Hour)
	_, err := paused.Replan(begin)
	require.NoError(t, err)
	theirs := &endpoints.Hint{Interval: 2 * time.Minute, ExpiresAt: begin.Add(time.Hour), Author: "a person", CreatedAt: begin}
	hinted.State.IntervalHint = theirs

	w.run(begin.Add(59 * time.Minute))

	require.Equal(t, begin.Add(3*time.Hour), paused.State.PausedUntil)
	require.Empty(t, paused.session)
	require.Same(t, theirs, hinted.State.IntervalHint)
	require.Contains(t, hinted.session[0].Calls[0].Result, "not the planner's")
	w.run(begin.Add(90 * time.Minute))
	require.Equal(t, "planner:func", hinted.State.IntervalHint.Author, "it has ended")
}

// advisorFunc is an advisor that calls one function.
type advisorFunc func(context.Context, planner.Toolset) error

func (advisorFunc) Name() string { return "func" }

func (f advisorFunc) Advise(ctx context.Context, _ planner.Snapshot, d planner.Toolset) (planner.Verdict, error) {
	_ = f(ctx, d)
	return planner.Verdict{Reasoning: "r"}, nil
}

// TestPausesEndInTimeForTheLongestInterval asks for a pause of an hour again and again. Each pause
// ends so early that the endpoint still runs within its longest interval.
func TestPausesEndInTimeForTheLongestInterval(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit func(*endpoints.Spec)
		gap  time.Duration // the longest between two runs
	}{
		"Unbounded": {func(*endpoints.Spec) {}, time.Hour + time.Minute},
		"Bounded":   {func(s *endpoints.Spec) { s.MaxInterval = 10 * time.Minute }, 10 * time.Minute},
		"Jitter":    {func(s *endpoints.Spec) { s.MaxInterval, s.Jitter = 10*time.Minute, 2*time.Minute }, 10 * time.Minute},
		"NoRoom":    {func(s *endpoints.Spec) { s.MaxInterval = time.Minute }, time.Minute},
		"Cron": {func(s *endpoints.Spec) {
			s.BaselineInterval, s.BaselineCron, s.MaxInterval = 0, "*/7 * * * *", 10*time.Minute
		}, 7 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rails := planner.DefaultGuardrails()
			silence := advisorFunc(func(ctx context.Context, d planner.Toolset) error {
				_, err := d.PauseUntil(ctx, planner.PauseProposal{For: time.Hour, Reason: "hide"})
				return err
			})
			w := newWorld(t, silence, rails)
			spec := interval("p", time.Minute)
			tc.edit(&spec)
			a := w.add(spec, steady)
			w.run(begin.Add(6 * time.Hour))
			var longest time.Duration
			for i, at := range a.slots[1:] {
				longest = max(longest, at.Sub(a.slots[i]))
			}
			require.LessOrEqual(t, longest, tc.gap)
			require.Greater(t, longest, tc.gap*2/3, "what there is room for is granted")
		})
	}
}

func TestStepsAreBoundedAndSmallOnesOnlyRenew(t *testing.T) {
	t.Parallel()
	var wanted time.Duration
	asking := advisorFunc(func(ctx context.Context, d planner.Toolset) error {
		_, err := d.ProposeInterval(ctx, planner.IntervalProposal{Interval: wanted, TTL: time.Hour, Reason: "r"})
		return err
	})
	rails := planner.DefaultGuardrails()
	w := newWorld(t, asking, rails)
	spec := interval("p", 10*time.Minute)
	spec.MinInterval = 30 * time.Second
	a := w.add(spec, steady)
	at := begin
	ask := func(every, wait time.Duration) planner.Call {
		wanted, at = every, at.Add(wait)
		w.run(at.Add(-time.Nanosecond))
		a.next = at
		w.run(at)
		a.next = at.Add(24 * time.Hour)
		return a.session[len(a.session)-1].Calls[0]
	}
	a.next = begin.Add(24 * time.Hour)
	require.Contains(t, ask(11*time.Minute, time.Second).Result, "runs every 10m0s already", "no hint for what is so near")
	require.Contains(t, ask(time.Second, time.Minute).Result, "longest step")
	require.Equal(t, 150*time.Second, a.State.IntervalHint.Interval)
	require.Contains(t, ask(time.Minute, 30*time.Second).Result, "the next change may come after 1m0s")
	require.Contains(t, ask(10*time.Minute, time.Minute).Result, "after 2m0s", "turning back takes twice as long")
	ends := a.State.IntervalHint.ExpiresAt
	ask(160*time.Second, 5*time.Minute)
	require.Equal(t, 150*time.Second, a.State.IntervalHint.Interval, "renewed as it was")
	require.True(t, a.State.IntervalHint.ExpiresAt.After(ends))
	require.Contains(t, ask(time.Second, 5*time.Minute).Result, "longest step")
	require.Contains(t, ask(time.Second, 5*time.Minute).Result, "shortest interval")
	require.Equal(t, 30*time.Second, a.State.IntervalHint.Interval, "the shortest that the user allows")
	require.Equal(t, 6+1+12, rails.RequestsPerHour(0, 10*time.Minute))
}
