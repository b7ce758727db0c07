package planner_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/planner"
	"rubato/internal/planner/heuristic"
	"rubato/internal/runs"
)

// clamped returns an endpoint for measuring the tempo: baseline 10 s, clamps 1 s and 60 s.
func clamped(name string) endpoints.Spec {
	spec := interval(name, 10*time.Second)
	spec.MinInterval, spec.MaxInterval = time.Second, time.Minute
	return spec
}

// changing is a target with content that changes as a Poisson process. With validators it answers
// 304 if nothing changed since the last answer, as a target does for conditional requests.
func changing(mean time.Duration, validators bool, seed uint64) func(time.Time) answer {
	luck := rand.New(rand.NewPCG(seed, 1))
	next, version, told := begin, uint64(0), uint64(0)
	return func(at time.Time) answer {
		for !next.After(at) {
			version++
			next = next.Add(time.Duration(luck.ExpFloat64() * float64(mean)))
		}
		if validators && told == version {
			return answer{status: runs.Succeeded, code: 304, latency: 10 * time.Millisecond}
		}
		told = version
		return answer{status: runs.Succeeded, code: 200, latency: 10 * time.Millisecond, digest: version}
	}
}

// A target that answers 304 is polled as often as one with the same content and without validators.
func TestNotModifiedIsNoChange(t *testing.T) {
	t.Parallel()
	for _, mean := range []time.Duration{30 * time.Second, 5 * time.Minute} {
		polls := map[bool]int{}
		for _, validators := range []bool{false, true} {
			w := newWorld(t, heuristic.New(), planner.DefaultGuardrails())
			e := w.add(clamped("etag"), changing(mean, validators, 7))
			w.run(begin.Add(24 * time.Hour))
			polls[validators] = len(e.slots)
		}
		require.InEpsilon(t, polls[false], polls[true], 0.05, "a change per %s", mean)
	}
}

// A 304 counts as unchanged even after the answer with the body has left the recent runs.
func TestNotModifiedAloneIsUnchanged(t *testing.T) {
	t.Parallel()
	var seen planner.Snapshot
	w := newWorld(t, looking(func(c planner.Snapshot) { seen = c }), planner.DefaultGuardrails())
	w.add(clamped("etag"), func(time.Time) answer { return answer{status: runs.Succeeded, code: 304} })
	w.run(begin.Add(11 * time.Minute))
	require.NotZero(t, seen.Health()[0].Compared)
	require.Zero(t, seen.Health()[0].Changed)
}

// looking is an advisor that reads the case and changes nothing.
type looking func(planner.Snapshot)

func (looking) Name() string { return "looking" }

func (f looking) Advise(_ context.Context, c planner.Snapshot, _ planner.Toolset) (planner.Verdict, error) {
	f(c)
	return planner.Verdict{Reasoning: "r"}, nil
}

// limited is a target that accepts one request per period and answers 429 to others.
func limited(every time.Duration) func(time.Time) answer {
	var last time.Time
	return func(at time.Time) answer {
		if !last.IsZero() && at.Sub(last) < every {
			return answer{status: runs.Failed, code: 429, latency: time.Millisecond}
		}
		last = at
		return answer{status: runs.Succeeded, code: 200, latency: time.Millisecond, digest: uint64(at.UnixNano())}
	}
}

// TestRefusalsMakeTheIntervalGrow: 429 answers lengthen the interval to just above the target's
// limit, so that far fewer requests are refused than with the baseline alone. The answers change
// every time.
func TestRefusalsMakeTheIntervalGrow(t *testing.T) {
	t.Parallel()
	refusals := map[endpoints.Authority]int{}
	for _, may := range []endpoints.Authority{endpoints.PlannerOff, endpoints.PlannerAct} {
		w := newWorld(t, heuristic.New(), planner.DefaultGuardrails())
		spec := clamped("limited")
		spec.Planner = may
		e := w.add(spec, limited(14*time.Second))
		w.run(begin.Add(6 * time.Hour))
		for _, run := range e.runs {
			if run.Outcome.StatusCode == http.StatusTooManyRequests {
				refusals[may]++
			}
		}
		if may == endpoints.PlannerAct {
			require.Contains(t, said(e), "it answered 429 a while ago")
		}
	}
	t.Logf("refusals in six hours: %v", refusals)
	require.Less(t, refusals[endpoints.PlannerAct], refusals[endpoints.PlannerOff]/10)
}

