package simulate

import (
	"context"
	"fmt"
	"time"

	"rubato/internal/planner"
	"rubato/internal/planner/heuristic"
	"rubato/internal/tempo"
)

// analysisDelay is the time from a change of an endpoint's state to its analysis: half the interval
// at which the planner polls.
const analysisDelay = 500 * time.Millisecond

// world is a set of endpoints in virtual time. One goroutine owns it.
type world struct {
	actors  []*actor
	budgets []*sharedBudget
	planner planner.SessionRunner
	length  time.Duration
	// stepped is the time of the last step of prices.
	stepped time.Duration
}

func newWorld(length time.Duration) *world {
	return &world{
		planner: planner.NewSessionRunner(heuristic.New(), planner.DefaultGuardrails()),
		length:  length,
	}
}

// run lets time pass until the end.
func (w *world) run(ctx context.Context) error {
	for steps := 0; ; steps++ {
		if steps%(1<<16) == 0 && ctx.Err() != nil {
			return fmt.Errorf("simulating: %w", ctx.Err())
		}
		a, at := w.next()
		if next := w.stepped + tempo.PriceStep; len(w.budgets) > 0 && next < w.length && at >= next {
			w.stepPrices()
			continue
		}
		if at >= w.length {
			break
		}
		if err := w.step(ctx, a, at); err != nil {
			return err
		}
	}
	for _, a := range w.actors {
		a.detect(w.length, w.length)
	}
	return nil
}

// stepPrices moves the prices of shared budgets.
func (w *world) stepPrices() {
	w.stepped += tempo.PriceStep
	for _, b := range w.budgets {
		b.step(tempo.PriceStep)
	}
}

// next returns the actor of the next event, and its time.
func (w *world) next() (first *actor, at time.Duration) {
	at = never
	for _, a := range w.actors {
		if next := a.next(); next < at {
			first, at = a, next
		}
	}
	return first, at
}

// next returns the time of the actor's next event. An analysis waits for the run in flight.
func (a *actor) next() time.Duration {
	if a.finish != never {
		return a.finish
	}
	return min(a.due, a.analysis)
}

func (w *world) step(ctx context.Context, a *actor, now time.Duration) error {
	switch {
	case a.finish != never:
		failing := a.endpoint.State.FailureCount > 0
		if err := a.end(now); err != nil {
			return err
		}
		if failing != (a.endpoint.State.FailureCount > 0) {
			w.tellGroup(a, now)
		}
		return nil
	case a.due <= now:
		a.start(now)
		return nil
	default:
		return w.analyse(ctx, a, now)
	}
}

// tellGroup triggers the analyses of endpoints with a role when an endpoint of their group begins
// or ceases to fail.
func (w *world) tellGroup(a *actor, now time.Duration) {
	for _, other := range w.siblings(a) {
		if other.evidence != nil && other.endpoint.Spec.Labels[planner.RoleLabel] != "" {
			other.analyseSoon(now)
		}
	}
}

// analyseSoon triggers an analysis.
func (a *actor) analyseSoon(now time.Duration) {
	a.analysis = min(a.analysis, max(now+analysisDelay, a.notBefore))
}

// siblings returns the other endpoints of the group.
func (w *world) siblings(a *actor) (list []*actor) {
	group := a.endpoint.Spec.Labels[planner.GroupLabel]
	if group == "" {
		return nil
	}
	for _, other := range w.actors {
		if other != a && other.endpoint.Spec.Labels[planner.GroupLabel] == group {
			list = append(list, other)
		}
	}
	return list
}

// parkedFor is the time until a parked endpoint is looked at again.
const parkedFor = time.Minute

// analyse runs an analysis and applies its changes.
func (w *world) analyse(ctx context.Context, a *actor, now time.Duration) error {
	e := *a.endpoint
	m := planner.Inputs{
		Endpoint: &e,
		Now:      a.target.begin.Add(now),
		Runs:     a.evidence.newest(planner.HealthSample),
	}
	if planner.Parked(m) {
		a.analysis = now + parkedFor
		return nil
	}
	for _, other := range w.siblings(a) {
		sibling := *other.endpoint
		s := planner.SiblingHistory{Endpoint: &sibling}
		if other.evidence != nil {
			s.Runs = other.evidence.newest(planner.SiblingSample)
		}
		if planner.VisibleToAdvisor(&sibling) {
			m.Siblings = append(m.Siblings, s)
		}
	}
	c, err := w.planner.Analyse(ctx, m, planner.Claim{
		Account: planner.Account{EndpointID: e.ID},
		Trigger: planner.TimeReached,
		Memory:  a.memory,
	})
	if err != nil {
		return fmt.Errorf("analysing %s: %w", e.Spec.Name, err)
	}
	a.memory, a.analysis, a.notBefore = c.Memory, c.NextAt.Sub(a.target.begin), c.NotBefore.Sub(a.target.begin)
	if c.Apply == nil {
		return nil
	}
	if _, err := c.Apply(a.endpoint, nil, m.Now); err != nil {
		return fmt.Errorf("changing %s after an analysis: %w", e.Spec.Name, err)
	}
	a.plan(now)
	return nil
}
