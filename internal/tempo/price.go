package tempo

import (
	"math"
	"time"
)

// PriceStep is the time between two steps of a shared price.
const PriceStep = 10 * time.Second

// A gain is the factor between the runs over a budget, in budgets of a period, and the logarithm of
// the price. A high gain keeps the budget in every hour; a low one lets runs move from quiet hours
// to busy ones.
const (
	// sharedGain is the gain of a budget that endpoints share. A price that stays within a factor
	// of 25 (3.2 natural logarithms) keeps an hourly budget within 3.2/108 = 3 %.
	sharedGain = 108
	// ownGain is the gain of an endpoint's own budget, which [Window] limits in every hour. It is low
	// enough for runs to move to the bursts of an hour.
	ownGain = 16
	// newGain replaces ownGain in the first hour, because the first price is a guess.
	newGain = 72
	// longGain is the gain of a budget for longer than an hour. It is small, because such a budget
	// is given so that runs can move from the night to the day.
	longGain = 6
	// looseGain is the gain of an implied budget, which no user has set.
	looseGain = 0.5
)

// The reserve of a budget that a user set for an endpoint grows by reserveGain times the time for
// which the budget held a run back, in periods. It fades within reserveMemory. Without it, runs
// between bursts would leave none for the next one.
const (
	reserveGain   = 2
	reserveMemory = 2 * day
	maxReserve    = 0.5
)

// maxCorrection bounds the logarithm of the correction by the runs over budget. Without it, the
// runs that a quiet week has left over would be spent at once.
const maxCorrection = 5

// Bounds of a price, in change-seconds. They cover waits from a millisecond to a year at every rate
// of the grid.
const (
	minPrice = 1e-9
	maxPrice = 1e12
)

// Budget is a number of runs in a period.
type Budget struct {
	// Runs is positive.
	Runs int64
	// Per is the period, at least a second.
	Per time.Duration
	// Implied means that the budget is that of the baseline interval. Then it holds on average over
	// days only.
	Implied bool
}

// Every returns the interval that spends the budget evenly.
func (b Budget) Every() time.Duration { return max(b.Per/time.Duration(max(b.Runs, 1)), 1) }

// period returns the time in which the budget holds: a budget per second holds in an hour too.
func (b Budget) period() time.Duration { return max(b.Per, time.Hour) }

// most returns the largest number of runs in a period.
func (b Budget) most() int64 { return b.Runs * int64(b.period()/b.Per) }

// gain returns the gain of the endpoint's own budget and the period that it counts for.
func (b Budget) gain(age time.Duration) (gain float64, per time.Duration) {
	switch {
	case b.Implied:
		return looseGain, day
	case b.Per > time.Hour:
		return longGain, b.Per
	case age < time.Hour:
		return newGain, time.Hour
	default:
		return ownGain, time.Hour
	}
}

// Next returns a shared price after a step: used runs in the time since the previous step. The
// price rises if they exceed the budget and falls if they are below it.
func (b Budget) Next(price float64, used int64, since time.Duration) float64 {
	if since <= 0 {
		return price
	}
	per := b.period()
	due := since.Seconds() / b.Every().Seconds()
	move := sharedGain * since.Seconds() / per.Seconds() * (float64(used)/due - 1)
	return bounded(price * math.Exp(min(max(move, -maxCorrection), maxCorrection)))
}

// FirstPrice returns the price of a shared budget before its first step. It spends the budget if
// endpoints change once a minute.
func (b Budget) FirstPrice() float64 { return neutral(rootPrior, b.Every()) }

// neutral returns the price at which runs come every so often on average, given the mean of the
// square root of the rate: the index law waits sqrt(2 price / rate), so the mean frequency of runs
// is root / sqrt(2 price).
func neutral(root float64, every time.Duration) float64 {
	t := float64(root * every.Seconds())
	return bounded(float64(t*t) / 2)
}

func bounded(price float64) float64 { return min(max(price, minPrice), maxPrice) }
