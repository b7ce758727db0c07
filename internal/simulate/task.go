package simulate

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"rubato/internal/tempo"
)

// task is one world: a cohort under a policy and a seed.
type task struct {
	scenario *Scenario
	cohort   cohort
	policy   string
	seed     uint64
}

// result is the tally of an endpoint or a fleet in one world.
type result struct {
	key rowKey
	tally
}

// tasks returns the worlds of a scenario.
func (s *Scenario) tasks(seeds int) []task {
	var list []task
	for _, c := range s.cohorts() {
		for _, policy := range c.policies() {
			for seed := range seeds {
				list = append(list, task{
					scenario: s,
					cohort:   c,
					policy:   policy,
					seed:     uint64(seed) + 1,
				})
			}
		}
	}
	return list
}

// runAll runs the worlds on every processor. Results have the order of the tasks, so that they do
// not depend on the number of processors.
func runAll(ctx context.Context, tasks []task, length time.Duration) ([][]result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([][]result, len(tasks))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(tasks)) {
		workers.Go(func() {
			for i := range next {
				var err error
				if results[i], err = tasks[i].run(ctx, length); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range tasks {
		next <- i
	}
	close(next)
	workers.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return results, nil
}

// run simulates the world.
func (t *task) run(ctx context.Context, length time.Duration) ([]result, error) {
	w := newWorld(length)
	own := make([]bool, len(t.cohort))
	for i, e := range t.cohort {
		var policy *Policy
		policy, own[i] = e.policy(t.policy)
		a, err := newActor(policy, newTarget(e, t.seed, length), length)
		if err != nil {
			return nil, err
		}
		w.actors = append(w.actors, a)
	}
	t.share(w)
	if err := w.run(ctx); err != nil {
		return nil, err
	}
	var results []result
	for i, a := range w.actors {
		if !own[i] {
			continue
		}
		if err := a.compare(length); err != nil {
			return nil, err
		}
		results = append(results, result{rowKey{t.place(t.cohort[i]), t.cohort[i].Name, t.policy}, a.tally})
	}
	for _, b := range w.budgets {
		total, err := b.total(length)
		if err != nil {
			return nil, err
		}
		results = append(results, result{rowKey{len(t.scenario.Endpoints) + b.order, b.Name, t.policy}, total})
	}
	return results, nil
}

// place returns the index of an endpoint in the scenario.
func (t *task) place(e *Endpoint) int {
	return slices.IndexFunc(t.scenario.Endpoints, func(other Endpoint) bool { return other.Name == e.Name })
}

// share sets up the shared budgets of the cohort.
func (t *task) share(w *world) {
	members := make([][]*actor, len(t.scenario.Budgets))
	for _, a := range w.actors {
		if order := t.scenario.budgetOf(&a.endpoint.Spec); order >= 0 {
			members[order] = append(members[order], a)
		}
	}
	for order, list := range members {
		if len(list) == 0 {
			continue
		}
		b := &sharedBudget{
			Budget:  &t.scenario.Budgets[order],
			order:   order,
			members: list,
		}
		b.setPrice(b.Budget.Budget.FirstPrice())
		w.budgets = append(w.budgets, b)
	}
}

// compare fills in the delays of the policies with equal polls, and the use of the budget.
func (a *actor) compare(length time.Duration) error {
	if text := a.endpoint.Spec.Budget; text != "" {
		b, err := tempo.ParseBudget(text)
		if err != nil {
			return fmt.Errorf("reading the budget of %s: %w", a.endpoint.Spec.Name, err)
		}
		a.worstShare = a.shareOf(b)
	}
	if a.polls == 0 || a.changes == 0 {
		return nil
	}
	c, err := a.clairvoyant(length)
	if err != nil {
		return err
	}
	a.fixedSum = fixedDelays(&a.target, length/time.Duration(a.polls), length)
	a.oracleSum = clairvoyantDelays([]clairvoyant{c}, a.polls)[0]
	return nil
}

// clairvoyant returns the clairvoyant policy within the bounds of the endpoint.
func (a *actor) clairvoyant(length time.Duration) (clairvoyant, error) {
	shortest, longest, err := a.endpoint.TempoBounds(a.target.begin)
	if err != nil {
		return clairvoyant{}, fmt.Errorf("finding the bounds of %s: %w", a.endpoint.Spec.Name, err)
	}
	return clairvoyant{
		target:   &a.target,
		length:   length,
		shortest: shortest,
		longest:  longest,
	}, nil
}

// total returns the tally of all endpoints of a budget. Its fixed interval is the same for
// each of them.
func (b *sharedBudget) total(length time.Duration) (t tally, err error) {
	policies := make([]clairvoyant, len(b.members))
	t.hours = make([]int64, (length+time.Hour-1)/time.Hour)
	for i, a := range b.members {
		if policies[i], err = a.clairvoyant(length); err != nil {
			return tally{}, err
		}
		one := a.tally
		one.fixedSum, one.oracleSum = 0, 0
		t.merge(&one)
		for hour, polls := range a.hours {
			t.hours[hour] += polls
		}
	}
	t.worstShare = t.shareOf(b.Budget.Budget)
	if t.polls == 0 || t.changes == 0 {
		return t, nil
	}
	every := length * time.Duration(len(b.members)) / time.Duration(t.polls)
	for _, a := range b.members {
		t.fixedSum += fixedDelays(&a.target, every, length)
	}
	for _, sum := range clairvoyantDelays(policies, t.polls) {
		t.oracleSum += sum
	}
	return t, nil
}
