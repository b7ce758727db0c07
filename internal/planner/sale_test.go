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

// The five phases of a flash sale, by their start.
const (
	calmBefore = 0 * time.Minute
	rising     = 30 * time.Minute // the load rises: queues change with every look, answers get slow
	critical   = 50 * time.Minute // orders fail
	recovery   = 65 * time.Minute // orders succeed again, the load falls
	calmAfter  = 80 * time.Minute
	saleEnds   = 200 * time.Minute
)

// shop holds the targets of the sale.
type shop struct{ seen uint64 }

func (s *shop) phase(at time.Time) time.Duration {
	phase := calmBefore
	for _, begins := range []time.Duration{rising, critical, recovery, calmAfter} {
		if at.Sub(begin) >= begins {
			phase = begins
		}
	}
	return phase
}

// load answers with the length of the queue. It changes in the surge and is constant in calm.
func (s *shop) load(at time.Time) answer {
	a := answer{status: runs.Succeeded, code: 200, latency: 20 * time.Millisecond, digest: 1}
	if phase := s.phase(at); phase == rising || phase == critical {
		s.seen++
		a.digest = 100 + s.seen
	}
	return a
}

// orders answers slowly in the surge and fails in the critical phase.
func (s *shop) orders(at time.Time) answer {
	a := answer{status: runs.Succeeded, code: 200, latency: 40 * time.Millisecond, digest: 1}
	switch s.phase(at) {
	case rising:
		a.latency = 400 * time.Millisecond
	case critical:
		a = answer{status: runs.Failed, code: 500, latency: 900 * time.Millisecond}
	default:
	}
	return a
}

// steady is a target that always succeeds with the same answer.
func steady(time.Time) answer {
	return answer{status: runs.Succeeded, code: 200, latency: 10 * time.Millisecond, digest: 1}
}

// saleRails are the rails of an installation for a closely watched sale.
func saleRails() planner.Guardrails {
	r := planner.DefaultGuardrails()
	r.AnalysesPerHour, r.Dwell, r.ChangesPerHour, r.MinGap = 240, 20*time.Second, 60, 10*time.Second
	return r
}

func TestFlashSale(t *testing.T) {
	t.Parallel()
	w := newWorld(t, heuristic.New(), saleRails())
	s := &shop{}
	member := func(name, role string, every time.Duration, answer func(time.Time) answer) *actor {
		spec := interval(name, every)
		spec.MinInterval, spec.MaxInterval = 5*time.Second, 2*time.Hour
		spec.Labels = map[string]string{planner.GroupLabel: "sale"}
		if role != "" {
			spec.Labels[planner.RoleLabel] = role
		}
		return w.add(spec, answer)
	}
	load := member("load", "", time.Minute, s.load)
	orders := member("orders", "", time.Minute, s.orders)
	health := member("health", "health", 2*time.Minute, steady)
	investigation := member("investigation", "investigation", time.Hour, steady)
	mend := member("recovery", "recovery", time.Hour, steady)
	alert := member("alert", "alert", time.Hour, steady)

	w.run(begin.Add(saleEnds))

	window := func(a *actor, from, to time.Duration) int { return a.between(begin.Add(from), begin.Add(to)) }
	// The load endpoint runs more than twice as often as in calm once the filter has seen its
	// changes.
	require.Greater(t, window(load, rising+10*time.Minute, critical), 2*10, "tempo in the surge:\n%s", said(load))
	require.Greater(t, window(health, critical+3*time.Minute, recovery), 2*6, "health is watched while orders fail")
	require.GreaterOrEqual(t, window(investigation, rising, recovery), 2, "evidence is gathered during the trouble")
	require.Positive(t, window(mend, rising, recovery)-1, "what mends has run, beside its own hour")
	require.Positive(t, window(alert, rising, recovery)-1, "somebody was told")
	require.Greater(t, window(orders, critical, critical+5*time.Minute), 5, "the first failures are watched more closely than the baseline does")
	require.Less(t, window(orders, critical, recovery), 60, "and the rest is left to the backoff")

	// Calm: an hour after the sale no endpoint runs faster than its baseline.
	for _, a := range w.actors {
		usual, err := a.Usual(w.now)
		require.NoError(t, err)
		last := window(a, saleEnds-time.Hour, saleEnds)
		require.LessOrEqual(t, last, int(time.Hour/usual)+1, "%s is calm again", a.Spec.Name)
		if h := a.State.IntervalHint; h != nil && h.ExpiresAt.After(w.now) {
			require.GreaterOrEqual(t, h.Interval, usual, "%s: no hint asks for more than the baseline", a.Spec.Name)
		}
	}
	require.Less(t, window(load, saleEnds-time.Hour, saleEnds), 40, "answers that do not change are looked at less")
	for _, a := range w.actors {
		for _, session := range a.session {
			require.NotEmpty(t, session.Verdict.Reasoning)
			require.LessOrEqual(t, session.NextAt.Sub(session.StartedAt), 24*time.Hour)
		}
	}
	require.Contains(t, said(orders), "watched at a tenth")
	require.Contains(t, said(health), "orders of its group")
}

// TestFlashSaleIsTheSameEveryTime: a simulation depends on no clock and no random source.
func TestFlashSaleIsTheSameEveryTime(t *testing.T) {
	t.Parallel()
	story := func() string {
		w := newWorld(t, heuristic.New(), saleRails())
		s := &shop{}
		orders := w.add(interval("orders", time.Minute), s.orders)
		w.run(begin.Add(saleEnds))
		return said(orders)
	}
	require.Equal(t, story(), story())
}

// said returns the reasoning of all sessions of an endpoint.
func said(a *actor) string {
	var b strings.Builder
	for _, s := range a.session {
		b.WriteString(s.StartedAt.Format(time.TimeOnly) + " " + string(s.Outcome) + " " + s.Verdict.Reasoning + "\n")
	}
	return b.String()
}