// No 429, 503 or Retry-After makes an endpoint run sooner than without the planner.
func TestRefusalsNeverSpeedUp(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]answer{
		"429": {status: runs.Failed, code: 429}, "503": {status: runs.Failed, code: 503},
		"RetryAfter": {status: runs.Failed, code: 503, wait: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count := func(may endpoints.Authority) int {
				w := newWorld(t, heuristic.New(), saleRails())
				spec := clamped("refusing")
				spec.Planner = may
				e := w.add(spec, func(at time.Time) answer {
					if at.Sub(begin)%(10*time.Minute) < 5*time.Minute {
						return refusal
					}
					return steady(at)
				})
				w.run(begin.Add(2 * time.Hour))
				n := 0
				for _, run := range e.runs {
					if run.Outcome.Status == runs.Failed {
						n++
					}
				}
				return n
			}
			require.LessOrEqual(t, count(endpoints.PlannerAct), count(endpoints.PlannerOff))
		})
	}
}

// TestEndOfAnOutageIsDetectedSoon begins outages at many phases of the interval.
func TestEndOfAnOutageIsDetectedSoon(t *testing.T) {
	t.Parallel()
	var total time.Duration
	const phases = 20
	for phase := range phases {
		late, polls := outage(t, time.Duration(phase)*500*time.Millisecond, 3*time.Minute, clamped("short"))
		require.LessOrEqual(t, late, 18*time.Second, "a tenth of it")
		require.LessOrEqual(t, polls, 60)
		total += late
	}
	require.LessOrEqual(t, total/phases, 10*time.Second, "mean of three minutes")
	for phase := range phases {
		spec := clamped("long")
		spec.MaxInterval = 0
		late, polls := outage(t, time.Duration(phase)*500*time.Millisecond, time.Hour, spec)
		require.LessOrEqual(t, late, 6*time.Minute, "a tenth of it")
		require.LessOrEqual(t, polls, 60, "phase %d", phase)
	}
}

// outage lets a target fail for a time. It returns the delay until the first success after the end,
// and the number of requests during the outage.
func outage(t *testing.T, phase, length time.Duration, spec endpoints.Spec) (late time.Duration, polls int) {
	t.Helper()
	w := newWorld(t, heuristic.New(), planner.DefaultGuardrails())
	from := begin.Add(time.Hour + phase)
	e := w.add(spec, func(at time.Time) answer {
		if at.Before(from) || !at.Before(from.Add(length)) {
			return answer{status: runs.Succeeded, code: 200, digest: uint64(at.Unix() / 10)}
		}
		return answer{status: runs.Failed, code: 500}
	})
	w.run(from.Add(length + 20*time.Minute))
	for _, run := range e.runs {
		if run.Outcome.Status == runs.Failed {
			polls++
		}
	}
	seen := slices.IndexFunc(e.slots, func(at time.Time) bool { return !at.Before(from.Add(length)) })
	require.NotNil(t, e.runs[seen])
	return e.slots[seen].Sub(from.Add(length)), polls
}

// Without a minimum the planner never calls a target more often than the baseline.
func TestNothingRunsFasterThanItsBaselineWithoutAMinimum(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]func(time.Time) answer{
		"Changes": func(at time.Time) answer {
			return answer{status: runs.Succeeded, code: 200, digest: uint64(at.UnixNano())}
		},
		"Fails": func(at time.Time) answer {
			return []answer{{status: runs.Failed, code: 500}, {status: runs.Succeeded, code: 200, digest: 1}}[at.Minute()/2%2]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, heuristic.New(), saleRails())
			e := w.add(interval("calm", 10*time.Second), target)
			w.run(begin.Add(2 * time.Hour))
			for i, at := range e.slots[1:] {
				require.GreaterOrEqual(t, at.Sub(e.slots[i]), 10*time.Second)
			}
		})
	}
}
