package planner

import (
	"math"
	"time"
)

// Changes counts how often a response differed from the previous one.
type Changes struct {
	Pairs   int           // of consecutive responses with known bodies
	Changed int           // of these pairs, those that differ
	Gap     time.Duration // mean time between the responses of a pair
}

// minPairs is the least number of pairs for an estimate.
const minPairs = 3

// Rate estimates how often the response changes, in changes per second; ok is false if there is too
// little data.
//
// Polling sees at most one change per poll, so the observed rate is too low. For changes that
// follow a Poisson process, -ln((n-x+0.5)/(n+0.5)) per gap, for x changes in n pairs, is nearly
// unbiased and stays finite even if every pair differs: J. Cho and H. Garcia-Molina, Estimating
// Frequency of Change, ACM Transactions on Internet Technology 3(3), 2003, section 4.2.
func (c Changes) Rate() (perSecond float64, ok bool) {
	if c.Pairs < minPairs || c.Gap <= 0 {
		return 0, false
	}
	n, x := float64(c.Pairs), float64(c.Changed)
	return -math.Log((n-x+0.5)/(n+0.5)) / c.Gap.Seconds(), true
}
