package tempo

import (
	"math"
	"time"

	"rubato/internal/runs"
)

const (
	// rootPrior is the assumed mean of the square root of the rate: a change per minute.
	rootPrior = 0.129
	// busyPrior is the time that the assumption weighs against busier hours, and quietPrior against
	// quieter ones. The price follows busy hours soon, because they spend runs fast. It follows quiet
	// ones slowly, because they may be the night before a busy day: at a price that fell with them,
	// the day would begin with too many runs.
	busyPrior  = 30 * time.Minute
	quietPrior = 8 * time.Hour
	// rootMemory is the memory of the mean. It spans several days, so that day and night share a
	// price.
	rootMemory = 3 * day

	day = 24 * time.Hour
)

// hysteresis is the factor by which a new wait must differ from the wait in force. It keeps the
// tempo at a constant rate still.
const hysteresis = 1.2

// State is what the tempo of an endpoint depends on. It is updated after every run and stored with
// the schedule. One goroutine owns it. See [NewState] and [Decode].
type State struct {
	Filter Filter
	// LookedAt is the start of the last look; zero: none.
	LookedAt time.Time
	// Digest is that of the last look's answer.
	Digest uint64
	// RanAt is the start of the last run that sent a request; zero: none.
	RanAt time.Time
	// Root is the mean of the square root of the rate of change over the past days.
	Root float64
	// Age is the time that Root covers.
	Age time.Duration
	// Surplus is the number of runs over the budget, in budgets of a period. Negative: below it. That
	// of a budget that a user set fades within a period, because saved runs of earlier periods may
	// not be made later. Of an implied budget it is at least zero: no user asked for these runs, so
	// saved ones are not made later.
	Surplus float64
	// Past are the runs of the past period of a budget that a user set for the endpoint.
	Past Window
	// Reserve is the share of such a budget that is kept for bursts: the price spends the rest. It
	// grows while the budget is used up, and fades within days.
	Reserve float64
	// Wait is the wait in force from one run to the next; 0: none yet.
	Wait time.Duration
	// UsedUp means that the budget of the past period is used up, so that Wait is longer than the
	// rate of change asks.
	UsedUp bool
	// Price is the price by which Wait was set.
	Price float64
}

// NewState returns the state of an endpoint that never ran.
func NewState() State { return State{Filter: NewFilter(), Root: single(rootPrior)} }

// Look is a run as far as the tempo depends on it.
type Look struct {
	// At is the start of the run. A run that starts before an earlier one is ignored.
	At time.Time
	// Answered means that the run was successful, so that Digest is comparable. Other runs only
	// count against the budget.
	Answered bool
	// Unchanged means that the target said so, as by status 304. Then Digest is ignored.
	Unchanged bool
	Digest    uint64
}

// Terms are the conditions under which a wait is chosen.
type Terms struct {
	// Budget is the endpoint's own budget. It is ignored if Shared is positive.
	Budget Budget
	// Shared is the price of a budget that endpoints share; 0: none.
	Shared float64
	// Shortest and Longest bound the wait.
	Shortest, Longest time.Duration
}

// limited reports whether a user set the endpoint's own budget, so that it limits the runs of every
// period.
func (t Terms) limited() bool { return t.Shared <= 0 && !t.Budget.Implied }

// After updates the state by a run that sent a request, and chooses the wait to the next one. It
// does not allocate.
func (s *State) After(run Look, terms Terms) {
	s.spend(run.At, terms)
	if run.Answered {
		s.look(run)
	}
	s.choose(terms)
}

// spend counts a run against the endpoint's own budget.
func (s *State) spend(at time.Time, terms Terms) {
	before := s.RanAt
	if !at.After(before) {
		return
	}
	s.RanAt = at
	limited := terms.limited()
	if limited {
		s.Past.count(at, terms.Budget.period())
	} else {
		s.Past, s.Reserve = Window{}, 0
	}
	if before.IsZero() || terms.Shared > 0 {
		return
	}
	gain, per := terms.Budget.gain(s.Age)
	gap := at.Sub(before).Seconds()
	least := 0.0
	if limited {
		s.Reserve = single(float64(s.Reserve * decay(gap/reserveMemory.Seconds())))
		s.Surplus = float64(s.Surplus * decay(gap/per.Seconds()))
		least = -maxCorrection / gain
	}
	s.Surplus += (s.every(terms).Seconds() - gap) / per.Seconds()
	s.Surplus = single(min(max(s.Surplus, least), maxCorrection/gain))
}

// every returns the interval that spends the endpoint's own budget evenly, less the reserve.
func (s *State) every(terms Terms) time.Duration {
	return time.Duration(float64(terms.Budget.Every()) / (1 - s.Reserve))
}

// look updates the filter and the mean rate by an answer.
func (s *State) look(run Look) {
	before := s.LookedAt
	if !run.At.After(before) {
		return
	}
	changed := !run.Unchanged && run.Digest != s.Digest
	known := run.Unchanged || s.Digest == 0 || runs.Comparable(run.Digest, s.Digest)
	s.LookedAt = run.At
	if !run.Unchanged {
		s.Digest = run.Digest
	}
	if before.IsZero() || !known {
		return // The first answer has nothing to differ from, and neither has the first in another form.
	}
	gap := run.At.Sub(before)
	s.Filter.Observe(gap, changed)
	s.Age = min(s.Age+gap, rootMemory)
	root, prior := math.Sqrt(s.Filter.Rate()), busyPrior
	if root < s.Root {
		prior = quietPrior
	}
	weight := min(gap.Seconds()/min(s.Age+prior, rootMemory).Seconds(), 1)
	s.Root = single(s.Root + float64(weight*(root-s.Root)))
}

// choose sets the wait by the present state. The wait in force stays unless the new one differs
// from it by more than a fifth or reaches a bound. It is longer if the budget is used up.
func (s *State) choose(terms Terms) {
	s.Price = single(s.price(terms))
	wait := s.Filter.Wait(s.Price, terms.Shortest, terms.Longest)
	longer, shorter := float64(wait) > hysteresis*float64(s.Wait), hysteresis*float64(wait) < float64(s.Wait)
	bounds := wait == terms.Shortest || wait == terms.Longest
	if longer || shorter || bounds || s.Wait < terms.Shortest || s.Wait > terms.Longest {
		s.Wait = wait
	}
	s.limit(terms)
}

// limit lengthens the wait to the instant at which the budget that a user set allows a further run.
func (s *State) limit(terms Terms) {
	s.UsedUp = false
	if !terms.limited() {
		return
	}
	rest := min(s.Past.rest(s.RanAt, terms.Budget.most()), terms.Longest)
	held := rest - s.Wait
	if held <= 0 {
		return
	}
	s.Wait, s.UsedUp = rest, true
	s.Reserve = single(min(s.Reserve+float64(reserveGain*held.Seconds()/terms.Budget.period().Seconds()), maxReserve))
}

// price returns the price of a run: the shared one, or the one that spends the endpoint's own
// budget at the rates of the past days, corrected by the runs over budget.
func (s *State) price(terms Terms) float64 {
	if terms.Shared > 0 {
		return bounded(terms.Shared)
	}
	gain, _ := terms.Budget.gain(s.Age)
	correction := min(max(float64(gain*s.Surplus), -maxCorrection), maxCorrection)
	factor := decay(math.Abs(correction))
	if correction > 0 {
		factor = 1 / factor
	}
	return bounded(float64(neutral(s.Root, s.every(terms)) * factor))
}

// single rounds to single precision, in which a state is stored.
func single(v float64) float64 { return float64(float32(v)) }
