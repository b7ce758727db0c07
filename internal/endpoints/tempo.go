package endpoints

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"rubato/internal/governor"
	"rubato/internal/tempo"
)

// SharedBudget is a budget that the endpoints of a tenant, a host or a label share.
type SharedBudget struct {
	// Name is shown in decisions, for example "label team=shop 600/h".
	Name string
	// Price is the current price of a run, in change-seconds; positive.
	Price float64
}

// budgetUnits are the units of a budget.
var budgetUnits = map[string]time.Duration{
	"s": time.Second,
	"m": time.Minute,
	"h": time.Hour,
	"d": 24 * time.Hour,
}

// maxBudget bounds the runs of a budget per period. It is beyond what a worker can send.
const maxBudget = 1_000_000_000

// ParseBudget parses a budget such as 600/h: a number of runs per s, m, h or d.
func ParseBudget(text string) (tempo.Budget, error) {
	number, unit, _ := strings.Cut(text, "/")
	runs, err := strconv.ParseInt(number, 10, 64)
	per := budgetUnits[unit]
	if err != nil || runs < 1 || runs > maxBudget || per == 0 || number[0] == '+' || number[0] == '0' {
		return tempo.Budget{}, fmt.Errorf("budget %q: must be runs per s, m, h or d, such as 600/h", text)
	}
	return tempo.Budget{Runs: runs, Per: per}, nil
}

func isBudget(text string) bool {
	_, err := ParseBudget(text)
	return err == nil
}

// paced reports whether the rate of change of the answers sets the tempo: the planner may act, and
// there is a budget or an interval that implies one. A cron without budget is left alone, because
// its user chose the exact times.
func (e *Endpoint) paced() bool {
	return e.Spec.Planner == PlannerAct && (e.Spec.Budget != "" || e.Shared != nil || e.Spec.BaselineCron == "")
}

// tempoTerms returns the conditions under which the tempo is chosen, and the name of the budget;
// empty for the one that the baseline implies.
func (e *Endpoint) tempoTerms(now time.Time) (terms tempo.Terms, name string, err error) {
	usual := e.Spec.BaselineInterval
	if e.Spec.BaselineCron != "" {
		plain := *e
		plain.Spec.MinInterval, plain.Spec.MaxInterval = 0, 0
		if usual, err = plain.Usual(now); err != nil {
			return tempo.Terms{}, "", err
		}
	}
	terms.Shortest, terms.Longest = governor.PlannerBounds(usual, e.Spec.MinInterval, e.Spec.MaxInterval)
	if terms.Longest == 0 { // A cron that fires less than twice more.
		terms.Longest = indefinitely.Sub(now)
	}
	switch {
	case e.Spec.Budget != "":
		terms.Budget, err = ParseBudget(e.Spec.Budget)
		name = e.Spec.Budget
	case e.Shared != nil:
		terms.Shared, name = e.Shared.Price, e.Shared.Name
	default:
		terms.Budget = tempo.Budget{
			Runs:    1,
			Per:     usual,
			Implied: true,
		}
	}
	if name != "" && e.Spec.MinInterval <= 0 {
		terms.Shortest = time.Second // The budget limits the requests, so the baseline need not.
	}
	return terms, name, err
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
	terms, _, err := e.tempoTerms(now)
	if err != nil {
		return err
	}
	next := tempo.NewState()
	if e.State.Tempo != nil {
		next = *e.State.Tempo // A copy, because other states may share it.
	}
	next.After(tempo.Look{
		At:        run.StartedAt,
		Answered:  run.Verdict == Success && (run.Unchanged || run.Digest != 0),
		Unchanged: run.Unchanged,
		Digest:    run.Digest,
	}, terms)
	e.State.Tempo = &next
	return nil
}

// FollowsChanges reports whether the rate of change of the answers sets the tempo. That needs an
// answer that can be compared, so a target without bodies and validators keeps its baseline.
func (e *Endpoint) FollowsChanges() bool {
	t := e.State.Tempo
	return t != nil && t.Wait > 0 && !t.LookedAt.IsZero() && e.paced()
}

// changeRate returns the input of the governor's rule on the rate of change; nil: none.
func (e *Endpoint) changeRate(now time.Time) (*governor.ChangeRate, error) {
	t := e.State.Tempo
	if !e.FollowsChanges() {
		return nil, nil //nolint:nilnil // The rule is optional.
	}
	terms, name, err := e.tempoTerms(now)
	if err != nil {
		return nil, err
	}
	return &governor.ChangeRate{
		Wait:   min(max(t.Wait, terms.Shortest), terms.Longest),
		Rate:   t.Filter.Rate(),
		Price:  t.Price,
		Budget: name,
	}, nil
}
