package endpoints

import (
	"time"

	"rubato/internal/governor"
	"rubato/internal/spending"
	"rubato/internal/tempo"
)

// SharedBudget is a budget that the endpoints of a tenant, a host or a label share.
type SharedBudget struct {
	// Key identifies the budget among those of the tenant.
	Key string
	// Runs is the budget itself, for example "600/h". The basis of a decision does not have it.
	Runs string
	// Name is shown in decisions, for example "600/h of label:team=shop".
	Name string
	// Price is the current price of a run, in change-seconds; positive.
	Price float64
}

// NewSharedBudget returns a budget as an endpoint has it; nil for nil.
func NewSharedBudget(b *spending.Budget) *SharedBudget {
	if b == nil {
		return nil
	}
	return &SharedBudget{
		Key:   b.Name,
		Runs:  b.Text,
		Name:  b.Shown(),
		Price: b.Price,
	}
}

func isBudget(text string) bool {
	_, err := tempo.ParseBudget(text)
	return err == nil
}

// paced reports whether the rate of change of the answers sets the tempo: the planner may act, and
// there is a budget or an interval that implies one. A cron without budget is left alone, because
// its user chose the exact times.
func (e *Endpoint) paced() bool {
	return e.Steered() && (e.Spec.Budget != "" || e.Shared != nil || e.Spec.BaselineCron == "")
}

// Steered reports whether the price of a shared budget can have an effect on decisions. The tempo
// learns from one run after the other, so it has none on overlapping runs.
func (e *Endpoint) Steered() bool { return e.Spec.Planner == PlannerAct && !e.Spec.DetachesRuns() }

// tempoTerms returns the conditions under which the tempo is chosen.
func (e *Endpoint) tempoTerms(now time.Time) (terms tempo.Terms, err error) {
	usual, err := e.baseline(now)
	if err != nil {
		return tempo.Terms{}, err
	}
	terms.Shortest, terms.Longest = e.tempoBounds(usual)
	if terms.Longest == 0 { // A cron that fires less than twice more.
		terms.Longest = indefinitely.Sub(now)
	}
	switch {
	case e.Spec.Budget != "":
		terms.Budget, err = tempo.ParseBudget(e.Spec.Budget)
	case e.Shared != nil:
		terms.Shared = e.Shared.Price
	default:
		terms.Budget = tempo.Budget{
			Runs:    1,
			Per:     usual,
			Implied: true,
		}
	}
	return terms, err
}

// TempoBounds returns the shortest and the longest interval that the rate of change may set; see
// [governor.PlannerBounds].
func (e *Endpoint) TempoBounds(now time.Time) (shortest, longest time.Duration, err error) {
	usual, err := e.baseline(now)
	shortest, longest = e.tempoBounds(usual)
	return shortest, longest, err
}

// tempoBounds is TempoBounds for a usual interval. With a budget and without a minimum, the
// shortest interval is a second, because the budget limits the requests.
func (e *Endpoint) tempoBounds(usual time.Duration) (shortest, longest time.Duration) {
	shortest, longest = governor.PlannerBounds(usual, e.Spec.MinInterval, e.Spec.MaxInterval)
	if e.Spec.MinInterval <= 0 && (e.Spec.Budget != "" || e.Shared != nil) {
		shortest = time.Second
	}
	return shortest, longest
}

// observe updates the tempo by a finished run. A skipped run sent nothing, and a one-off run may
// have sent another request.
func (e *Endpoint) observe(now time.Time, run Finished) error {
	if !e.paced() {
		e.State.Tempo = nil
		return nil
	}
	if run.Status == skipped || run.manual() {
		return nil
	}
	terms, err := e.tempoTerms(now)
	if err != nil {
		return err
	}
	next := new(tempo.State)
	if e.State.Tempo != nil {
		*next = *e.State.Tempo // A copy, because other states may share it.
	} else {
		*next = tempo.NewState()
	}
	next.After(tempo.Look{
		At:        run.StartedAt,
		Answered:  run.Verdict == Success && (run.Unchanged || run.Digest != 0),
		Unchanged: run.Unchanged,
		Digest:    run.Digest,
	}, terms)
	e.State.Tempo = next
	return nil
}

// FollowsChanges reports whether the rate of change of the answers sets the tempo. That needs an
// answer that can be compared, so a target without bodies and validators keeps its baseline.
func (e *Endpoint) FollowsChanges() bool {
	t := e.State.Tempo
	return t != nil && t.Wait > 0 && !t.LookedAt.IsZero() && e.Spec.Planner == PlannerAct
}

// changeRate returns the input of the governor's rule on the rate of change; nil: none. It takes
// the wait that the last run chose, because only workers know the prices of shared budgets. New
// clamps hold at once by the governor's rules.
func (e *Endpoint) changeRate() *governor.ChangeRate {
	t := e.State.Tempo
	if !e.FollowsChanges() {
		return nil
	}
	c := &governor.ChangeRate{
		Wait:   t.Wait,
		Rate:   t.Filter.Rate(),
		Price:  t.Price,
		Budget: e.Spec.Budget,
		UsedUp: t.UsedUp,
	}
	if c.Budget == "" && e.Shared != nil {
		c.Budget = e.Shared.Name
	}
	return c
}
