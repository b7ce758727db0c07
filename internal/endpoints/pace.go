package endpoints

import (
	"fmt"
	"strconv"
	"time"

	"rubato/internal/governor"
	"rubato/internal/tempo"
)

// Names of budgets in [Pace] beside those of shared budgets.
const (
	// BudgetOwn is the budget field of the endpoint.
	BudgetOwn = "endpoint"
	// BudgetBaseline is the implied budget: the runs of the baseline.
	BudgetBaseline = "baseline"
)

// Pace is the effect of the rate of change on the interval of an endpoint, for display.
type Pace struct {
	// Steers means that the rate of change sets the interval now.
	Steers bool
	// Why names in a sentence the rule that sets the interval, and the one of the rate of change.
	Why string
	// Known means that at least one answer was compared. Otherwise Rate, Price, Wait and Next are
	// zero.
	Known bool
	// Rate is the present rate of change by the filter, per second.
	Rate float64
	// Price is the price of a run by which Wait was set, in change-seconds.
	Price float64
	// Wait is the interval that the rate of change sets, or would set.
	Wait time.Duration
	// Shortest and Longest bound Wait; Longest 0: no bound.
	Shortest, Longest time.Duration
	// Budget is [BudgetOwn], [BudgetBaseline] or the name of a shared budget.
	Budget string
	// Runs is the number of runs that the budget allows, such as 600/h. It is empty for the
	// baseline.
	Runs string
	// Every is the interval that spends the budget evenly. A shared budget is that of all its
	// endpoints.
	Every time.Duration
	Next  NextLook
}

// NextLook is the value of a run after Wait.
type NextLook struct {
	// Changes is the expected number of new changes that it finds.
	Changes float64
	// Worth is the index of the run, which the index law compares with the price, in
	// change-seconds.
	Worth float64
	// Why says it in a sentence.
	Why string
}

// Pace returns the effect of the rate of change on the interval. If the endpoint keeps no rate,
// because its planner may not act or it compared no answer yet, the rate is that of recorded looks,
// oldest first. e.Shared is the shared budget with its present price.
func (e *Endpoint) Pace(now time.Time, recorded []tempo.Look) (Pace, error) {
	terms, err := e.tempoTerms(now)
	if err != nil {
		return Pace{}, err
	}
	var p Pace
	if p.Shortest, p.Longest, err = e.TempoBounds(now); err != nil {
		return Pace{}, err
	}
	if err := p.setBudget(e, terms); err != nil {
		return Pace{}, err
	}
	state := e.State.Tempo
	if state == nil || state.Age == 0 {
		forecast := tempo.NewState()
		for _, look := range recorded {
			forecast.After(look, terms)
		}
		state = &forecast
	}
	if state.Age > 0 { // The first answer has nothing to differ from.
		p.Known, p.Rate, p.Price, p.Wait = true, state.Filter.Rate(), state.Price, state.Wait
		p.Next = nextLook(state, terms)
	}
	in, err := e.input(now, governor.CauseReplan)
	if err != nil {
		return Pace{}, err
	}
	p.Steers = p.Known && in.FollowsChanges() && !e.Archived() && !e.PausedAt(now)
	p.Why = e.whyPace(now, p, in)
	return p, nil
}

func (p *Pace) setBudget(e *Endpoint, terms tempo.Terms) error {
	budget := terms.Budget
	switch {
	case e.Spec.Budget != "":
		p.Budget, p.Runs = BudgetOwn, e.Spec.Budget
	case e.Shared != nil:
		p.Budget, p.Runs = e.Shared.Key, e.Shared.Runs
		shared, err := tempo.ParseBudget(p.Runs)
		if err != nil {
			return fmt.Errorf("reading the shared budget of endpoint %s: %w", e.ID, err)
		}
		budget = shared
	default:
		p.Budget = BudgetBaseline
	}
	p.Every = budget.Every()
	return nil
}

// nextLook returns the value of the run after the wait in force.
func nextLook(s *tempo.State, terms tempo.Terms) NextLook {
	n := NextLook{Changes: s.Filter.Expected(s.Wait), Worth: s.Filter.Worth(s.Wait)}
	against := "about what a run costs"
	switch price := figure(s.Price); {
	case n.Worth > 1.5*s.Price:
		against = "more than the " + price + " that a run costs"
		switch {
		case s.UsedUp:
			against += "; the budget is used up until then"
		case s.Wait <= terms.Shortest:
			against += "; the bounds allow no shorter wait"
		}
	case n.Worth < s.Price/1.5:
		against = "less than the " + price + " that a run costs"
		if s.Wait >= terms.Longest {
			against += "; the bounds allow no longer wait"
		}
	}
	n.Why = fmt.Sprintf("a run %s after the last one finds %s new changes on average and is worth %s change-seconds, %s",
		shortly(s.Wait), figure(n.Changes), figure(n.Worth), against)
	return n
}

// whyPace names the rule that sets the interval.
func (e *Endpoint) whyPace(now time.Time, p Pace, in governor.Input) string {
	if p.Steers {
		return "the rate of change sets the interval"
	}
	would := "; no two answers could be compared yet"
	if p.Known {
		would = "; the rate of change would set it to " + shortly(p.Wait)
	}
	switch hint := e.State.IntervalHint; {
	case e.Archived():
		return "the endpoint is archived and never runs again"
	case e.PausedAt(now):
		return "the endpoint is paused" + would
	case e.Spec.Planner != PlannerAct:
		return "planner is " + string(e.Spec.Planner) + ", so the baseline sets the interval" + would
	case !e.paced():
		return "the baseline is a cron, whose times hold unless there is a budget" + would
	case in.Hinted() && hint != nil:
		return "a hint of " + hint.Author + " sets the interval until " + hint.ExpiresAt.UTC().Format(time.RFC3339) + would
	case !p.Known:
		return "no two answers could be compared yet, so the baseline sets the interval"
	case e.State.FailureCount > 0:
		return "the target fails, so the backoff sets the interval" + would
	default:
		return "the baseline sets the interval until the next run ends" + would
	}
}

// figure returns a number to three digits.
func figure(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// shortly returns a duration in whole seconds, unless it is shorter than ten.
func shortly(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// BaselineRuns returns how many runs the baseline alone would have made in a period, outside of
// pauses within it. It counts from the creation or the start of the schedule, and to the archiving.
func (e *Endpoint) BaselineRuns(from, to time.Time, pauses [][2]time.Time) (int64, error) {
	from = laterOf(from, laterOf(e.CreatedAt, e.Spec.StartAt))
	if e.Archived() && e.ArchivedAt.Before(to) {
		to = e.ArchivedAt
	}
	cron, err := e.Spec.ParseCron(e.ID)
	if err != nil {
		return 0, fmt.Errorf("parsing the baseline of endpoint %s: %w", e.ID, err)
	}
	var runs int64
	var served time.Duration
	add := func(begin, end time.Time) {
		begin = laterOf(begin, from)
		if end.After(to) {
			end = to
		}
		if !end.After(begin) {
			return
		}
		if served += end.Sub(begin); cron != nil {
			runs += cron.Count(begin, end)
		}
	}
	for _, pause := range pauses {
		add(from, pause[0])
		from = laterOf(from, pause[1])
	}
	add(from, to)
	if cron == nil {
		runs = int64(served / e.Spec.BaselineInterval)
	}
	return runs, nil
}
